"""The pipeline explorer: drag stages and micro-batches, and watch the bubble."""

from __future__ import annotations

from course.widgets.explorer import Control, Explorer, View
from minipar.draw import Panel, gantt_svg, percent
from minipar.pipeline import Costs, gpipe, simulate
from minipar.words import _, plural

MOST_STAGES, MOST_MICRO_BATCHES = 8, 32


def axis() -> str:
    """What the axis of time says, where the unit is a forward of the whole batch."""
    return _("time, in forwards of the whole batch through one stage")


def micro_batches_in_words(count: int) -> str:
    """A number of micro-batches, in words."""
    return plural("{count} micro-batch", "{count} micro-batches", count)


def stages_in_words(count: int) -> str:
    """A number of stages, in words."""
    return plural("{count} stage", "{count} stages", count)


def title(stages: int, micro_batches: int) -> str:
    """The heading of a picture with these degrees."""
    return f"{stages_in_words(stages)}, {micro_batches_in_words(micro_batches)}"


def each(whole: Costs, micro_batches: int) -> Costs:
    """The costs of one micro-batch, where those of the whole batch are `whole`: it is the same work, cut finer."""
    return whole.times(1 / micro_batches)


def look(stages: int, micro_batches: int) -> View:
    """The picture and the numbers of GPipe with these degrees, a backward taking twice a forward."""
    schedule = gpipe(stages, micro_batches)
    timeline = simulate(schedule, each(Costs(), micro_batches))
    live = _("{live} of {all}").format(live=max(schedule.peak_live), all=micro_batches)
    facts = (
        (_("bubble: idle share of all time"), percent(timeline.bubble_of_total)),
        (_("idle time over ideal time"), percent(timeline.bubble_over_ideal)),
        (_("faster than one rank"), _("{times:.1f} times").format(times=timeline.busy / timeline.duration)),
        (_("micro-batches held at once, at most"), live),
    )
    return View(gantt_svg([Panel(_("predicted"), timeline)], title(stages, micro_batches), axis()), facts)


def pipeline(stages: int = 4, micro_batches: int = 1) -> Explorer:
    """Sliders for stages and micro-batches over the Gantt chart of GPipe."""
    return Explorer(
        (
            Control("stages", _("Stages (one rank each)"), 1, MOST_STAGES, stages),
            Control("micro_batches", _("Micro-batches"), 1, MOST_MICRO_BATCHES, micro_batches),
        ),
        look,
    )
