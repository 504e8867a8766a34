"""Every picture: here the Gantt chart of a timeline, as SVG for a page and as text for a terminal.

Colours are Okabe and Ito's, which colour-blind people can tell apart. Text and outlines take the page's
own colour, so a picture fits a light and a dark page. Idle time has no colour: it is nothing, outlined.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from html import escape
from itertools import accumulate
from typing import NamedTuple

from rich.text import Text

from minipar.pipeline.schedule import Kind
from minipar.pipeline.timeline import Span, Timeline
from minipar.words import _

FORWARD, BACKWARD, INPUT_GRADIENT, WEIGHT_GRADIENT = "#0072B2", "#D55E00", "#E69F00", "#009E73"
FILL: dict[Kind, str] = {"F": FORWARD, "B": BACKWARD, "I": INPUT_GRADIENT, "W": WEIGHT_GRADIENT}

# A whole backward is a whole box; its halves are boxes with a slit, I near the top and W near the bottom, as shares
# of the height. This also tells the kinds apart where a picture is printed in grey and lighter may be a later stage.
BANDS: dict[Kind, tuple[tuple[float, float], ...]] = {
    "F": ((0, 1),),
    "B": ((0, 1),),
    "I": ((0, 0.09), (0.17, 1)),
    "W": ((0, 0.83), (0.91, 1)),
}

RAISED = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")
WIDTH, LEFT, RIGHT = 900, 60, 10  # of the picture, in its own units
STANDALONE = (
    "<style>svg{color:#1f2328;background:#fff}"
    "@media(prefers-color-scheme:dark){svg{color:#e6edf3;background:#0d1117}}</style>"
)


class Panel(NamedTuple):
    """One timeline of a picture, under a label such as "predicted"."""

    label: str
    timeline: Timeline


def percent(share: float, decimals: int = 0) -> str:
    """A share between 0 and 1 in words: 0.273 is "27 %"."""
    return f"{100 * share:.{decimals}f} %"


def in_words(panel: Panel) -> str:
    """What a panel shows, as its heading and for people who cannot see it; what is emulated is said to be."""
    idle = _("idle {share} of the time").format(share=percent(panel.timeline.bubble_of_total))
    words = f"{panel.label}: {idle}" if panel.label else idle
    if not panel.timeline.emulated or _("emulated").casefold() in panel.label.casefold():
        return words
    emulated = _("{what} (emulated)")
    return f"{emulated.format(what=panel.label)}: {idle}" if panel.label else emulated.format(what=idle)


def shade(kind: Kind, nth: int, stages: int) -> str:
    """The colour of a kind of action in the nth (from 0) of a rank's `stages` stages: the later, the lighter."""
    share = nth * min(0.45, 0.6 / max(stages - 1, 1))
    channels = (int(FILL[kind][i : i + 2], 16) for i in (1, 3, 5))
    return "#" + "".join(f"{round(c + (255 - c) * share):02X}" for c in channels)


def ink(fill: str) -> str:
    """Black or white, whichever has more contrast on the colour `fill` (WCAG 2.2, relative luminance)."""
    channels = (int(fill[i : i + 2], 16) / 255 for i in (1, 3, 5))
    linear = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels)
    luminance = sum(weight * c for weight, c in zip((0.2126, 0.7152, 0.0722), linear, strict=True))
    return "#ffffff" if (luminance + 0.05) ** 2 < 1.05 * 0.05 else "#000000"


def stages_of(timeline: Timeline) -> list[dict[int, int]]:
    """For each rank, which of its stages (0 for its first) each of the model's stages is."""
    return [
        {stage: nth for nth, stage in enumerate(sorted({span.action.stage for span in row}))} for row in timeline.rows
    ]


