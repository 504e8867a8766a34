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
    found = []
    for stages, seen in zip(own, moments(layout), strict=True):
        rank = _Rank(model, layout, stages, splits=any(one.kind in ("I", "W") for one in seen))
        found.append(max((rank.at(one) for one in seen), key=lambda held: held.total))
    return tuple(found)


class _Change(NamedTuple):
    """What an action adds to what is held, or has already freed, in bytes."""

    activations: float = 0.0
    logits: float = 0.0
    buffers: float = 0.0


class _Rank:
    """One pipeline rank: its states, and the bytes of one micro-batch in each of its stages.

    features: of a whole micro-batch. part: those that a rank has between the split regions. inner: inside the
    feed-forward. run: logits. splits: its backwards are split, so that linear layers leave their weights to W.
    """

    def __init__(self, model: Model, layout: Numbers, own: tuple[int, ...], splits: bool) -> None:
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
        # Where ranks share a head of keys, its matrix is put together anew each time (`ColumnParallelLinear`), and
        # its gradient does not wait for W.
        shared = self.matrices[0] if tp > model.kv_heads else 0.0
        self.waiting_gradients = sum(self.matrices) - shared
        plain, full = layout._replace(recompute=Recompute.NONE), layout.recompute is Recompute.FULL
        self.block = tokens * kept(saved(model), layout, FLOAT * model.hidden) + (0.0 if full else shared)
        self.again = tokens * kept(saved(model), plain, 0.0) + shared - self.part if full else 0.0
        self.waits = tokens * kept(waiting(model, tp), plain, 0.0)
        self.head = 2 * self.part + 2 * FLOAT * tokens / slices
        self.loss = 2 * self.run + COUNTED * tokens + self.run / (FLOAT * tokens)
        self.embedded = EMBEDDED * tokens
        self.weights = model.block_weights(tp)
        self.blocks = sum(self.cuts[stage] for stage in own) * self.weights
        # Copies of a tied weight are summed on their own, at a step's end.
        apart = model.tied and self.last > self.first
        self.copies = apart * ((self.first in own) + (self.last in own)) * model.vocabulary_weights(tp)
        self.ends = sum(self.end(stage) for stage in own)
        self.splits = splits

    def at(self, moment: Moment) -> Memory:
        """What is held then, with the most that the action makes beside it."""
        optimizer = 2 * FLOAT / (self.layout.dp if self.layout.zero else 1)
        batch = 2 * FLOAT * self.layout.batch * (self.model.sequence + 1)  # the tokens of all replicas, in int64
        activations, logits, buffers = 0.0, 0.0, batch + (moment.copies + moment.mail) * self.part
        for stage, live, late, done in zip(self.own, moment.live, moment.waiting, moment.done, strict=True):
            activations += live * self.kept(stage) + late * self.late(stage)
            logits += live * self.loss * (stage == self.last)
            buffers += done * self.summing(self.cuts[stage] * self.weights + self.end(stage))
        most = max(self.changes(moment), key=sum)
        return Memory(
            FLOAT * self.blocks,
            FLOAT * self.blocks,
            optimizer * self.blocks,
            (2 * FLOAT + optimizer) * (self.ends + self.copies),
            activations + most.activations,
            logits + most.logits,
            buffers + most.buffers,
        )

    def end(self, stage: int) -> int:
        """Weights of a stage that are not in its blocks, without a tied weight's copy."""
        first, last, model = stage == self.first, stage == self.last, self.model
        tables = 0 if model.tied and self.last > self.first else first + last - (first and last and model.tied)
        vectors = first * model.position_weights + last * model.norm_weights
        return tables * model.vocabulary_weights(self.layout.tp) + vectors

    def kept(self, stage: int) -> float:
        """What a stage keeps of a micro-batch, but for its loss."""
        ends = (stage == self.first) * self.embedded + (stage == self.last) * self.head
        return self.cuts[stage] * self.block + ends

    def late(self, stage: int) -> float:
        """What waits with a stage's W.

        The inputs of its matrices come with their graph, and that holds the stage's own input and its gradient.
        """
        last = stage == self.last
        graph = 2 * self.part * (stage > self.first)  # the first stage's input are tokens
        return self.cuts[stage] * self.waits + last * (self.part + self.run) + graph

    def weight_gradients(self, stage: int) -> float:
        """The gradients of all of a stage's matrices that wait, before they are added to what is there."""
        return self.cuts[stage] * self.waiting_gradients + (stage == self.last) * self.table

    def summing(self, weights: float) -> float:
        """With ZeRO, while replicas sum the gradients of so many weights: gloo's copy of them all, and the share."""
        dp = self.layout.dp
        return FLOAT * weights * (1 + 1 / dp) if self.layout.zero and dp > 1 else 0.0

    def column(self, now: bool) -> float:
        """What the backward of a column-split matrix makes, but for its weights' gradient.

        Its input's gradient, and over several ranks the copy that they sum. With sequence parallelism that gradient is
        put in order for gloo, which copies it, and a slice comes back; and unless its weights' gradient waits, its
        input is gathered, in pieces and then as one.
        """
        if self.layout.sequence_parallel:
            return (5 if now else 3) * self.features + self.part
        return (1 if self.layout.tp == 1 else 2) * self.features

    def changes(self, moment: Moment) -> Iterator[_Change]:
        """The candidates for the worst point within an action."""
        kind, stage = moment.kind, moment.stage
        if kind is None:
            yield from self.ending()
        elif kind == "W":
            yield _Change(buffers=self.finishing(stage))
        elif kind == "F":
            yield from self.forward(stage)
        else:
            yield from self.backward(stage, whole=kind == "B")

    def finishing(self, stage: int) -> float:
        """What a W makes: all gradients of its weights; the last is that of queries, whose input may be gathered."""
        gathered = self.layout.sequence_parallel * self.features
        return self.weight_gradients(stage) + max(gathered, 2 * gathered - self.matrices[0])

    def forward(self, stage: int) -> Iterator[_Change]:
        """The last block's end, or what it makes in its feed-forward where nothing is kept; and the loss."""
        last = stage == self.last
        ending = self.features * (1 if self.layout.tp == 1 else 2) + self.part
        if self.layout.sequence_parallel:
            ending = 3 * self.features + self.part  # what is to be summed, in order, and gloo's copy; its slice
        if self.again:
            ending = max(ending, 2 * self.part + self.inner * (4 if self.model.gated else 2))
        yield _Change(-self.head * last, -self.loss * last, ending)
        if last:
            yield _Change(logits=2 * self.run)
        else:
            yield _Change(buffers=2 * self.part)  # its output, and the copy that is sent

    def backward(self, stage: int, whole: bool) -> Iterator[_Change]:
        """The head, a block's feed-forward from its end, the first stage's embedding, and the weights'."""
        last, first, now = stage == self.last, stage == self.first, whole and not self.splits
        # A weight that is embedding and head at once waits with its head's gradient for its embedding's.
        both = self.table * (self.model.tied and first and last and now)
        if last:
            yield _Change(0.0, -self.loss, self.run + self.column(now) + now * self.table)
        gone = last * (self.splits * (self.part + self.run) - self.head)
        # Where blocks leave more for W than they kept, the last one that is gone through has the most.
        grown = self.splits * max(0.0, (self.cuts[stage] - 1) * (self.waits - self.block))
        gathered = self.layout.sequence_parallel * self.features
        _, _, up, down = (matrix * now for matrix in self.matrices)
        wide = 2 if self.model.gated else 1
        late = self.splits * (self.inner + gathered)  # what waits so far: the second matrix's input, and its gradient
        for change in (
            gathered + max(gathered, self.inner + down),  # the second matrix
            late + self.inner * wide,  # GELU, or the gate
            late + self.column(now) - self.inner * wide + up,  # the first matrix
        ):
            yield _Change(gone + grown, -self.loss * last, self.again + self.part + both + change)
        done = self.splits * self.late(stage) - self.kept(stage)
        if first:
            # Both gradients of a weight that is the head too, and their sum.
            embedding = max(self.features + gathered, self.table + both)
            yield _Change(done, -self.loss * last, both + self.features + embedding)
        if self.splits:
            yield _Change(done, -self.loss * last, whole * self.finishing(stage))

    def ending(self) -> Iterator[_Change]:
        """The sum of a tied weight's copies, and then with ZeRO that of the replicas."""
        tied = self.copies > 0
        yield _Change(buffers=3 * self.table * tied)
        yield _Change(buffers=self.summing(self.copies))
