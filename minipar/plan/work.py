"""What one micro-batch costs in a block, in the head, in a stage: arithmetic, memory traffic, links, the host."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import NamedTuple

from minipar.pipeline.partition import equal_cuts, even_cuts
from minipar.plan.activations import touched
from minipar.plan.hardware import Hardware
from minipar.plan.layout import STAGES_A_RANK, Numbers
from minipar.plan.model import Model
from minipar.plan.software import Software
from minipar.recompute import Recompute


class Work(NamedTuple):
    """Seconds that one rank spends on one micro-batch in one direction, by what it does.

    matmul and memory: its GPU multiplies, or reads and writes. links: tensor ranks' messages that nothing hides.
    host: what the host takes longer to start it all. recompute: a second forward.
    """

    matmul: float = 0.0
    memory: float = 0.0
    links: float = 0.0
    host: float = 0.0
    recompute: float = 0.0

    @property
    def total(self) -> float:
        """All of it."""
        return sum(self)

    def times(self, factor: float) -> Work:
        """So many times as much."""
        return Work(*(part * factor for part in self))

    def plus(self, other: Work) -> Work:
        """Both."""
        return Work(*map(sum, zip(self, other, strict=True)))


@dataclass(frozen=True)
class Direction:
    """A forward and its backward."""

    forward: Work
    backward: Work

    @cached_property
    def seconds(self) -> tuple[float, float]:
        """Seconds of each."""
        return self.forward.total, self.backward.total

    @property
    def total(self) -> float:
        """Seconds of both."""
        return self.seconds[0] + self.seconds[1]

    def times(self, factor: float) -> Direction:
        """So many times as much."""
        return Direction(self.forward.times(factor), self.backward.times(factor))

    def plus(self, other: Direction) -> Direction:
        """Both."""
        return Direction(self.forward.plus(other.forward), self.backward.plus(other.backward))


class Bench(NamedTuple):
    """What a prediction is for: hardware, and the software that runs on it."""

    hardware: Hardware
    software: Software

    def matmul(self, rows: float, wide: float, out: float) -> float:
        """Seconds of a matrix product ``[rows, wide] · [wide, out]``.

        The arithmetic at the software's share of the peak, and three matrices through memory beside it: small ones
        are slow because they bring little arithmetic for their bytes (Williams et al. 2009, the roofline).
        """
        arithmetic = 2 * rows * wide * out / (self.hardware.flops * self.software.matmul)
        traffic = self.software.feature * (rows * wide + wide * out + rows * out) / self.hardware.bandwidth
        return arithmetic + traffic

    def through_memory(self, size: float) -> float:
        """Seconds to pass over so many bytes that were written."""
        return self.software.passes * size / self.hardware.bandwidth


def block(model: Model, layout: Numbers, bench: Bench) -> Direction:
    """One block's forward and backward of one micro-batch, on one rank.

    The backward of a matrix product is two of them (Narayanan et al. 2021, §2.2.1).
    """
    least = bench.software.host(layout, bench.hardware)
    same = Numbers(
        tp=layout.tp,
        micro_batch=layout.micro_batch,
        sequence_parallel=layout.sequence_parallel,
        recompute=layout.recompute,
    )
    return _block(model, same, bench, least)  # whatever else a layout is, it has the same blocks


@lru_cache(maxsize=4096)
def _block(model: Model, layout: Numbers, bench: Bench, least: float) -> Direction:
    software, tp = bench.software, layout.tp
    tokens = layout.micro_batch * model.sequence
    matrices = sum(bench.matmul(tokens, wide, out) for wide, out in model.matrices(tp))
    scores = software.scores * 4 * tokens * model.sequence * model.hidden / tp
    core = scores / (bench.hardware.flops * software.matmul)
    written_bytes, core_bytes = touched(software.saved(model), layout)
    memory = bench.through_memory(tokens * written_bytes)
    links = _tensor_links(model, layout, bench)
    # On a CPU the host is a part of the work; autograd's half of it is about as long as the forward's.
    host = 0.0 if software.ahead else least / 2
    forward = Work(matrices + core, memory, links, host)
    again = Work()
    if layout.recompute is Recompute.FULL:
        again = Work(recompute=forward.total)
    elif layout.recompute is Recompute.SELECTIVE:
        again = Work(recompute=core + bench.through_memory(tokens * core_bytes))
    backward = Work(2 * (matrices + core), 2 * memory, links * (1 - software.tensor_overlap), host).plus(again)
    if not software.ahead:
        return Direction(forward, backward)
    # Both directions together are no shorter than the host takes to start them.
    spare = max(0.0, least - forward.total - backward.total)
    return Direction(forward._replace(host=spare / 3), backward._replace(host=spare * 2 / 3))


def _tensor_links(model: Model, layout: Numbers, bench: Bench) -> float:
    """Two all-reduces a direction, or as many pairs of all-gather and reduce-scatter: they cost the same."""
    if layout.tp == 1:
        return 0.0
    size = bench.software.feature * layout.micro_batch * model.sequence * model.hidden
    link = bench.hardware.link(layout.tp, 1)
    if layout.tp > bench.hardware.per_node:
        link = link._replace(beta=link.beta / bench.software.ways)
    return 4 * link.ring(size, layout.tp)


def head(model: Model, layout: Numbers, bench: Bench) -> Direction:
    """The logits and the loss of one micro-batch: a product, and the logits through memory."""
    return _head(model, layout.tp, layout.micro_batch, bench)


@lru_cache(maxsize=4096)
def _head(model: Model, tp: int, micro_batch: int, bench: Bench) -> Direction:
    tokens, run = micro_batch * model.sequence, -(-model.vocabulary // tp)
    product = bench.matmul(tokens, model.hidden, run)
    memory = bench.through_memory(tokens * run * bench.software.logits)
    forward, backward = Work(product, memory), Work(2 * product, memory)
    if bench.software.ahead:
        return Direction(forward, backward)
    # On a CPU the small all-reduces cost as much as the large: the embedding's and the loss's two; the head's.
    host, link = bench.software.ends / 3, bench.hardware.link(tp, 1)
    call = 2 * (tp - 1) * (link.alpha + bench.software.wait(tp, bench.hardware))
    return Direction(forward._replace(host=2 * host + 3 * call), backward._replace(host=host + call))


@lru_cache(maxsize=4096)
def cuts(layers: int, stages: int, even: bool, last: float) -> tuple[int, ...]:
    """How many blocks each stage has, evenly or by cost; `last`: what the head costs, in blocks."""
    return tuple(map(len, even_cuts(layers, stages))) if even else equal_cuts(layers, stages, last)


def pieces(model: Model, layout: Numbers, bench: Bench) -> tuple[Direction, Direction, tuple[int, ...]]:
    """One block, the head, and how many blocks each stage has, as the software cuts."""
    one, ending, software = block(model, layout, bench), head(model, layout, bench), bench.software
    even = software.by_count or (software.even and model.layers % layout.stages == 0)
    return one, ending, cuts(model.layers, layout.stages, even, round(ending.total / one.total, 2))


def counts(model: Model, layout: Numbers, bench: Bench) -> tuple[int, ...]:
    """How many blocks each stage has."""
    return pieces(model, layout, bench)[2]


def stages(model: Model, layout: Numbers, bench: Bench) -> list[Direction]:
    """Every stage's forward and backward of one micro-batch."""
    one, ending, blocks = pieces(model, layout, bench)
    all_stages = [one.times(count) for count in blocks]
    all_stages[-1] = all_stages[-1].plus(ending)
    return all_stages


def by_rank(layout: Numbers, held: Sequence[Direction]) -> list[Work]:
    """What each pipeline rank does for one micro-batch in both directions, over all its stages."""
    holder = holders(layout.schedule, layout.pp, layout.virtual)
    ranks = [Work()] * layout.pp
    for rank, work in zip(holder, held, strict=True):
        ranks[rank] = ranks[rank].plus(work.forward.plus(work.backward))
    return ranks


def holders(schedule: str, pp: int, virtual: int) -> tuple[int, ...]:
    """The pipeline rank of each stage: in a V there and back, else in a loop."""
    return (*range(pp), *reversed(range(pp))) if schedule in STAGES_A_RANK else (*range(pp),) * virtual
