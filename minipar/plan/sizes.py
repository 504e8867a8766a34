"""Bytes of what one rank of `minipar train` has of a micro-batch, and of its weights, in float32."""

from __future__ import annotations

from minipar.pipeline.partition import even_cuts
from minipar.plan.activations import kept
from minipar.plan.layout import Numbers
from minipar.plan.model import Model
from minipar.plan.tensors import COUNTED, EMBEDDED, FLOAT, saved, waiting
from minipar.recompute import Recompute


class Sizes:
    """What one rank has in bytes, whichever stages it holds.

    Of a micro-batch:

    - features: all of them. part: those that a rank has between the split regions. heads: queries, keys and
      values. inner: inside the feed-forward. run: logits.
    - block: what a block keeps from its forward to its backward. again: what a full recompute makes besides.
      waits: what waits with a block's W.
    - embedded, head, loss: what the embedding, the last norm and the logits' matrix, and the loss keep.

    Of the weights: matrices: the four of a block, or their gradients (queries, keys and values in one; the projection;
    into and out of the feed-forward). table: an embedding or a head. late_matrices: those whose gradients wait for W.
    shared: queries', keys' and values', where ranks share a head of keys.
    """

    def __init__(self, model: Model, layout: Numbers) -> None:
        self.model, self.layout = model, layout
        self.cuts = [len(cut) for cut in even_cuts(model.layers, layout.stages)]
        self.first, self.last = 0, layout.stages - 1
        tp, tokens = layout.tp, layout.micro_batch * model.sequence
        slices = tp if layout.sequence_parallel else 1
        self.features = FLOAT * tokens * model.hidden
        self.part = self.features / slices
        self.heads = FLOAT * tokens * model.matrices(tp)[0][1]
        self.inner = FLOAT * tokens * model.ffn / tp
        self.run = FLOAT * tokens * -(-model.vocabulary // tp)

        self.matrices = [FLOAT * wide * out for wide, out in model.matrices(tp)]
        self.table = FLOAT * model.vocabulary_weights(tp)
        # Where ranks share a head of keys, its matrix is put together anew each time (`ColumnParallelLinear`), and
        # its gradient does not wait for W.
        self.shared = shared = self.matrices[0] if tp > model.kv_heads else 0.0
        self.late_matrices = sum(self.matrices) - shared

        plain, full = layout._replace(recompute=Recompute.NONE), layout.recompute is Recompute.FULL
        self.block = tokens * kept(saved(model), layout, FLOAT * model.hidden) + (0.0 if full else shared)
        self.again = tokens * kept(saved(model), plain, 0.0) + shared - self.part if full else 0.0
        self.waits = tokens * kept(waiting(model, tp), plain, 0.0)
        self.embedded = EMBEDDED * tokens
        self.head = 2 * self.part + 2 * FLOAT * tokens / slices  # two inputs, and the norm's mean and deviation
        padding = self.run / (FLOAT * tokens)  # a byte for each column, whether it is a token's
        self.loss = 2 * self.run + COUNTED * tokens + padding  # shifted by the largest, and the exponentials

    @property
    def copied(self) -> bool:
        """Whether embedding and head are one weight, of which two stages have a copy each."""
        return self.model.tied and self.last > self.first

    def weights(self, stage: int) -> tuple[int, int, int]:
        """How many weights a stage has: in its blocks, beside them, and in a copy of a tied weight."""
        first, last, model, tp = stage == self.first, stage == self.last, self.model, self.layout.tp
        tables = (first + last - (first and last and model.tied)) * model.vocabulary_weights(tp)
        vectors = first * model.position_weights + last * model.norm_weights
        blocks = self.cuts[stage] * model.block_weights(tp)
        return (blocks, vectors, tables) if self.copied else (blocks, vectors + tables, 0)

    def kept(self, stage: int) -> float:
        """What a stage keeps of a micro-batch, but for its loss."""
        ends = (stage == self.first) * self.embedded + (stage == self.last) * self.head
        return self.cuts[stage] * self.block + ends

    def late(self, stage: int) -> float:
        """What waits with a stage's W: inputs of its matrices, and their outputs' gradients."""
        return self.cuts[stage] * self.waits + (stage == self.last) * (self.part + self.run)

    def summed(self, weights: int) -> float:
        """With ZeRO, while replicas sum the gradients of so many weights: gloo's copy of them all, and the share."""
        dp = self.layout.dp
        return FLOAT * weights * (1 + 1 / dp) if self.layout.zero and dp > 1 else 0.0
