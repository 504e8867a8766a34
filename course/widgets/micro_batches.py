"""The micro-batch explorer: how many to cut a batch into, by the bubble, by what small ones waste, and by memory."""

from __future__ import annotations

from dataclasses import dataclass, replace

from course.widgets.explorer import Control, Explorer, View
from course.widgets.pipeline import micro_batches_in_words
from course.widgets.units import seconds_in_words
from minipar.draw.bars import Bar, Chart, Part, bars_svg
from minipar.draw.frame import FORWARD, WEIGHT_GRADIENT, YELLOW, lighter, percent
from minipar.draw.stacked import stacked_svg
from minipar.pipeline import Costs
from minipar.plan import Bench, Model, Numbers, hardware_by_name, model_by_name, software_by_name
from minipar.plan.activations import kept, touched
from minipar.plan.memory import state_bytes
from minipar.plan.work import block
from minipar.recompute import Recompute
from minipar.words import _

STAGES = (1, 2, 4, 8, 16)
COUNTS = (1, 2, 4, 8, 16, 32, 64, 128)
SAMPLES = 128
MODEL: Model = replace(model_by_name("playbook-1b"), sequence=1024)
"""16 blocks of 67 million weights; a sample has 1,024 tokens. Of the ends, lesson 05's subject, nothing is counted."""

NOTHING, BLOCKS, STAGE = range(3)  # what is computed again
GIB, MS = 2**30, 1000


def bench() -> Bench:
    """An H100 and a training program whose times were fitted to published measurements."""
    return Bench(hardware_by_name("h100"), software_by_name("nanotron"))


@dataclass(frozen=True)
class Cut:
    """A batch of `SAMPLES` in so many micro-batches over so many stages, under GPipe; `again`: what is recomputed."""

    stages: int
    micro_batches: int
    again: int

    @property
    def blocks(self) -> int:
        """Of a stage."""
        return MODEL.layers // self.stages

    @property
    def each(self) -> int:
        """Samples of a micro-batch."""
        return SAMPLES // self.micro_batches

    @property
    def costs(self) -> Costs:
        """Seconds of a micro-batch in a stage."""
        one = block(MODEL, Numbers(micro_batch=self.each, recompute=_recompute(self.again)), bench())
        return Costs(forward=self.blocks * one.forward.total, backward=self.blocks * one.backward.total)

    @property
    def seconds(self) -> dict[str, float]:
        """Of a step, by part.

        work: of a stage, were the batch one piece. small: what pieces take longer than the whole, as their matrix
        products are small and the host starts each kernel once for every piece. bubble: GPipe's, of equal stages.
        """
        one = block(MODEL, Numbers(micro_batch=self.each, recompute=_recompute(self.again)), bench())
        again = one.backward.recompute
        work = self.blocks * block(MODEL, Numbers(micro_batch=SAMPLES), bench()).total
        all_pieces = self.micro_batches * self.blocks
        return {
            "work": work,
            "small": max(0.0, all_pieces * (one.total - again) - work),
            "again": all_pieces * again,
            "bubble": (self.stages - 1) * self.blocks * one.total,
        }

    @property
    def step(self) -> float:
        """Seconds of a step."""
        return sum(self.seconds.values())

    @property
    def bytes(self) -> dict[str, float]:
        """What a stage holds when it holds most.

        states: weights, gradients, optimizer. kept: from the forwards, for backwards to come. inside: of what is
        computed again at a time, a block of one micro-batch, or the stage of one.
        """
        software, sample = bench().software, MODEL.sequence
        saved = software.saved(MODEL)
        edge = sample * kept(saved, Numbers(recompute=Recompute.FULL), software.feature * MODEL.hidden)
        whole = sample * touched(saved, Numbers())[0]
        held = {NOTHING: self.blocks * whole, BLOCKS: self.blocks * edge, STAGE: edge}[self.again]
        inside = {NOTHING: 0, BLOCKS: 1, STAGE: self.blocks}[self.again] * whole
        states = sum(state_bytes(Numbers(), software)) * self.blocks * MODEL.block_weights()
        return {"states": states, "kept": SAMPLES * held, "inside": self.each * inside}

    @property
    def room(self) -> float:
        """Bytes that a GPU has for tensors."""
        return bench().hardware.memory - bench().software.reserve

    @property
    def fits(self) -> bool:
        """Whether there is room for what is held."""
        return sum(self.bytes.values()) <= self.room


