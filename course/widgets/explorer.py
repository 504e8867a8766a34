"""An explorer: sliders, and a picture with its numbers that follows them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import anywidget
import traitlets

from course.widgets.front import script, style


@dataclass(frozen=True)
class Control:
    """A slider over whole numbers from `least` to `most`; with `names`, one for each, they are shown in their place."""

    name: str
    label: str
    least: int
    most: int
    start: int
    unit: str = ""
    names: tuple[str, ...] = ()


@dataclass(frozen=True)
class View:
    """What to show for one position of the sliders: an SVG picture, and pairs of a name and a value with its unit."""

    picture: str
    facts: tuple[tuple[str, str], ...]


class Explorer(anywidget.AnyWidget):
    """Sliders for `controls`; `look` turns their values (by name) into what is shown."""

    _esm = script("explorer")
    _css = style()
    controls = traitlets.List(traitlets.Dict()).tag(sync=True)
    values = traitlets.Dict().tag(sync=True, echo_update=False)  # one page shows it: it knows what it has set
    picture = traitlets.Unicode().tag(sync=True)
    facts = traitlets.List(traitlets.List(traitlets.Unicode())).tag(sync=True)

    def __init__(self, controls: tuple[Control, ...], look: Callable[..., View]) -> None:
        self._look, self._limits = look, {c.name: (c.least, c.most) for c in controls}
        start = {c.name: c.start for c in controls}
        view = look(**start)
        super().__init__(
            controls=[asdict(c) for c in controls], values=start, picture=view.picture, facts=[*map(list, view.facts)]
        )
        self.observe(self._moved, "values")

    def _moved(self, change: dict[str, Any]) -> None:
        inside = {name: min(max(int(change["new"][name]), low), high) for name, (low, high) in self._limits.items()}
        view = self._look(**inside)
        with self.hold_sync():
            self.values, self.picture, self.facts = inside, view.picture, [*map(list, view.facts)]
