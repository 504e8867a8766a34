"""How many bytes each rank holds at most, by part."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from minipar.pipeline.schedule import KEPT_FOR_WEIGHTS, Action
from minipar.plan.activations import kept, touched
from minipar.plan.closed import HOLDING
from minipar.plan.layout import Numbers, written
from minipar.plan.model import Model
from minipar.plan.parts import Parts
from minipar.plan.software import Software
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
    if bench.software.holds is not None:
        return bench.software.holds(model, layout)
    weight, gradient, optimizer = state_bytes(layout, bench.software)
    block_weights = model.block_weights(layout.tp)
    activation, again, logits = _of_a_micro_batch(model, layout, bench)
    ranks = []
    for rank, (count, live, ends) in enumerate(_held(model, layout, bench)):
        own = count * block_weights
        ranks.append(
            Memory(
                own * weight,
                own * gradient,
                own * optimizer,
                ends * (weight + gradient + optimizer),
                live * activation,
                logits * (rank == holders(layout.schedule, layout.pp, layout.virtual)[-1]),
                again,
            )
        )
    return tuple(ranks)


def needed(model: Model, layout: Numbers, bench: Bench) -> float:
    """Bytes of the rank that holds the most, as `memory` has them by part: a search asks for thousands."""
    if bench.software.holds is not None:
        return worst(bench.software.holds(model, layout)).total
    state, block_weights = sum(state_bytes(layout, bench.software)), model.block_weights(layout.tp)
    activation, again, logits = _of_a_micro_batch(model, layout, bench)
    held = _held(model, layout, bench)
    ranks = [(count * block_weights + ends) * state + live * activation for count, live, ends in held]
    ranks[holders(layout.schedule, layout.pp, layout.virtual)[-1]] += logits
    return max(ranks) + again


def _held(model: Model, layout: Numbers, bench: Bench) -> list[tuple[int, float, int]]:
    """Of each rank: its blocks, those whose activations it holds at most, and its weights outside of blocks."""
    blocks, holder = counts(model, layout, bench), holders(layout.schedule, layout.pp, layout.virtual)
    held, ends = [0] * layout.pp, [0] * layout.pp
    for rank, count in zip(holder, blocks, strict=True):
        held[rank] += count
    first, last, tables = holder[0], holder[-1], model.vocabulary_weights(layout.tp)
    ends[first] += tables + model.position_weights
    ends[last] += model.norm_weights + (0 if first == last and model.tied else tables)
    return list(zip(held, peak_blocks(layout, blocks), ends, strict=True))


def _of_a_micro_batch(model: Model, layout: Numbers, bench: Bench) -> tuple[float, float, float]:
    """Bytes that a block keeps of one, that its backward computes again, and of the logits."""
    tokens = layout.micro_batch * model.sequence
    token, again = _of_a_token(model, bench.software, layout.tp, layout.sequence_parallel, layout.recompute)
    return tokens * token, tokens * again, tokens * -(-model.vocabulary // layout.tp) * bench.software.logit


@lru_cache(maxsize=4096)
def _of_a_token(
    model: Model, software: Software, tp: int, sequence_parallel: bool, recompute: Recompute
) -> tuple[float, float]:
    """Bytes of a token in a block: those that it keeps, and those that its backward computes again."""
    layout, saved = Numbers(tp=tp, sequence_parallel=sequence_parallel, recompute=recompute), software.saved(model)
    whole, core = touched(saved, layout)
    again = {Recompute.NONE: 0.0, Recompute.SELECTIVE: core, Recompute.FULL: whole}[recompute]
    return kept(saved, layout, software.feature * model.hidden), again


def worst(ranks: tuple[Memory, ...]) -> Memory:
    """The rank that holds the most."""
    return max(ranks, key=lambda rank: rank.total)


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
    enough = 1 if grows else min(m, 2 * layout.pp)
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