def gantt_svg(panels: Sequence[Panel], title: str, unit: str, scale: float = 1.0, standalone: bool = False) -> str:
    """A Gantt chart as an SVG string: ranks from top to bottom, time to the right, panels below each other.

    All panels share one time axis, so their lengths compare. `title` says what to see. `unit` names what the
    axis counts, and `scale` is how many of it make a second (1000 for milliseconds). A `standalone` picture
    brings its own colours for light and dark pages.
    """
    longest = max((panel.timeline.duration for panel in panels), default=0.0) or 1.0
    per_second = (WIDTH - LEFT - RIGHT) / longest
    stages = max((len(held) for panel in panels for held in stages_of(panel.timeline)), default=1)
    top, heading = _heading(title, list(_legend(panels, stages)))
    y, parts = top, [heading]
    for panel in panels:
        parts.append(f'<text x="{LEFT}" y="{y + 12:.0f}" font-size="13">{escape(in_words(panel))}</text>')
        y += 20
        height = _row_height(panel.timeline.ranks)
        parts.append(_rows(panel.timeline, _Frame(panel.timeline.start, y, height, per_second), stages))
        y += height * panel.timeline.ranks + 8
    parts.append(_axis(y, longest, per_second, unit, scale))
    words = "; ".join([title, *(in_words(panel) for panel in panels)])
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {y + 38:.0f}" width="100%" role="img" '
        f'aria-label="{escape(words)}" font-family="system-ui, sans-serif" fill="currentColor">'
        f"{STANDALONE if standalone else ''}{''.join(parts)}</svg>"
    )


