"""Time by part, as stacked bars: where the seconds of a step go."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.text import Text

from minipar.draw.bars import Bar, Chart, Part, bars_svg
from minipar.draw.bars_text import bars_text
from minipar.draw.frame import COMMUNICATION, FORWARD, OPTIMIZER, YELLOW, figure, lighter, percent
from minipar.words import _

if TYPE_CHECKING:
    from minipar.plan.predict import Prediction


def parts() -> dict[str, Part]:
    """How each part of `minipar.plan.StepTime` looks, in its order.

    What is sent has the colour of communication, the lighter the wider apart the ranks are: links join tensor ranks,
    messages stages, and sums of gradients the replicas. Recompute has the forward's colour, as it is one. The bubble
    is idle: the page itself. The allocator's time is hatched, as what has no room is in the picture of memory.
    """
    return {
        "matmul": Part(_("matmul"), YELLOW),
        "memory": Part(_("memory traffic"), "#808080"),
        "links": Part(_("tensor links"), COMMUNICATION),
        "host": Part(_("host"), "#4D4D4D"),
        "recompute": Part(_("recompute"), FORWARD),
        "bubble": Part(_("bubble (idle)"), None),
        "messages": Part(_("stage messages"), lighter(COMMUNICATION, 0.35)),
        "gradients": Part(_("gradient sums"), lighter(COMMUNICATION, 0.7)),
        "optimizer": Part(_("optimizer"), OPTIMIZER),
        "rest": Part(_("rest"), "#CCCCCC"),
        "allocator": Part(_("allocator, memory full"), None, hatched=True),
    }


def seconds_svg(predictions: Sequence[tuple[str, Prediction]], title: str) -> str:
    """Time by part as an SVG string, a bar for each labelled layout: of the rank that works longest.

    Times are in seconds, or in milliseconds where all steps are shorter than one.
    """
    return bars_svg(_chart(predictions), title)


def seconds_text(predictions: Sequence[tuple[str, Prediction]], width: int = 72) -> Text:
    """The same for a terminal `width` columns wide."""
    return bars_text(_chart(predictions), width)


def _chart(predictions: Sequence[tuple[str, Prediction]]) -> Chart:
    short = all(found.step_seconds < 1 for _label, found in predictions)
    unit, scale = ("ms", 1000) if short else ("s", 1)
    axis = _("milliseconds of a step") if short else _("seconds of a step")
    bars = tuple(_bar(label, found, unit, scale) for label, found in predictions)
    return Chart(tuple(parts().values()), bars, unit, axis)


def _bar(label: str, found: Prediction, unit: str, scale: int) -> Bar:
    seconds, crossed = found.time.parts, []
    beside = f"{figure(found.step_seconds * scale)} {unit}"
    if seconds["bubble"] > 1e-9 * found.step_seconds:
        idle = _("idle {share}").format(share=percent(seconds["bubble"] / found.step_seconds))
        beside = f"{beside}, {idle}"
    if found.worst.total > found.usable:
        beside = _("{total}, does not fit").format(total=beside)
        crossed.append(_("it does not fit"))
    if found.refused is not None:
        beside = _("{total}, cannot run").format(total=beside)
        crossed.append(_("it cannot run: {reason}").format(reason=found.refused))
    return Bar(label, tuple(seconds[name] * scale for name in parts()), beside, "; ".join(crossed))
