"""Stacked bars of a prediction's parts, as SVG: one below the other, on one scale, with what they must stay below."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from html import escape
from itertools import groupby

from minipar.draw.frame import EDGE, RIGHT, WIDTH, Swatch, axis, figure, hatch, heading, ink, lines, percent, svg, wide

SMALL = 13  # the size of what is written beside the bars
OUTLINE = 'stroke="currentColor" stroke-opacity=".55" stroke-width=".8"'


@dataclass(frozen=True)
class Part:
    """How a part of every bar looks, and its name. No `fill`: it is idle, the page itself. Or `hatched` lines on it."""

    name: str
    fill: str | None
    hatched: bool = False


@dataclass(frozen=True)
class Bar:
    """A bar: the sizes of the picture's parts in its unit, their sum in words, and more to know.

    limit: more than that is too much. beside: what is written at its end. crossed: marked, as it cannot be; why.
    """

    label: str
    sizes: tuple[float, ...]
    beside: str
    crossed: str = ""
    limit: float = math.inf

    def __post_init__(self) -> None:
        """Refuse what has no length; rounding may leave a part a little below 0."""
        for size in self.sizes:
            if not -1e-6 * max(1.0, *self.sizes) <= size < math.inf:
                raise ValueError(f"a part of {self.label!r} is {size}; it must be a finite number of at least 0")
        object.__setattr__(self, "sizes", tuple(max(0.0, size) for size in self.sizes))

    @property
    def total(self) -> float:
        """Of all parts."""
        return sum(self.sizes)

    @property
    def end(self) -> str:
        """What is written at the bar's end."""
        return f"✗ {self.beside}" if self.crossed else self.beside


@dataclass(frozen=True)
class Chart:
    """Bars on one scale.

    limit: what the bars' limits are called; whole: a second one for all of them, and its name.
    """

    parts: tuple[Part, ...]
    bars: tuple[Bar, ...]
    unit: str
    axis: str
    limit: str = ""
    whole: float | None = None
    whole_name: str = ""

    @property
    def longest(self) -> float:
        """The length of the axis in its unit."""
        limits = [bar.limit for bar in self.bars if bar.limit < math.inf]
        return max([*(bar.total for bar in self.bars), *limits, self.whole or 0.0], default=0.0) or 1.0

    @property
    def used(self) -> Iterator[tuple[int, Part]]:
        """The parts that any bar has, and their places among all."""
        return ((nth, part) for nth, part in enumerate(self.parts) if any(bar.sizes[nth] > 0 for bar in self.bars))

    def in_words(self, bar: Bar) -> str:
        """What a bar shows."""
        sizes = [f"{part.name} {figure(bar.sizes[nth])}" for nth, part in self.used if bar.sizes[nth] > 0]
        limit = f"{self.limit} {figure(bar.limit)} {self.unit}" if bar.limit < math.inf else ""
        whole = f"{bar.label}: {bar.beside}" if bar.label else bar.beside
        return "; ".join(filter(None, [f"{whole} ({', '.join(sizes)})" if sizes else whole, limit, bar.crossed]))


@dataclass(frozen=True)
class _Frame:
    """Where the bars lie: from `left` to `right`, each at least `tall`, and what a unit is on the page."""

    left: float
    right: float
    tall: float
    scale: float


