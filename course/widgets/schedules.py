"""The schedule gallery: every published schedule with the same work, and one of them as a Gantt chart."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from course.widgets.explorer import Control, Explorer, View
from course.widgets.pipeline import micro_batches_in_words
from minipar.draw import Panel, gantt_svg, percent
from minipar.draw.bars import Bar, Chart, Part, bars_svg
from minipar.draw.frame import FORWARD
from minipar.draw.stacked import stacked_svg
from minipar.pipeline import Costs, Schedule, Send, Timeline, by_name, lower, simulate
from minipar.words import _

NAMES = (
    "gpipe",
    "1f1b",
    "breadth-first",
    "interleaved",
    "zb-h1",
    "zb-h2",
    "zb-v",
    "v-half",
    "v-min",
    "dualpipe-v",
)
"""In the order of the slider: GPipe and 1F1B, those that loop, those that split the backward, those that turn back."""

TITLES = {
    "gpipe": "GPipe",
    "1f1b": "1F1B",
    "breadth-first": "breadth-first",
    "interleaved": "interleaved 1F1B",
    "zb-h1": "ZB-H1",
    "zb-h2": "ZB-H2",
    "zb-v": "ZB-V",
    "v-half": "V-half",
    "v-min": "V-min",
    "dualpipe-v": "DualPipe-V",
}
"""As their authors write them; names are not translated."""

RANKS = (2, 3, 4, 6, 8)
COUNTS = (2, 4, 6, 8, 12, 16)
TIMES = (1, 2, 3, 4)  # of an F, an I, a W on a rank, in units
SENDS = (0.0, 0.25, 0.5, 1.0, 2.0)  # of a message, in the same units


@lru_cache(maxsize=1024)
def written(name: str, ranks: int, micro_batches: int) -> Schedule:
    """The published schedule of this name; those that loop have two stages a rank."""
    return by_name(name, ranks, micro_batches)


@lru_cache(maxsize=1024)
def messages(name: str, ranks: int, micro_batches: int) -> int:
    """How many tensors the ranks send each other in a step."""
    return sum(isinstance(step, Send) for row in lower(written(name, ranks, micro_batches)) for step in row)


@dataclass(frozen=True)
class Shown:
    """A schedule with the times of the sliders. All have the same work: two stages a rank are each half as long."""

    name: str
    ranks: int
    micro_batches: int
    forward: float
    input: float
    weight: float
    send: float

    @property
    def title(self) -> str:
        """Its name as its authors write it."""
        return TITLES[self.name]

    @property
    def schedule(self) -> Schedule:
        """Who does what, in which order."""
        return written(self.name, self.ranks, self.micro_batches)

    @property
    def costs(self) -> Costs:
        """Of one stage."""
        share = 1 / self.schedule.virtual
        return Costs(forward=self.forward * share, input=self.input * share, weight=self.weight * share, send=self.send)

    def simulated(self) -> Timeline:
        """Its predicted timeline."""
        return _simulated(self)


@lru_cache(maxsize=4096)
def _simulated(shown: Shown) -> Timeline:
    return simulate(shown.schedule, shown.costs)


def look(schedule: int, ranks: int, micro_batches: int, forward: int, input: int, weight: int, send: int) -> View:  # noqa: A002
    """The picture and the numbers for these positions of the sliders."""
    degrees = RANKS[ranks], COUNTS[micro_batches]
    times = (float(TIMES[forward]), float(TIMES[input]), float(TIMES[weight]), SENDS[send])
    every = [Shown(name, *degrees, *times) for name in NAMES]
    chosen, yardstick = every[schedule], every[NAMES.index("1f1b")]
    timeline = chosen.simulated()
    facts = (
        (_("bubble: idle share of all time"), percent(timeline.bubble_of_total)),
        (_("bubble of a rank, step after step"), percent(timeline.bubble_rate)),
        (_("a rank holds, in micro-batches"), f"{chosen.schedule.room:g}"),
        (_("messages in a step"), str(messages(chosen.name, *degrees))),
        (
            _("against a step of 1F1B"),
            _("{times:.2f} times").format(times=timeline.duration / yardstick.simulated().duration),
        ),
    )
    title = _("{name}, {ranks} ranks, {count}").format(
        name=chosen.title, ranks=chosen.ranks, count=micro_batches_in_words(chosen.micro_batches)
    )
    chart = gantt_svg([Panel("", timeline)], title, _("time in units"))
    return View(stacked_svg([chart, _all(every, chosen)]), facts)


def _all(every: list[Shown], chosen: Shown) -> str:
    parts = (Part(_("work of a rank"), FORWARD), Part(_("idle"), None))
    bars = []
    for one in every:
        timeline = one.simulated()
        work = timeline.busy / timeline.ranks
        name = f"▸ {one.title}" if one == chosen else one.title
        words = _("idle {share}, holds {room:g}").format(
            share=percent(timeline.bubble_of_total), room=one.schedule.room
        )
        bars.append(Bar(name, (work, timeline.duration - work), words))
    chart = Chart(parts, tuple(bars), "", _("units of a step, and what a rank holds, in micro-batches"))
    return bars_svg(chart, _("The same work in every schedule"), tallest=16)


def schedules(name: str = "1f1b", ranks: int = 4, micro_batches: int = 8) -> Explorer:
    """Sliders for the schedule, its degrees and the times of its actions, over its Gantt chart and a list of all."""

    def units(values: tuple[float, ...]) -> tuple[str, ...]:
        return tuple(f"{value:g}" for value in values)

    last = len(TIMES) - 1
    return Explorer(
        (
            Control("schedule", _("Schedule"), 0, len(NAMES) - 1, NAMES.index(name), names=tuple(TITLES.values())),
            Control("ranks", _("Ranks"), 0, len(RANKS) - 1, RANKS.index(ranks), "", units(RANKS)),
            Control(
                "micro_batches", _("Micro-batches"), 0, len(COUNTS) - 1, COUNTS.index(micro_batches), "", units(COUNTS)
            ),
            Control("forward", _("Forward F"), 0, last, 0, _("units"), units(TIMES)),
            Control("input", _("Input gradient I"), 0, last, 0, _("units"), units(TIMES)),
            Control("weight", _("Weight gradient W"), 0, last, 0, _("units"), units(TIMES)),
            Control("send", _("Message"), 0, len(SENDS) - 1, 0, _("units"), units(SENDS)),
        ),
        look,
    )