def _recompute(again: int) -> Recompute:
    return Recompute.NONE if again == NOTHING else Recompute.FULL


def cuts(stages: int, again: int) -> tuple[Cut, ...]:
    """All cuts of the batch, for these positions of the sliders."""
    return tuple(Cut(STAGES[stages], count, again) for count in COUNTS)


def fastest(stages: int, again: int) -> Cut | None:
    """The cut with the shortest step of those that have room; None where none has."""
    return min((cut for cut in cuts(stages, again) if cut.fits), key=lambda cut: cut.step, default=None)


def look(stages: int, micro_batches: int, again: int) -> View:
    """The picture and the numbers for these positions of the sliders."""
    every, chosen = cuts(stages, again), cuts(stages, again)[micro_batches]
    best = fastest(stages, again)
    seconds, held = chosen.seconds, sum(chosen.bytes.values())
    facts = (
        (_("step"), seconds_in_words(chosen.step)),
        (_("bubble: idle share of all time"), percent(seconds["bubble"] / chosen.step)),
        (
            _("pieces take longer than the whole"),
            _("{times:.2f} times").format(times=1 + seconds["small"] / seconds["work"]),
        ),
        (_("a rank holds"), _gib(held) if chosen.fits else _("{size}, no room").format(size=_gib(held))),
        (
            _("fastest with room"),
            _("none") if best is None else micro_batches_in_words(best.micro_batches),
        ),
    )
    return View(stacked_svg([_times(every, chosen, best), _memory(every, chosen)]), facts)


def _gib(size: float) -> str:
    return _("{size:.1f} GiB").format(size=size / GIB)


def _label(cut: Cut, chosen: Cut) -> str:
    name = micro_batches_in_words(cut.micro_batches)
    return f"▸ {name}" if cut == chosen else name


def _times(every: tuple[Cut, ...], chosen: Cut, best: Cut | None) -> str:
    parts = (
        Part(_("work"), FORWARD),
        Part(_("small pieces"), YELLOW),
        Part(_("computed again"), lighter(FORWARD, 0.5)),
        Part(_("bubble (idle)"), None),
    )
    star = _("{time}, the fastest with room")
    bars = tuple(
        Bar(
            _label(cut, chosen),
            tuple(seconds * MS for seconds in cut.seconds.values()),
            (star if cut == best else "{time}").format(time=seconds_in_words(cut.step)),
        )
        for cut in every
    )
    title = _("Time of a step, {stages} ranks: the bubble shrinks, small pieces waste").format(stages=chosen.stages)
    return bars_svg(Chart(parts, bars, "ms", _("milliseconds of a step")), title, tallest=16)


def _memory(every: tuple[Cut, ...], chosen: Cut) -> str:
    parts = (
        Part(_("weights, gradients, optimizer"), "#B0B0B0"),
        Part(_("kept for backwards to come"), WEIGHT_GRADIENT),
        Part(_("inside, computed again"), lighter(WEIGHT_GRADIENT, 0.6)),
    )
    bars = tuple(
        Bar(
            _label(cut, chosen),
            tuple(size / GIB for size in cut.bytes.values()),
            _gib(sum(cut.bytes.values())),
            "" if cut.fits else _("it has no room"),
            cut.room / GIB,
        )
        for cut in every
    )
    chart = Chart(parts, bars, "GiB", _("GiB that a rank holds at most"), limit=_("room of an H100"))
    return bars_svg(chart, _("Memory of a rank"), tallest=16)


def again_names() -> tuple[str, ...]:
    """What is computed again, in the slider's order."""
    return _("nothing"), _("each block"), _("the whole stage (GPipe)")


def micro_batches(stages: int = 4, count: int = 4) -> Explorer:
    """Sliders for stages, micro-batches and recompute over time and memory of every way to cut the batch."""
    return Explorer(
        (
            Control(
                "stages", _("Stages (one rank each)"), 0, len(STAGES) - 1, STAGES.index(stages), "", _names(STAGES)
            ),
            Control("micro_batches", _("Micro-batches"), 0, len(COUNTS) - 1, COUNTS.index(count), "", _names(COUNTS)),
            Control("again", _("Computed again"), 0, 2, 0, names=again_names()),
        ),
        look,
    )


def _names(numbers: tuple[int, ...]) -> tuple[str, ...]:
    return tuple(map(str, numbers))
