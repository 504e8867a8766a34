"""What an action of `minipar train` makes while it runs, beside what is held before and after it.

Of each action a few points can be its worst; which of them is depends on the sizes, so all are candidates.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from minipar.plan.moments import Moment
from minipar.plan.sizes import Sizes


class Change(NamedTuple):
    """What is more within an action, or with a minus has been freed already, in bytes."""

    activations: float = 0.0
    logits: float = 0.0
    buffers: float = 0.0


def changes(sizes: Sizes, moment: Moment, own: tuple[int, ...], splits: bool) -> Iterator[Change]:
    """The candidates for the worst point from this moment to the next.

    own: the rank's stages. splits: its linear layers put their weights' gradients off.
    """
    kind, stage = moment.kind, moment.stage
    if kind is None:
        yield from _ending(sizes, own)
    elif kind == "W":
        yield Change(buffers=_finishing(sizes, stage))
    elif kind == "F":
        yield from _forward(sizes, stage)
    else:
        yield from _backward(sizes, stage, splits)
        if splits:
            finishing = _finishing(sizes, stage) if kind == "B" else 0.0
            yield Change(sizes.late(stage) - sizes.kept(stage), -sizes.loss * (stage == sizes.last), finishing)


def _forward(sizes: Sizes, stage: int) -> Iterator[Change]:
    """The last block's end, or its feed-forward where nothing of it is kept; and the loss, or a message."""
    features, part, last, layout = sizes.features, sizes.part, stage == sizes.last, sizes.layout
    if layout.sequence_parallel:
        ending = 3 * features + part  # a summand of the output, the same in order, gloo's copy of that; a slice
    elif layout.tp > 1:
        ending = 2 * features + part  # a summand, the sum, and that with the bias
    else:
        ending = features + part  # without the bias and with it
    if sizes.again:
        ending = max(ending, 2 * part + sizes.inner * (4 if sizes.model.gated else 2))
    yield Change(-sizes.head * last, -sizes.loss * last, ending)
    if last:
        yield Change(logits=2 * sizes.run)  # the logits, and a copy without the padding
    else:
        yield Change(buffers=2 * part)  # its output, and the copy that is sent


def _backward(sizes: Sizes, stage: int, splits: bool) -> Iterator[Change]:
    """The head; a block's feed-forward, from its end; the first stage's embedding."""
    first, last, now = stage == sizes.first, stage == sizes.last, not splits
    part, inner, table = sizes.part, sizes.inner, sizes.table
    no_loss = -sizes.loss * last
    # A weight that is embedding and head at once: its gradient from the head waits for that from the embedding.
    early = table * (sizes.model.tied and first and last and now)
    if last:
        yield Change(0.0, no_loss, sizes.run + _column(sizes, now) + now * table)

    gone = last * (splits * (part + sizes.run) - sizes.head)
    # Where blocks leave more for W than they kept, there is most in the one that a backward comes to last.
    grown = splits * max(0.0, (sizes.cuts[stage] - 1) * (sizes.waits - sizes.block))
    gathered = sizes.layout.sequence_parallel * sizes.features
    _, _, up, down = (matrix * now for matrix in sizes.matrices)
    wide = 2 if sizes.model.gated else 1
    late = splits * (inner + gathered)  # what waits by then: the second matrix's input, and its output's gradient
    for change in (
        gathered + max(gathered, inner + down),  # the second matrix
        late + inner * wide,  # GELU, or the gate
        late + _column(sizes, now) - inner * wide + up,  # the first matrix
    ):
        yield Change(gone + grown, no_loss, sizes.again + part + early + change)

    if splits and sizes.shared:
        # At a block's begin: what waits, the inputs of norm and matrix, and this matrix's gradient, which does not.
        begun = gone + grown + sizes.waits - sizes.block + 2 * part + sizes.shared
        residual = part if gathered else 0.0  # else it is the projection's gradient, which waits
        yield Change(begun, no_loss, residual + sizes.heads + _column(sizes, now=True) + sizes.shared)

    if first:
        # Both gradients of a weight that is the head too, and their sum.
        embedding = max(sizes.features + gathered, table + early)
        yield Change(splits * sizes.late(stage) - sizes.kept(stage), no_loss, early + sizes.features + embedding)


def _column(sizes: Sizes, now: bool) -> float:
    """What the backward of a column-split matrix makes, but for its weights' gradient, which comes now or later.

    Its input's gradient, and over several ranks the copy that they sum. With sequence parallelism that gradient is
    put in order for gloo, which copies it, and a slice comes back; and for its weights' gradient its input is
    gathered, in pieces and then as one.
    """
    if sizes.layout.sequence_parallel:
        return (5 if now else 3) * sizes.features + sizes.part
    return (1 if sizes.layout.tp == 1 else 2) * sizes.features


def _finishing(sizes: Sizes, stage: int) -> float:
    """What a W makes: the gradients of all that waits; the last is that of queries, whose input may be gathered."""
    gathered = sizes.layout.sequence_parallel * sizes.features
    gradients = sizes.cuts[stage] * sizes.late_matrices + (stage == sizes.last) * sizes.table
    return gradients + max(gathered, 2 * gathered - sizes.matrices[0])


def _ending(sizes: Sizes, own: tuple[int, ...]) -> Iterator[Change]:
    """The sum of a tied weight's copies, and then with ZeRO that of the replicas."""
    copies = sum(sizes.weights(stage)[2] for stage in own)
    yield Change(buffers=3 * sizes.table * (copies > 0))
    yield Change(buffers=sizes.summed(copies))
