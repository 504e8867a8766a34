"""How long a step takes, by part: the stages' work, the schedule's own bubble, links, optimizer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from minipar.plan.layout import Numbers
from minipar.plan.model import Model
from minipar.plan.parts import Parts
from minipar.plan.steady import duration
from minipar.plan.work import Bench, Direction, by_rank, stages


@dataclass(frozen=True)
class StepTime(Parts):
    """Seconds of a step by part; they add up to `total`. Of the rank that works longest, where ranks differ.

    matmul, memory, links, host, recompute: as in `Work`, over all its micro-batches. bubble: it waits, with messages
    that take no time; messages: what they add. gradients: the replicas' sums that no backward hides. optimizer: the
    update. rest: what a step costs besides. allocator: what it costs that memory is full.
    """

    matmul: float
    memory: float
    links: float
    host: float
    recompute: float
    bubble: float
    messages: float
    gradients: float
    optimizer: float
    rest: float
    allocator: float = 0.0


def step_time(model: Model, layout: Numbers, bench: Bench, full: bool = False) -> StepTime:
    """Predict the seconds of one step. The layout must be one that the model can be cut by (`Numbers.refused`).

    full: it leaves the allocator no room.
    """
    held = stages(model, layout, bench)
    m = layout.micro_batches
    busiest = max(by_rank(layout, held), key=lambda work: work.total).times(m)
    send = message(model, layout, bench)
    alone = pipeline_seconds(layout, held, 0.0)
    duration = pipeline_seconds(layout, held, send) if send else alone
    gradients, optimizer = after(model, layout, bench, busiest.total / m)
    parts = (*busiest, alone - busiest.total, duration - alone, gradients, optimizer, bench.software.rest)
    return StepTime(*parts, allocator=(bench.software.squeezed - 1) * sum(parts) if full else 0.0)


def message(model: Model, layout: Numbers, bench: Bench) -> float:
    """Seconds of a micro-batch's features from a stage to the next, each tensor rank sending its part."""
    if layout.pp == 1:
        return 0.0
    size = bench.software.feature * layout.micro_batch * model.sequence * model.hidden
    link = bench.hardware.link(layout.pp, layout.dp * layout.tp)
    return link.send(size / layout.tp) + bench.software.stall(layout, bench.hardware)


def pipeline_seconds(layout: Numbers, held: Sequence[Direction], send: float) -> float:
    """How long the schedule's simulation takes from the first start to the last end."""
    if layout.pp == 1:
        return layout.micro_batches * sum(work.total for work in held)
    costs = tuple(work.seconds for work in held)
    return duration(layout.schedule, layout.pp, layout.micro_batches, max(1, layout.virtual), costs, send)


@lru_cache(maxsize=4096)
def _held(model: Model, pp: int, tp: int) -> tuple[int, int]:
    """Blocks and weights of a pipeline rank that holds an end of the model."""
    blocks, ends = -(-model.layers // pp), 2 if pp == 1 and not model.tied else 1
    return blocks, blocks * model.block_weights(tp) + ends * model.vocabulary_weights(tp)


def after(model: Model, layout: Numbers, bench: Bench, slot: float) -> tuple[float, float]:
    """Seconds of the gradients' sums over the replicas, less what backwards hide, and of the optimizer's update.

    slot: what a micro-batch takes on a rank: the last one's backward hides what it can.
    """
    software, hardware, dp = bench.software, bench.hardware, layout.dp
    blocks, weights = _held(model, layout.pp, layout.tp)
    update = weights * software.update / hardware.bandwidth / (dp if layout.zero else 1)
    if dp == 1:
        return 0.0, update
    link, m = hardware.link(dp, layout.tp), layout.micro_batches
    of_gradients, of_weights = link.ring(software.summed * weights, dp), link.ring(software.weight * weights, dp)
    hidden = software.zero_overlap * slot * 2 / 3
    if layout.zero == 0:
        return max(0.0, 2 * of_gradients - software.data_overlap * slot * 2 / 3), update
    if layout.zero == 1:
        late = software.pieces * blocks * (dp - 1) * link.alpha
        # Gradients come beside the last backward. Weights come beside the next step's first forwards, of two
        # micro-batches where there are so many: as long. One alone cannot hide more than it takes.
        ahead = hidden if m > 1 else hidden / 2
        return max(0.0, of_gradients - hidden) + max(0.0, of_weights - ahead) + late, update
    # ZeRO-2 keeps no sums of its own: every micro-batch's are scattered. ZeRO-3 gathers weights twice each.
    rounds = m * of_gradients + (2 * m * of_weights if layout.zero == 3 else of_weights)
    return max(0.0, rounds - m * hidden), update
