"""Times that no layout of a group can beat, and meshes that no layout fits: what lets a search leave most unopened."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from minipar.plan.chains import chain
from minipar.plan.layout import Numbers
from minipar.plan.memory import state_bytes
from minipar.plan.model import Model
from minipar.plan.space import Space
from minipar.plan.time import after, message
from minipar.plan.work import Bench, block, head, holders, pieces

SPLIT = ("zb-h1", "zb-h2", "zb-v", "v-half", "v-min", "dualpipe-v")
"""Schedules whose weight gradients may come last, so that nothing need follow a rank's last action."""


def balanced(model: Model, layouts: Sequence[Numbers], bench: Bench) -> float:
    """Seconds that layouts which differ in schedule and ZeRO alone cannot beat: their work, spread evenly."""
    layout = layouts[0]
    work = model.layers * block(model, layout, bench).total + head(model, layout, bench).total
    return layout.micro_batches * work / layout.pp + spared(model, layouts, bench, work)


def filled(model: Model, layouts: Sequence[Numbers], bench: Bench) -> float:
    """Seconds that layouts with as many stages on the same ranks cannot beat; they differ in schedule and ZeRO alone.

    A rank first waits for a forward of every stage before its own; and where backwards are whole, its last action is
    followed by a backward of each of those. Stages of a loop and of a V begin on rank 0, one rank after the other.
    """
    layout = layouts[0]
    one, ending, blocks = pieces(model, layout, bench)
    holder = holders(layout.schedule, layout.pp, layout.virtual)
    total = one.total
    ranks = [0.0] * layout.pp
    for rank, number in zip(holder, blocks, strict=True):
        ranks[rank] += number * total
    ranks[holder[-1]] += ending.total
    passed = one.seconds[0] if layout.schedule in SPLIT else total
    ahead = least = 0.0
    for rank, work in enumerate(ranks):
        least = max(least, ahead + layout.micro_batches * work)
        ahead += blocks[rank] * passed
    return least + spared(model, layouts, bench, max(ranks))


def chained(model: Model, layout: Numbers, bench: Bench) -> float:
    """Seconds that a layout cannot beat: its longest chain of waiting."""
    if layout.pp == 1:
        return filled(model, [layout], bench)
    one, ending, blocks = pieces(model, layout, bench)
    costs = [(number * one.seconds[0], number * one.seconds[1]) for number in blocks]
    costs[-1] = costs[-1][0] + ending.seconds[0], costs[-1][1] + ending.seconds[1]
    ranks = [0.0] * layout.pp
    for rank, cost in zip(holders(layout.schedule, layout.pp, layout.virtual), costs, strict=True):
        ranks[rank] += sum(cost)
    send = message(model, layout, bench)
    least = chain(layout.schedule, layout.pp, layout.micro_batches, layout.virtual, tuple(costs), send)
    return least + spared(model, [layout], bench, max(ranks))


def spared(model: Model, layouts: Iterable[Numbers], bench: Bench, slot: float) -> float:
    """What comes after the pipeline at least; `slot`: seconds of a micro-batch on a rank, at most."""
    return bench.software.rest + min(sum(after(model, layout, bench, slot)) for layout in layouts)


def impossible(mesh: Numbers, batch: int, model: Model, bench: Bench, space: Space) -> str | None:
    """Why no layout of a mesh can be; None where one may."""
    if batch % mesh.dp:
        return f"a batch of {batch} samples is not divisible by dp={mesh.dp}"
    if reason := mesh.refused(model) or bench.software.refuses(model, mesh):
        return reason
    if not space.plans(mesh.pp, model.layers):
        return f"{model.layers} layers fill the stages of no schedule in the space over pp={mesh.pp}"
    leanest = min(sum(state_bytes(layout, bench.software)) for layout in space.zeros(mesh))
    least = leanest * model.layers * model.block_weights(mesh.tp) / mesh.pp
    room = bench.hardware.memory - bench.software.reserve
    if least > room:
        return (
            f"weights, gradients and optimizer alone need {least / 2**30:.0f} GiB of the {room / 2**30:.0f} there are"
        )
    return None
