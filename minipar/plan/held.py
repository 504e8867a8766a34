"""What each rank of `minipar train` holds when it holds most, as PyTorch's allocator counts it on a CPU, in float32.

A rank holds most within some action. So for each of its moments (`minipar.plan.moments`): what lives from forwards to
backwards, what waits for W, messages, and the most that the action makes beside them (`minipar.plan.within`).
Not counted is what gloo's own thread has for a moment, such as the pieces that an all-gather puts together there.
"""

from __future__ import annotations

from minipar.plan.layout import Numbers
from minipar.plan.memory import Memory
from minipar.plan.model import Model
from minipar.plan.moments import Moment, moments
from minipar.plan.sizes import Sizes
from minipar.plan.tensors import FLOAT
from minipar.plan.within import changes
from minipar.plan.work import holders


def memory(model: Model, layout: Numbers) -> tuple[Memory, ...]:
    """What each pipeline rank holds in a step that is not the first; data and tensor ranks beside it hold as much.

    For a model without dropout and AdamW, as the `Trainer` has it: its ZeRO is that of optimizer states alone.
    """
    sizes = Sizes(model, layout)
    holder = holders(layout.schedule, layout.pp, layout.virtual)
    found = []
    for rank, seen in enumerate(moments(layout)):
        own = tuple(stage for stage, at in enumerate(holder) if at == rank)
        splits = any(moment.kind in ("I", "W") for moment in seen)
        found.append(max((_at(sizes, moment, own, splits) for moment in seen), key=lambda held: held.total))
    return tuple(found)


def _at(sizes: Sizes, moment: Moment, own: tuple[int, ...], splits: bool) -> Memory:
    """What is held from this moment to the next, at most."""
    layout = sizes.layout
    tokens = 2 * FLOAT * layout.batch * (sizes.model.sequence + 1)  # of all replicas, in int64
    blocks, ends = 0, 0
    activations, logits, buffers = 0.0, 0.0, tokens + (moment.copies + moment.mail) * sizes.part
    for stage, live, late, done in zip(own, moment.live, moment.waiting, moment.done, strict=True):
        inside, beside, copies = sizes.weights(stage)
        blocks, ends = blocks + inside, ends + beside + copies
        activations += live * sizes.kept(stage) + late * sizes.late(stage)
        logits += live * sizes.loss * (stage == sizes.last)
        buffers += done * sizes.summed(inside + beside)  # copies of a tied weight are summed at the step's end
    most = max(changes(sizes, moment, own, splits), key=sum)
    states = 2 * FLOAT / (layout.dp if layout.zero else 1)
    return Memory(
        FLOAT * blocks,
        FLOAT * blocks,
        states * blocks,
        (2 * FLOAT + states) * ends,
        activations + most.activations,
        logits + most.logits,
        buffers + most.buffers,
    )
