"""The stages explorer: cut a language model by count or by time, and watch the line wait for its slowest stage."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from course.widgets.explorer import Control, Explorer, View
from course.widgets.pipeline import micro_batches_in_words
from course.widgets.units import seconds_in_words
from minipar.draw import Panel, gantt_svg, percent
from minipar.draw.bars import Bar, Chart, Part, bars_svg
from minipar.draw.frame import YELLOW
from minipar.draw.stacked import stacked_svg
from minipar.pipeline import Costs, Timeline, balanced_cuts, even_cuts, gpipe, simulate
from minipar.plan import Bench, Numbers, hardware_by_name, model_by_name
from minipar.plan.generations import usual_software
from minipar.plan.work import block, head
from minipar.words import _, plural

MODELS = ("playbook-1b", "gpt-1.7b", "llama3-8b", "llama3-70b", "llama3-405b")
MOST_STAGES, MOST_MICRO_BATCHES = 8, 16
DEVICE = "h100"
MS = 1000
BY_COUNT, BY_TIME = range(2)


@dataclass(frozen=True)
class Line:
    """A model cut into stages: the blocks of each, and seconds of one micro-batch, by (forward, backward).

    ending: of the head alone, which the last stage has besides its blocks.
    """

    blocks: tuple[int, ...]
    one_block: tuple[float, float]
    ending: tuple[float, float]

    def seconds(self, way: int) -> list[float]:
        """What each stage takes for a micro-batch; way: 0 forward, 1 backward."""
        times = [count * self.one_block[way] for count in self.blocks]
        times[-1] += self.ending[way]
        return times

    @property
    def stage_seconds(self) -> list[float]:
        """Both ways together, of each stage."""
        return [sum(both) for both in zip(self.seconds(0), self.seconds(1), strict=True)]

    def timeline(self, micro_batches: int) -> Timeline:
        """The micro-batches following each other; messages take no time."""
        costs = Costs(forward=self.seconds(0), backward=self.seconds(1))
        return simulate(gpipe(len(self.blocks), micro_batches), costs)


@lru_cache(maxsize=128)
def line(model: int, stages: int, cut: int) -> Line:
    """The model in so many stages, a sequence at a time on an H100, as the planner has it."""
    sizes, bench = model_by_name(MODELS[model]), _bench()
    one, ending = block(sizes, Numbers(), bench), head(sizes, Numbers(), bench)
    if cut == BY_COUNT:
        cuts = even_cuts(sizes.layers, stages)
    else:
        cuts = balanced_cuts([one.total] * sizes.layers, stages, last=ending.total)
    return Line(tuple(map(len, cuts)), one.seconds, ending.seconds)


def _bench() -> Bench:
    hardware = hardware_by_name(DEVICE)
    return Bench(hardware, usual_software(hardware))


def look(model: int, stages: int, cut: int, micro_batches: int) -> View:
    """The picture and the numbers for these positions of the sliders."""
    cut_model = line(model, stages, cut)
    timeline = cut_model.timeline(micro_batches)
    times = cut_model.stage_seconds
    mean = sum(times) / len(times)
    facts = (
        (
            _("slowest stage"),
            _("{time}, {times:.2f} times the average").format(
                time=seconds_in_words(max(times)), times=max(times) / mean
            ),
        ),
        (_("step"), seconds_in_words(timeline.duration)),
        (
            _("step, were all stages equal"),
            seconds_in_words((micro_batches + stages - 1) * mean),
        ),
        (_("bubble: idle share of all time"), percent(timeline.bubble_of_total)),
    )
    title = _("{model}, {micro_batches}: the line waits for its slowest stage").format(
        model=MODELS[model], micro_batches=micro_batches_in_words(micro_batches)
    )
    gantt = gantt_svg([Panel(_("predicted"), timeline)], title, _("time in milliseconds"), scale=MS)
    return View(stacked_svg([loads_svg(cut_model), gantt]), facts)


def loads_svg(cut_model: Line) -> str:
    """What each stage takes for one micro-batch, forward and backward: its blocks and, in the last, the head."""
    times, last = cut_model.stage_seconds, len(cut_model.blocks) - 1
    bars = []
    for stage, (count, seconds) in enumerate(zip(cut_model.blocks, times, strict=True)):
        ending = sum(cut_model.ending) if stage == last else 0.0
        label = _("rank {number}: {blocks}").format(
            number=stage, blocks=plural("{count} block", "{count} blocks", count)
        )
        bars.append(Bar(label, ((seconds - ending) * MS, ending * MS), seconds_in_words(seconds)))
    return loads_chart(bars, _("How long each stage works on one micro-batch"))


def loads_chart(bars: Sequence[Bar], title: str) -> str:
    """Bars of blocks and head in milliseconds, with a line where all would end, were they equal."""
    mean = sum(bar.total for bar in bars) / len(bars)
    chart = Chart(
        (Part(_("blocks"), "#B0B0B0"), Part(_("head"), YELLOW)),
        tuple(bars),
        "ms",
        _("milliseconds, forward and backward"),
        whole=mean,
        whole_name=_("the average"),
    )
    return bars_svg(chart, title, tallest=18)


def cut_names() -> tuple[str, ...]:
    """How the blocks are shared out, in the slider's order."""
    return _("as many blocks in each"), _("by time")


def stages(model: str = "llama3-8b", stages: int = 4) -> Explorer:
    """Sliders for model, stages, cut and micro-batches over what each stage takes and the Gantt chart."""
    return Explorer(
        (
            Control("model", _("Model"), 0, len(MODELS) - 1, MODELS.index(model), names=MODELS),
            Control("stages", _("Stages (one rank each)"), 1, MOST_STAGES, stages),
            Control("cut", _("Cut"), 0, 1, 0, names=cut_names()),
            Control("micro_batches", _("Micro-batches"), 1, MOST_MICRO_BATCHES, 1),
        ),
        look,
    )