def _row_height(ranks: int) -> int:
    return 30 if ranks <= 4 else max(12, min(24, 240 // ranks))


Swatch = tuple[str, str]
"""A little picture, 14 units wide and high from 0, and what it means."""


def _legend(panels: Sequence[Panel], stages: int) -> Iterator[Swatch]:
    """What the panels contain, and nothing else."""
    kinds = {span.action.kind for panel in panels for span in panel.timeline.spans}
    names: dict[Kind, str] = {
        "F": _("forward"),
        "B": _("backward"),
        "I": _("input gradient"),
        "W": _("weight gradient"),
    }
    outline = '<rect width="14" height="14" fill="none" stroke="currentColor" stroke-opacity=".4"/>'
    for kind, name in names.items():
        if kind in kinds:
            yield "".join(_swatch(FILL[kind], 0, y, 14, thick) for y, thick in _bands(kind, 14)) + outline, name
    if any(panel.timeline.bubble_of_total > 1e-9 for panel in panels):
        yield outline, _("idle")
    if stages > 1:
        first: Kind = next((kind for kind in names if kind in kinds), "F")
        step = 14 / stages
        shades = (_swatch(shade(first, nth, stages), nth * step, 0, step, "14") for nth in range(stages))
        yield "".join(shades) + outline, _("lighter: later stage")


def _swatch(fill: str, x: float, y: float, width: float, height: str) -> str:
    return f'<rect x="{x:.3g}" y="{y:.3g}" width="{width:.3g}" height="{height}" fill="{fill}"/>'


def _heading(title: str, legend: Sequence[Swatch]) -> tuple[float, str]:
    """The title at the left, the legend at the right or, where it has no room there, below; and where that ends."""
    ends = list(accumulate((19 + _wide(name, 12) + 18 for _picture, name in legend), initial=0.0))
    beside = LEFT + _wide(title, 16) + ends[-1] < WIDTH - RIGHT
    left, top = (WIDTH - RIGHT + 18 - ends[-1], 9) if beside else (LEFT, 34)
    entries = (
        f'<g transform="translate({left + x:.0f} {top})">{picture}<text x="19" y="12" font-size="12">{escape(name)}'
        "</text></g>"
        for x, (picture, name) in zip(ends, legend, strict=False)
    )
    words = f'<text x="{LEFT}" y="22" font-size="16" font-weight="600">{escape(title)}</text>'
    return top + 29, words + "".join(entries)


def _wide(text: str, size: float) -> float:
    """About how wide a text is; only the browser knows exactly."""
    return 0.54 * size * len(text)


class _Frame(NamedTuple):
    """Where a panel's boxes lie: the time `origin` at the left, the first rank at `top`, all ranks equally high."""

    origin: float
    top: float
    height: int
    per_second: float


def _rows(timeline: Timeline, frame: _Frame, stages: int) -> str:
    """One row a rank: its name, an outline as long as the whole, and a box for each action."""
    width, parts = timeline.duration * frame.per_second, []
    for rank in range(timeline.ranks):
        y = frame.top + rank * frame.height
        name = escape(_("rank {number}").format(number=rank))
        parts.append(
            f'<text x="{LEFT - 8}" y="{y + frame.height / 2 + 4:.1f}" font-size="12" text-anchor="end">{name}</text>'
            f'<rect x="{LEFT}" y="{y + 1.5:.1f}" width="{width:.1f}" height="{frame.height - 3}" fill="none" '
            'stroke="currentColor" stroke-opacity=".3"/>'
        )
    held = stages_of(timeline)
    for kind in FILL:
        spans = [span for span in timeline.spans if span.action.kind == kind]
        size = _number_size(spans, frame)
        alike: list[list[Span]] = [[] for _nth in range(stages)]
        for span in spans:
            alike[held[span.rank][span.action.stage]].append(span)
        parts.extend(
            _boxes(some, kind, shade(kind, nth, stages), frame, size) for nth, some in enumerate(alike) if some
        )
    return "".join(parts)


def _boxes(spans: Sequence[Span], kind: Kind, fill: str, frame: _Frame, size: float) -> str:
    """All actions of a colour: one path of boxes, as a page draws that much faster, and the micro-batches' numbers."""
    origin, top, height, per_second = frame
    tall, path, numbers = height - 3, [], []
    bands = _bands(kind, tall)
    for rank, action, start, end in spans:
        x, y, wide = LEFT + (start - origin) * per_second, top + rank * height + 1.5, (end - start) * per_second - 1
        wide = wide if wide > 0.5 else 0.5
        path += [f"M{x:.1f} {y + down:.1f}h{wide:.1f}v{thick}h-{wide:.1f}z" for down, thick in bands]
        if size >= 7:  # smaller numbers cannot be read
            middle, baseline = x + wide / 2, y + tall / 2 + 0.36 * size
            numbers.append(f'<text x="{middle:.1f}" y="{baseline:.1f}">{action.micro_batch}</text>')
    style = f'font-size="{size:.1f}" text-anchor="middle" fill="{ink(fill)}"'
    written = f"<g {style}>{''.join(numbers)}</g>" if numbers else ""
    return f'<path d="{"".join(path)}" fill="{fill}"/>{written}'


def _bands(kind: Kind, tall: int) -> list[tuple[float, str]]:
    """How far below its top each part of a box of this height begins, and how thick it is."""
    return [(start * tall, f"{(end - start) * tall:.3g}") for start, end in BANDS[kind]]


def _number_size(spans: Sequence[Span], frame: _Frame) -> float:
    """The font size at which the longest micro-batch number fits into the narrowest of these boxes."""
    digits = max((len(str(span.action.micro_batch)) for span in spans), default=1)
    width = min((span.end - span.start for span in spans), default=0.0) * frame.per_second
    return min(13.0, frame.height - 6, (width - 2) / (0.62 * digits))


def _axis(y: float, longest: float, per_second: float, unit: str, scale: float) -> str:
    """Ticks at round numbers, and the unit."""
    step = nice_step(longest * scale)
    parts = [f'<path d="M{LEFT} {y:.0f}H{WIDTH - RIGHT}" stroke="currentColor" stroke-opacity=".5"/>']
    for tick in range(math.floor(longest * scale / step + 1e-9) + 1):
        x = LEFT + tick * step / scale * per_second
        parts.append(
            f'<path d="M{x:.1f} {y:.0f}v4" stroke="currentColor"/><text x="{x:.1f}" y="{y + 16:.0f}" font-size="11" '
            f'text-anchor="middle">{tick * step:g}</text>'
        )
    parts.append(f'<text x="{LEFT}" y="{y + 32:.0f}" font-size="12">{escape(unit)}</text>')
    return "".join(parts)


def nice_step(length: float, most: int = 12) -> float:
    """The smallest of 1, 2, 5, 10, 20, … (and their tenths) that cuts `length` into at most `most` steps."""
    power: float = 10.0 ** math.floor(math.log10(length / most))
    return next(power * factor for factor in (1, 2, 5, 10) if power * factor * most >= length * (1 - 1e-9))


def gantt_text(panel: Panel, width: int = 72) -> Text:
    """A Gantt chart for a terminal `width` columns wide; it can also be read without colours.

    A rank's second stage has small letters, a later one its number too, as in f0³ for the third.
    """
    timeline = panel.timeline
    names = [_("rank {number}").format(number=rank) for rank in range(timeline.ranks)]
    margin = max(map(len, names)) + 1
    columns = max(width - margin, 10)
    origin, per_second = timeline.start, columns / (timeline.duration or 1.0)
    held = stages_of(timeline)
    stages = max(map(len, held))
    text = Text(in_words(panel) + "\n")
    for name, row, nth in zip(names, timeline.rows, held, strict=True):
        text.append(name.ljust(margin))
        at = 0
        for span in row:
            start, end = (round((t - origin) * per_second) for t in (span.start, span.end))
            text.append("·" * (start - at), style="dim")
            which = nth[span.action.stage]
            fill = shade(span.action.kind, which, stages)
            text.append(_cell(span, which, end - start), style=f"{ink(fill)} on {fill}")
            at = end
        text.append("·" * (columns - at) + "\n", style="dim")
    if stages > 2:
        text.append(_("small letters: a rank's later stages, ³ its third and so on") + "\n", style="dim")
    elif stages == 2:
        text.append(_("small letters: a rank's second stage") + "\n", style="dim")
    return text


def _cell(span: Span, nth: int, width: int) -> str:
    label = f"{span.action.kind}{span.action.micro_batch}"
    label = label.lower() if nth else label
    longest_first = (label + str(nth + 1).translate(RAISED) if nth > 1 else label, label, label[:1])
    return next((name for name in longest_first if len(name) <= width), "").ljust(width, "─")


def column_split_svg(parts: int = 4) -> str:
    """The product ``x w = y`` with w cut by its columns: each rank's columns of w give the same columns of y."""
    title = _("Each rank multiplies x by its own columns of w, and gets its own columns of y")
    shades = ("#E69F00", "#56B4E9", "#009E73", "#CC79A7")
    wide, tall, cell, top = 90, 70, 60, 44
    w_left = 60 + wide + 50
    y_left = w_left + parts * cell + 60
    middle = top + wide / 2

    def box(x: float, y: float, width: float, height: float, fill: str, label: str) -> str:
        ink = "currentColor" if fill == "none" else "#000000"
        return (
            f'<rect x="{x}" y="{y}" width="{width}" height="{height}" fill="{fill}" stroke="currentColor"/>'
            f'<text x="{x + width / 2}" y="{y + height / 2 + 5}" font-size="15" text-anchor="middle" fill="{ink}">'
            f"{label}</text>"
        )

    def word(x: float, y: float, text: str, size: int = 13) -> str:
        return f'<text x="{x}" y="{y}" font-size="{size}" text-anchor="middle">{escape(text)}</text>'

    rows = top + (wide - tall) / 2
    bodies = [box(60, rows, wide, tall, "none", "x"), word(60 + wide + 25, middle + 6, "×", 20)]
    for rank in range(parts):
        fill = shades[rank % len(shades)]
        bodies.append(box(w_left + rank * cell, top, cell, wide, fill, f"w{rank}"))
        bodies.append(box(y_left + rank * cell, rows, cell, tall, fill, f"y{rank}"))
        name = _("rank {number}").format(number=rank)
        bodies.append(word(w_left + rank * cell + cell / 2, top + wide + 17, name, 12))
        bodies.append(word(y_left + rank * cell + cell / 2, top + wide + 17, name, 12))
    bodies.append(word(y_left - 30, middle + 6, "=", 20))
    bodies.append(word(60 + wide / 2, top + wide + 17, _("on every rank"), 12))
    shapes = ((60 + wide / 2, "[batch, in]"), (w_left + parts * cell / 2, "[in, out]"))
    bodies += [word(x, top + wide + 36, shape) for x, shape in (*shapes, (y_left + parts * cell / 2, "[batch, out]"))]
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {top + wide + 46}" width="100%" role="img" '
        f'aria-label="{escape(title)}" font-family="system-ui, sans-serif" fill="currentColor">'
        f'<text x="{LEFT}" y="22" font-size="16" font-weight="600">{escape(title)}</text>{"".join(bodies)}</svg>'
    )
