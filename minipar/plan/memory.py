"""How many bytes each rank holds at most, by part."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from minipar.pipeline.schedule import KEPT_FOR_WEIGHTS, Action
from minipar.plan.activations import kept, touched
from minipar.plan.layout import Numbers, written
from minipar.plan.model import Model
from minipar.plan.parts import Parts
from minipar.plan.software import Software
from minipar.plan.steady import HOLDING
from minipar.plan.work import Bench, counts, holders
from minipar.recompute import Recompute


@dataclass(frozen=True)
class Memory(Parts):
    """Bytes that one rank holds at its worst moment, by part; they add up to `total`.

    weights, gradients, optimizer: of the blocks. vocabulary: all three of the embedding, the positions and the head.
    activations: what blocks keep for backwards to come. logits: those of one micro-batch, and what the loss makes of
    them. buffers: what one block computes again, for as long as its backward takes.
    """

    weights: float = 0.0
    gradients: float = 0.0
    optimizer: float = 0.0
    vocabulary: float = 0.0
    activations: float = 0.0
    logits: float = 0.0
    buffers: float = 0.0


def memory(model: Model, layout: Numbers, bench: Bench) -> tuple[Memory, ...]:
    """What each pipeline rank holds; data and tensor ranks beside each other hold as much."""
    software = bench.software
    if software.holds is not None:
        return software.holds(model, layout)
    holder = holders(layout.schedule, layout.pp, layout.virtual)
    blocks = counts(model, layout, bench)
    live = peak_blocks(layout, blocks)
    return tuple(
        _of_rank(
            model,
            layout,
            software,
            sum(count for count, rank in zip(blocks, holder, strict=True) if rank == own),
            live[own],
            first=holder[0] == own,
            last=holder[-1] == own,
        )
        for own in range(layout.pp)
    )


def worst(ranks: tuple[Memory, ...]) -> Memory:
    """The rank that holds the most."""
    return max(ranks, key=lambda rank: rank.total)


def _of_rank(
    model: Model, layout: Numbers, software: Software, blocks: int, live: float, first: bool, last: bool
) -> Memory:
    weight, gradient, optimizer = state_bytes(layout, software)
    own = blocks * model.block_weights(layout.tp)
    tables = int(first) + int(last) - int(first and last and model.tied)
    ends = tables * model.vocabulary_weights(layout.tp) + first * model.position_weights + last * model.norm_weights
    tokens = layout.micro_batch * model.sequence
    saved = software.saved(model)
    whole, core = touched(saved, layout)
    again = {Recompute.NONE: 0.0, Recompute.SELECTIVE: core, Recompute.FULL: whole}[layout.recompute]
    return Memory(
        own * weight,
        own * gradient,
        own * optimizer,
        ends * (weight + gradient + optimizer),
        live * tokens * kept(saved, layout, software.feature * model.hidden),
        last * tokens * -(-model.vocabulary // layout.tp) * software.logit,
        tokens * again,
    )


def state_bytes(layout: Numbers, software: Software) -> tuple[float, float, float]:
    """Bytes a weight for itself, its gradient and its optimizer states, on one of the replicas (ZeRO, §5)."""
    shares = [1 / layout.dp if layout.zero >= level else 1.0 for level in (3, 2, 1)]
    return software.weight * shares[0], software.gradient * shares[1], software.optimizer * shares[2]


def peak_blocks(layout: Numbers, blocks: tuple[int, ...]) -> list[float]:
    """For each pipeline rank, how many blocks' activations of one micro-batch it holds at most.

    A split backward's W keeps a part of them until it is done (`minipar.pipeline.schedule`).
    """
    m = layout.micro_batches
    grows = layout.schedule in HOLDING
    enough = 1 if grows else min(m, 2 * layout.pp + 1)
    peaks = _peaks(layout.schedule, layout.pp, enough, layout.virtual, blocks)
    return [peak * m for peak in peaks] if grows else list(peaks)


@lru_cache(maxsize=4096)
def _peaks(name: str, pp: int, micro_batches: int, virtual: int, blocks: tuple[int, ...]) -> tuple[float, ...]:
    schedule = written(name, pp, micro_batches, virtual)
    return tuple(_peak(row, blocks) for row in schedule.actions)


def _peak(row: tuple[Action, ...], blocks: tuple[int, ...]) -> float:
    change = {"F": 1.0, "B": -1.0, "I": KEPT_FOR_WEIGHTS - 1, "W": -KEPT_FOR_WEIGHTS}
    held = most = 0.0
    for kind, stage, _ in row:
        held += change[kind] * blocks[stage]
        most = max(most, held)
    return most
