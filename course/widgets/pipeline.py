"""The pipeline explorer: drag stages and micro-batches, and watch the bubble."""

from __future__ import annotations

from course.widgets.explorer import Control, Explorer, View
from minipar.draw import Panel, gantt_svg, live_in_words, percent
from minipar.pipeline import gpipe, simulate
from minipar.words import _, plural

MOST_STAGES, MOST_MICRO_BATCHES = 8, 32


def look(stages: int, micro_batches: int) -> View:
    """The picture and the numbers of GPipe with these degrees, a backward taking twice a forward."""
    schedule = gpipe(stages, micro_batches)
    timeline = simulate(schedule)
    title = ", ".join(
        (
            plural("{count} stage", "{count} stages", stages),
            plural("{count} micro-batch", "{count} micro-batches", micro_batches),
        )
    )
    picture = gantt_svg(
        [Panel(_("predicted"), timeline)], title, _("time, in forwards of one micro-batch in one stage")
    )
    faster = timeline.busy / timeline.duration
    return View(
        picture,
        (
            (_("bubble: idle share of all time"), percent(timeline.bubble_of_total)),
            (_("idle time over ideal time"), percent(timeline.bubble_over_ideal)),
            (_("faster than one rank"), _("{times:.1f} times").format(times=faster)),
            (_("memory: live micro-batches"), live_in_words(max(schedule.peak_live))),
        ),
    )


def pipeline(stages: int = 4, micro_batches: int = 1) -> Explorer:
    """Sliders for stages and micro-batches over the Gantt chart of GPipe."""
    return Explorer(
        (
            Control("stages", _("Stages (one rank each)"), 1, MOST_STAGES, stages),
            Control("micro_batches", _("Micro-batches"), 1, MOST_MICRO_BATCHES, micro_batches),
        ),
        look,
    )
