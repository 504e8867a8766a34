"""The Gantt chart of a timeline, as text for a terminal; it can also be read without colours."""

from __future__ import annotations

from rich.text import Text

from minipar.draw.frame import ink
from minipar.draw.gantt import Panel, in_words, shade, stages_of
from minipar.pipeline.timeline import Span
from minipar.words import _

RAISED = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")


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
