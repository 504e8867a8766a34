"""The Gantt chart of a timeline, as SVG: ranks from top to bottom, time to the right."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from typing import NamedTuple

from minipar.draw.frame import (
    BACKWARD,
    FORWARD,
    INPUT_GRADIENT,
    LEFT,
    RIGHT,
    WEIGHT_GRADIENT,
    WIDTH,
    Swatch,
    axis,
    heading,
    ink,
    lighter,
    percent,
    svg,
)
from minipar.pipeline.schedule import Kind
from minipar.pipeline.timeline import Span, Timeline
from minipar.words import _

FILL: dict[Kind, str] = {"F": FORWARD, "B": BACKWARD, "I": INPUT_GRADIENT, "W": WEIGHT_GRADIENT}

# A whole backward is a whole box; its halves are boxes with a slit, I near the top and W near the bottom, as shares
# of the height. This also tells the kinds apart where a picture is printed in grey and lighter may be a later stage.
BANDS: dict[Kind, tuple[tuple[float, float], ...]] = {
    "F": ((0, 1),),
    "B": ((0, 1),),
    "I": ((0, 0.09), (0.17, 1)),
    "W": ((0, 0.83), (0.91, 1)),
}


class Panel(NamedTuple):
    """One timeline of a picture, under a label such as "predicted"."""

    label: str
    timeline: Timeline


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
    return lighter(FILL[kind], nth * min(0.45, 0.6 / max(stages - 1, 1)))


def stages_of(timeline: Timeline) -> list[dict[int, int]]:
    """For each rank, which of its stages (0 for its first) each of the model's stages is."""
    return [
        {stage: nth for nth, stage in enumerate(sorted({span.action.stage for span in row}))} for row in timeline.rows
    ]


def gantt_svg(panels: Sequence[Panel], title: str, unit: str, scale: float = 1.0) -> str:
    """A Gantt chart as an SVG string: ranks from top to bottom, time to the right, panels below each other.

    All panels share one time axis, so their lengths compare. `title` says what to see. `unit` names what the
    axis counts, and `scale` is how many of it make a second (1000 for milliseconds).
    """
    longest = max((panel.timeline.duration for panel in panels), default=0.0) or 1.0
    per_second = (WIDTH - LEFT - RIGHT) / longest
    stages = max((len(held) for panel in panels for held in stages_of(panel.timeline)), default=1)
    top, head = heading(title, list(_legend(panels, stages)))
    y, parts = top, [head]
    for panel in panels:
        parts.append(f'<text x="{LEFT}" y="{y + 12:.0f}" font-size="13">{escape(in_words(panel))}</text>')
        y += 20
        height = _row_height(panel.timeline.ranks)
        parts.append(_rows(panel.timeline, _Frame(panel.timeline.start, y, height, per_second), stages))
        y += height * panel.timeline.ranks + 8
    parts.append(axis(y, LEFT, WIDTH - RIGHT, longest * scale, unit))
    return svg(y + 38, "; ".join([title, *map(in_words, panels)]), parts)


def _row_height(ranks: int) -> int:
    return 30 if ranks <= 4 else max(12, min(24, 240 // ranks))


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