def bars_svg(chart: Chart, title: str, tallest: float = 36) -> str:
    """The bars as an SVG string: in each what its parts are, at its end the sum, and limits as lines across.

    tallest: how high a bar is where there are few.
    """
    bars = chart.bars
    left = EDGE + min(260, max((wide(bar.label, SMALL) + 12 for bar in bars), default=0))
    ends = (1.1 * wide(bar.end, SMALL) for bar in bars)  # bold, which is wider
    right = WIDTH - RIGHT - min(300, max((end + 14 for end in ends), default=0))
    frame = _Frame(left, right, max(15, min(tallest, 480 // max(len(bars), 1))), (right - left) / chart.longest)
    y, head = heading(title, [_swatch(part) for _nth, part in chart.used], EDGE)
    body, lines_on_top = [head], []
    if chart.whole is not None:
        y += 18
        whole_from = y
    for limit, group in groupby(bars, key=lambda bar: bar.limit):
        began = y = y + 22 if limit < math.inf else y + 4
        for bar in group:
            tall = max(frame.tall, 15 * len(_label(bar, frame)))
            body.append(_row(bar, chart, frame, y, tall))
            y += tall + (8 if tall > 20 else 4)
        if limit < math.inf:
            name = f"{chart.limit} {figure(limit)} {chart.unit}"
            lines_on_top.append(_limit(left + limit * frame.scale, began, y, name, 'stroke-width="2.5"'))
    if chart.whole is not None:
        name = f"{chart.whole_name} {figure(chart.whole)} {chart.unit}"
        style = 'stroke-width="1.5" stroke-dasharray="5 4"'
        lines_on_top.append(_limit(left + chart.whole * frame.scale, whole_from, y, name, style))
    body += [*lines_on_top, axis(y + 2, left, right, chart.longest, chart.axis)]
    return svg(y + 40, "; ".join([title, *map(chart.in_words, bars)]), body)


def _swatch(part: Part) -> Swatch:
    return _box(part, 0, 0, 14, 14), part.name


def _box(part: Part, x: float, y: float, width: float, height: float, says: str = "") -> str:
    """A part's box, and what is said where one points at it."""
    said = f"<title>{escape(says)}</title>" if says else ""
    lines_in_it = hatch(x, y, width, height) if part.hatched else ""
    hatched = f'<path d="{lines_in_it}" stroke="currentColor" pointer-events="none"/>' if lines_in_it else ""
    fill = part.fill or "none"
    return (
        f'<rect x="{x:.2f}" y="{y:.1f}" width="{width:.2f}" height="{height:.1f}" fill="{fill}" pointer-events="all" '
        f"{OUTLINE}>{said}</rect>{hatched}"
    )


def _label(bar: Bar, frame: _Frame) -> list[str]:
    return lines(bar.label, SMALL, frame.left - EDGE - 8)


def _row(bar: Bar, chart: Chart, frame: _Frame, y: float, tall: float) -> str:
    """A bar between its label and its sum."""
    size = min(SMALL, frame.tall - 3)
    rows = _label(bar, frame)
    first = y + tall / 2 + 4.5 - 7.5 * (len(rows) - 1)
    drawn = [
        f'<text x="{frame.left - 8:.1f}" y="{first + 15 * nth:.1f}" font-size="{size}" text-anchor="end">{escape(row)}'
        "</text>"
        for nth, row in enumerate(rows)
    ]
    x, top, words = frame.left, y + (tall - frame.tall) / 2, []
    for nth, part in chart.used:
        width = bar.sizes[nth] * frame.scale
        if width > 0:
            share = percent(bar.sizes[nth] / bar.total, 1)
            name = bar.label and f"{bar.label}: "
            says = f"{name}{part.name} {figure(bar.sizes[nth])} {chart.unit} ({share})"
            drawn.append(_box(part, x, top, width, frame.tall, says))
            crossing = frame.left + bar.limit * frame.scale - x
            room = crossing if 0 < crossing < width else width  # words keep off the limit's line
            words.append(_written(part, figure(bar.sizes[nth]), x, top, room, frame.tall))
            x += width
    if bar.total > bar.limit:
        drawn.append(_too_much(frame.left + bar.limit * frame.scale, top, x, frame.tall))
    drawn += words  # on top of the hatching
    why = f"<title>{escape(bar.crossed)}</title>" if bar.crossed else ""
    drawn.append(
        f'<text x="{WIDTH - RIGHT:.1f}" y="{y + tall / 2 + 4.5:.1f}" font-size="{size}" font-weight="600" '
        f'text-anchor="end">{why}{escape(bar.end)}</text>'
    )
    return "".join(drawn)


def _written(part: Part, number: str, x: float, y: float, width: float, height: float) -> str:
    """As much of a part's name and number as its box has room for; the number is last to go."""
    size = min(12, height - 4)
    ways = [[part.name, number], [number]] if height >= 30 else [[f"{part.name} {number}"], [number]]
    for rows in ways:
        if max(wide(row, size) for row in rows) + 6 <= width:
            fill = "currentColor" if part.fill is None else ink(part.fill)
            halo = "" if part.fill is None else f'stroke="{part.fill}" stroke-width="4" paint-order="stroke" '
            first = y + height / 2 + 0.36 * size - 7 * (len(rows) - 1)
            return "".join(
                f'<text x="{x + width / 2:.1f}" y="{first + 14 * nth:.1f}" font-size="{size:g}" text-anchor="middle" '
                f'{halo}fill="{fill}" pointer-events="none">{escape(row)}</text>'
                for nth, row in enumerate(rows)
            )
    return ""


def _too_much(x: float, y: float, end: float, tall: float) -> str:
    """What is beyond the limit: hatched, in a thick frame."""
    return (
        f'<path class="too-much" d="{hatch(x, y, end - x, tall)}" stroke="#000000" stroke-opacity=".6" '
        'stroke-width="1.3" pointer-events="none"/>'
        f'<rect x="{x:.2f}" y="{y:.1f}" width="{end - x:.2f}" height="{tall:.1f}" fill="none" stroke="currentColor" '
        'stroke-width="2.5" pointer-events="none"/>'
    )


def _limit(x: float, top: float, bottom: float, name: str, style: str) -> str:
    """A line from its name down over the bars."""
    before = wide(name, 12) + 6 < x
    place = f'x="{x - 6:.1f}" text-anchor="end"' if before else f'x="{x + 6:.1f}"'
    return (
        f'<path d="M{x:.2f} {top - 18:.1f}V{bottom:.1f}" stroke="currentColor" {style}/>'
        f'<text {place} y="{top - 7:.1f}" font-size="12">{escape(name)}</text>'
    )
