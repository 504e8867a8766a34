"""Every picture: here the Gantt chart of a timeline, as SVG for a page and as text for a terminal.

Colours are Okabe and Ito's, which colour-blind people can tell apart. Text and outlines take the page's
own colour, so a picture fits a light and a dark page. Idle time has no colour: it is nothing, outlined.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape
from typing import NamedTuple

from rich.text import Text

from minipar.pipeline.timeline import Span, Timeline
from minipar.words import _

FORWARD, BACKWARD = "#0072B2", "#D55E00"
FILL = {"F": FORWARD, "B": BACKWARD}
INK = {"F": "#ffffff", "B": "#000000"}  # also tells the two apart where a picture is printed in grey

WIDTH, LEFT, RIGHT = 900, 60, 10  # of the picture, in its own units
STANDALONE = (
    "<style>svg{color:#1f2328;background:#fff}"
    "@media(prefers-color-scheme:dark){svg{color:#e6edf3;background:#0d1117}}</style>"
)


class Panel(NamedTuple):
    """One timeline of a picture, under a label such as "predicted"."""

    label: str
    timeline: Timeline


def percent(share: float) -> str:
    """A share between 0 and 1 in words: 0.273 is "27 %"."""
    return f"{100 * share:.0f} %"


def in_words(panel: Panel) -> str:
    """What a panel shows, as its heading and for people who cannot see it."""
    idle = _("idle {share} of the time").format(share=percent(panel.timeline.bubble_of_total))
    return f"{panel.label}: {idle}" if panel.label else idle


def gantt_svg(panels: Sequence[Panel], title: str, unit: str, scale: float = 1.0, standalone: bool = False) -> str:
    """A Gantt chart as an SVG string: ranks from top to bottom, time to the right, panels below each other.

    All panels share one time axis, so their lengths compare. `title` says what to see. `unit` names what the
    axis counts, and `scale` is how many of it make a second (1000 for milliseconds). A `standalone` picture
    brings its own colours for light and dark pages.
    """
    longest = max((panel.timeline.duration for panel in panels), default=0.0) or 1.0
    per_second = (WIDTH - LEFT - RIGHT) / longest
    y, parts = 38.0, [_heading(title)]
    for panel in panels:
        parts.append(f'<text x="{LEFT}" y="{y + 12:.0f}" font-size="13">{escape(in_words(panel))}</text>')
        y += 20
        height = _row_height(panel.timeline.ranks)
        parts.append(_rows(panel.timeline, y, height, per_second))
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


def _heading(title: str) -> str:
    """The title at the left, the legend at the right."""
    entries = [(_("forward"), FORWARD), (_("backward"), BACKWARD), (_("idle"), "none")]
    x, legend = WIDTH - RIGHT - 245, []
    for name, fill in entries:
        legend.append(
            f'<rect x="{x}" y="9" width="14" height="14" fill="{fill}" stroke="currentColor" stroke-opacity=".4"/>'
            f'<text x="{x + 19}" y="21" font-size="12">{escape(name)}</text>'
        )
        x += 95
    return f'<text x="{LEFT}" y="22" font-size="16" font-weight="600">{escape(title)}</text>{"".join(legend)}'


def _rows(timeline: Timeline, top: float, height: int, per_second: float) -> str:
    """One row a rank: its name, an outline as long as the whole, and a box for each action."""
    width = timeline.duration * per_second
    parts = []
    for rank in range(timeline.ranks):
        y = top + rank * height
        name = _("rank {number}").format(number=rank)
        parts.append(
            f'<text x="{LEFT - 8}" y="{y + height / 2 + 4:.1f}" font-size="12" text-anchor="end">{escape(name)}</text>'
            f'<rect x="{LEFT}" y="{y + 1.5:.1f}" width="{width:.1f}" height="{height - 3}" fill="none" '
            'stroke="currentColor" stroke-opacity=".3"/>'
        )
    parts.extend(_boxes(timeline, kind, top, height, per_second) for kind in FILL)
    return "".join(parts)


def _boxes(timeline: Timeline, kind: str, top: float, height: int, per_second: float) -> str:
    """All actions of a kind: one path of boxes, as a page draws that much faster, and the micro-batches' numbers."""
    spans = [span for span in timeline.spans if span.action.kind == kind]
    origin, tall, path, numbers = timeline.start, height - 3, [], []
    size = _number_size(spans, height, per_second)
    for span in spans:
        x, width = LEFT + (span.start - origin) * per_second, (span.end - span.start) * per_second
        y, wide = top + span.rank * height + 1.5, max(width - 1, 0.5)
        path.append(f"M{x:.1f} {y:.1f}h{wide:.1f}v{tall}h-{wide:.1f}z")
        if size >= 7:  # smaller numbers cannot be read
            middle, baseline = x + wide / 2, y + tall / 2 + 0.36 * size
            numbers.append(f'<text x="{middle:.1f}" y="{baseline:.1f}">{span.action.micro_batch}</text>')
    style = f'font-size="{size:.1f}" text-anchor="middle" fill="{INK[kind]}"'
    written = f"<g {style}>{''.join(numbers)}</g>" if numbers else ""
    return f'<path d="{"".join(path)}" fill="{FILL[kind]}"/>{written}'


def _number_size(spans: Sequence[Span], height: int, per_second: float) -> float:
    """The font size at which the longest micro-batch number fits into the narrowest of these boxes."""
    digits = max((len(str(span.action.micro_batch)) for span in spans), default=1)
    width = min((span.end - span.start for span in spans), default=0.0) * per_second
    return min(13.0, height - 6, (width - 2) / (0.62 * digits))


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
    """A Gantt chart for a terminal `width` columns wide; it can also be read without colours."""
    timeline = panel.timeline
    names = [_("rank {number}").format(number=rank) for rank in range(timeline.ranks)]
    margin = max(map(len, names)) + 1
    columns = max(width - margin, 10)
    origin, per_second = timeline.start, columns / (timeline.duration or 1.0)
    text = Text(in_words(panel) + "\n")
    for rank, name in enumerate(names):
        text.append(name.ljust(margin))
        at = 0
        for span in (s for s in timeline.spans if s.rank == rank):
            start, end = (round((t - origin) * per_second) for t in (span.start, span.end))
            text.append("·" * (start - at), style="dim")
            text.append(_cell(span, end - start), style=f"{INK[span.action.kind]} on {FILL[span.action.kind]}")
            at = end
        text.append("·" * (columns - at) + "\n", style="dim")
    return text


def _cell(span: Span, width: int) -> str:
    label = f"{span.action.kind}{span.action.micro_batch}"
    return (label if len(label) <= width else label[:1]).ljust(width, "─")[:width]


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
