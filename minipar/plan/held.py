"""What each rank of `minipar train` holds when it holds most, as PyTorch's allocator counts it on a CPU, in float32.

A rank holds most as it begins some action. So for each of its moments (`minipar.plan.moments`): what lives from
forwards to backwards, what waits for W, messages, and beside them the most that the action itself makes.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from minipar.pipeline.partition import even_cuts
from minipar.plan.activations import kept
from minipar.plan.layout import Numbers
from minipar.plan.memory import Memory
from minipar.plan.model import Model
from minipar.plan.moments import Moment, moments
from minipar.plan.tensors import COUNTED, EMBEDDED, FLOAT, saved, waiting
from minipar.plan.work import holders
from minipar.recompute import Recompute


def memory(model: Model, layout: Numbers) -> tuple[Memory, ...]:
    """What each pipeline rank holds; data and tensor ranks beside each other hold as much."""
    holder = holders(layout.schedule, layout.pp, layout.virtual)
    own = [tuple(stage for stage, at in enumerate(holder) if at == rank) for rank in range(layout.pp)]
    ranks = [_Rank(model, layout, stages) for stages in own]
    every = zip(ranks, moments(layout), strict=True)
    return tuple(max((rank.at(one) for one in seen), key=lambda held: held.total) for rank, seen in every)


class _Change(NamedTuple):
    """What an action adds to what is held, or has already freed, in bytes."""

    activations: float = 0.0
    logits: float = 0.0
    buffers: float = 0.0


class _Rank:
    """One pipeline rank: its states, and the bytes of one micro-batch in each of its stages.

    features: of a whole micro-batch. part: those that a rank has between the split regions. inner: inside the
    feed-forward. run: logits.
    """

    def __init__(self, model: Model, layout: Numbers, own: tuple[int, ...]) -> None:
        self.model, self.layout, self.own = model, layout, own
        self.cuts = [len(cut) for cut in even_cuts(model.layers, layout.stages)]
        self.first, self.last = 0, layout.stages - 1
        tp, tokens = layout.tp, layout.micro_batch * model.sequence
        slices = tp if layout.sequence_parallel else 1
        self.features = FLOAT * tokens * model.hidden
        self.part = self.features / slices
        self.inner = FLOAT * tokens * model.ffn / tp
        self.run = FLOAT * tokens * -(-model.vocabulary // tp)
        self.matrices = [FLOAT * wide * out for wide, out in model.matrices(tp)]
        self.table = FLOAT * model.vocabulary_weights(tp)
        # Where ranks share a head of keys, its matrix is put together anew each time (`ColumnParallelLinear`).
        shared = self.matrices[0] if tp > model.kv_heads else 0.0
        plain, full = layout._replace(recompute=Recompute.NONE), layout.recompute is Recompute.FULL
        self.block = tokens * kept(saved(model), layout, FLOAT * model.hidden) + (0.0 if full else shared)
        self.again = tokens * kept(saved(model), plain, 0.0) + shared - self.part if full else 0.0
        self.waits = tokens * kept(waiting(model), plain, 0.0)
        self.head = 2 * self.part + 2 * FLOAT * tokens / slices
        self.loss = 2 * self.run + COUNTED * tokens + self.run / (FLOAT * tokens)
        self.embedded = EMBEDDED * tokens
        self.blocks = sum(self.cuts[stage] for stage in own) * model.block_weights(tp)
        tables = (self.first in own) + (self.last in own) - (model.tied and self.last == self.first)
        vectors = (self.first in own) * model.position_weights + (self.last in own) * model.norm_weights
        self.ends = tables * model.vocabulary_weights(tp) + vectors
        self.splits = layout.schedule.startswith(("zb", "v-", "dualpipe"))

    def at(self, moment: Moment) -> Memory:
        """What is held then, with the most that the action makes beside it."""
        optimizer = 2 * FLOAT / (self.layout.dp if self.layout.zero else 1)
        batch = 2 * FLOAT * self.layout.batch * (self.model.sequence + 1)  # the tokens of all replicas, in int64
        activations, logits, buffers = 0.0, 0.0, batch + (moment.copies + moment.mail) * self.part
        for stage, live, late in zip(self.own, moment.live, moment.waiting, strict=True):
            activations += live * self.kept(stage) + late * self.late(stage)
            logits += live * self.loss * (stage == self.last)
        most = max(self.changes(moment), key=sum)
        return Memory(
            FLOAT * self.blocks,
            FLOAT * self.blocks,
            optimizer * self.blocks,
            (2 * FLOAT + optimizer) * self.ends,
            activations + most.activations,
            logits + most.logits,
            buffers + most.buffers,
        )

    def kept(self, stage: int) -> float:
        """What a stage keeps of a micro-batch, but for its loss."""
        ends = (stage == self.first) * self.embedded + (stage == self.last) * self.head
        return self.cuts[stage] * self.block + ends

    def late(self, stage: int) -> float:
        """What waits with a stage's W."""
        return self.cuts[stage] * self.waits + (stage == self.last) * (self.part + self.run)

    def weight_gradients(self, stage: int) -> float:
        """The gradients of all of a stage's matrices, before they are added to what is there."""
        return self.cuts[stage] * sum(self.matrices) + (stage == self.last) * self.table

    def changes(self, moment: Moment) -> Iterator[_Change]:
        """The candidates for the worst point within an action."""
        kind, stage = moment.kind, moment.stage
        if kind is None:
            yield from self.ending()
        elif kind == "W":
            yield _Change(buffers=self.weight_gradients(stage))
        elif kind == "F":
            yield from self.forward(stage)
        else:
            yield from self.backward(stage, whole=kind == "B")

    def forward(self, stage: int) -> Iterator[_Change]:
        """The last block's end, or what it makes in its feed-forward where nothing is kept; and the loss."""
        tp, last = self.layout.tp, stage == self.last
        ending = self.features * (1 if tp == 1 else 2) + self.part
        if self.again:
            ending = max(ending, 2 * self.part + self.inner * (4 if self.model.gated else 2))
        yield _Change(-self.head * last, -self.loss * last, ending)
        if last:
            yield _Change(logits=2 * self.run)
        else:
            yield _Change(buffers=2 * self.part)  # its output, and the copy that is sent

    def backward(self, stage: int, whole: bool) -> Iterator[_Change]:
        """The head, the last block's feed-forward from its end, the first stage's embedding, and the weights'."""
        last, first, now = stage == self.last, stage == self.first, whole and not self.splits
        gone = _Change(-self.head * last, -self.loss * last)
        if last:
            yield _Change(0.0, -self.loss, self.run + 2 * self.features + now * self.table)
        gathered = self.layout.sequence_parallel * self.features
        _, _, up, down = (matrix * now for matrix in self.matrices)
        wide = 2 if self.model.gated else 1
        for change in (
            self.part + gathered + max(gathered, self.inner + down),  # the second matrix
            self.part + 2 * self.inner * (wide - 1),  # the gate
            self.part + self.features * (4 if gathered else 2) - self.inner * wide + up,  # the first matrix
        ):
            yield gone._replace(buffers=self.again + change)
        done = _Change(-self.kept(stage), -self.loss * last)
        if first:
            yield done._replace(buffers=2 * self.features + self.table)
        if self.splits:
            late = self.late(stage) - self.kept(stage)
            yield done._replace(activations=late, buffers=whole * self.weight_gradients(stage))

    def ending(self) -> Iterator[_Change]:
        """What the replicas sum of the gradients, with ZeRO; and the sum of a tied weight's copies."""
        share = FLOAT * (self.blocks + self.ends) / self.layout.dp if self.layout.zero and self.layout.dp > 1 else 0.0
        tied = self.model.tied and self.last > self.first and (self.first in self.own or self.last in self.own)
        yield _Change(buffers=share + 3 * self.table * tied)
