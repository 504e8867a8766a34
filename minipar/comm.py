"""Collectives on one axis of the mesh: plain ones, and pairs that autograd understands.

Each plain function takes a tensor and an `Axis`, and returns a new tensor on the same device. On an
axis of size 1 it returns its argument and sends nothing. Where ranks share a GPU, tensors travel
through host memory. Only sums are asked of the backend: gloo has no average.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.autograd.function import once_differentiable

from minipar.ledger import Traffic
from minipar.links import hold

if TYPE_CHECKING:
    from minipar.mesh import Axis


# PyTorch 2.13 gave them new names and warns of the old ones.
_reduce_scatter = getattr(dist, "reduce_scatter_single", None) or dist.reduce_scatter_tensor
_all_gather = getattr(dist, "all_gather_single", None) or dist.all_gather_into_tensor


def size_of(tensor: Tensor) -> int:
    """The tensor's bytes."""
    return tensor.numel() * tensor.element_size()


def to_wire(tensor: Tensor, axis: Axis) -> Tensor:
    """The tensor as the backend can send it: contiguous, without a graph, in host memory where that is the route."""
    tensor = tensor.detach().contiguous()
    return tensor.cpu() if axis.placement.staged else tensor


def _note(operation: str, axis: Axis, size: int) -> float:
    """Enter the start of a collective into the ledger; returns until when emulated links keep it under way."""
    axis.ledger.record(operation, axis, size)
    if axis.links is None:
        return 0.0
    rounds = 1 if operation == "send" else (2 if operation == "all-reduce" else 1) * (axis.size - 1)
    sent = Traffic(operation, axis.name, axis.size, 1, size).sent
    return time.perf_counter() + axis.links.collective(axis.ranks, sent, rounds)


class Pending:
    """A collective that is under way, with emulated links at least until `until`.

    `wait` for its result, and compute something else until then.
    """

    def __init__(self, result: Callable[[], Tensor], work: dist.Work | None = None, until: float = 0.0) -> None:
        self._result, self._work, self._until = result, work, until

    def wait(self) -> Tensor:
        """The result, once the collective is done."""
        if self._work is not None:
            self._work.wait()
        hold(self._until, 0.0)
        return self._result()


def start_all_reduce(tensor: Tensor, axis: Axis) -> Pending:
    """Start an `all_reduce`."""
    if axis.size == 1:
        return Pending(lambda: tensor)
    return start_all_reduce_in_place(tensor.detach().clone(memory_format=torch.contiguous_format), axis)


def start_all_reduce_in_place(tensor: Tensor, axis: Axis) -> Pending:
    """Start an `all_reduce` whose result takes the place of the contiguous `tensor`: nothing may touch it meanwhile."""
    if axis.size == 1:
        return Pending(lambda: tensor)
    until = _note("all-reduce", axis, size_of(tensor))
    wire = to_wire(tensor, axis)
    work = dist.all_reduce(wire, group=axis.group, async_op=True)
    return Pending(lambda: tensor if wire.data_ptr() == tensor.data_ptr() else tensor.copy_(wire), work, until)


def all_gather_in_place(tensor: Tensor, axis: Axis) -> None:
    """Fill the contiguous ``[n]`` tensor, of which each rank has its own slice right, with everyone's."""
    if axis.size == 1:
        return
    own = slices(tensor, axis, 0)[axis.rank]
    until = _note("all-gather", axis, size_of(tensor))
    wire = to_wire(tensor, axis)
    _all_gather(wire, to_wire(own, axis).clone(), group=axis.group)
    hold(until, 0.0)
    if wire.data_ptr() != tensor.data_ptr():
        tensor.copy_(wire)


def start_all_gather(tensor: Tensor, axis: Axis, dim: int = 0) -> Pending:
    """Start an `all_gather`."""
    if axis.size == 1:
        return Pending(lambda: tensor)
    pieces, work, until = _start_gather(tensor, axis)
    return Pending(lambda: torch.cat(pieces, dim).to(tensor.device), work, until)


def start_reduce_scatter(tensor: Tensor, axis: Axis, dim: int = 0) -> Pending:
    """Start a `reduce_scatter`."""
    pieces = slices(tensor, axis, dim)
    if axis.size == 1:
        return Pending(lambda: tensor)
    until = _note("reduce-scatter", axis, size_of(tensor))
    # Before PyTorch 2.8 gloo reduces and scatters one tensor, cut along its first dimension, and no list of them.
    wire = to_wire(tensor if dim == 0 else torch.stack(pieces).flatten(0, 1), axis)
    mine = wire.new_empty(pieces[0].shape)
    work = _reduce_scatter(mine, wire, group=axis.group, async_op=True)
    return Pending(lambda: mine.to(tensor.device), work, until)


def _start_gather(tensor: Tensor, axis: Axis) -> tuple[list[Tensor], dist.Work | None, float]:
    wire = to_wire(tensor, axis)
    until = _note("all-gather", axis, size_of(wire) * axis.size)
    pieces = [torch.empty_like(wire) for _ in axis.ranks]
    return pieces, dist.all_gather(pieces, wire, group=axis.group, async_op=True), until


def all_reduce(tensor: Tensor, axis: Axis) -> Tensor:
    """The sum of the axis's tensors, on every rank. Shapes are equal everywhere."""
    return start_all_reduce(tensor, axis).wait()


def all_gather(tensor: Tensor, axis: Axis, dim: int = 0) -> Tensor:
    """The axis's tensors joined along `dim` in rank order, on every rank. Shapes are equal everywhere."""
    return start_all_gather(tensor, axis, dim).wait()


def reduce_scatter(tensor: Tensor, axis: Axis, dim: int = 0) -> Tensor:
    """This rank's slice along `dim` of the sum of the axis's tensors.

    Raises `ValueError` where `dim` does not divide by the axis's size.
    """
    return start_reduce_scatter(tensor, axis, dim).wait()


def gather_tensors(tensor: Tensor, axis: Axis) -> list[Tensor]:
    """The axis's tensors in rank order, on every rank. Shapes are equal everywhere."""
    if axis.size == 1:
        return [tensor]
    pieces, work, until = _start_gather(tensor, axis)
    Pending(lambda: tensor, work, until).wait()
    return [piece.to(tensor.device) for piece in pieces]


def all_reduce_max(tensor: Tensor, axis: Axis) -> Tensor:
    """The entrywise maximum of the axis's tensors, on every rank. Shapes are equal everywhere."""
    if axis.size == 1:
        return tensor
    until = _note("all-reduce", axis, size_of(tensor))
    wire = to_wire(tensor, axis).clone()
    dist.all_reduce(wire, op=dist.ReduceOp.MAX, group=axis.group)
    hold(until, 0.0)
    return wire.to(tensor.device)


def reduce(tensor: Tensor, axis: Axis, target: int = 0) -> Tensor | None:
    """The sum of the axis's tensors on the rank with index `target`, None on the others. Shapes are equal."""
    if axis.size == 1:
        return tensor
    until = _note("reduce", axis, size_of(tensor))
    wire = to_wire(tensor, axis).clone()
    dist.reduce(wire, dst=axis.ranks[target], group=axis.group)
    hold(until, 0.0)
    return wire.to(tensor.device) if axis.rank == target else None


def broadcast(tensor: Tensor, axis: Axis, source: int = 0) -> Tensor:
    """The tensor of the rank with index `source` on the axis, on every rank. Shapes are equal everywhere."""
    if axis.size == 1:
        return tensor
    until = _note("broadcast", axis, size_of(tensor))
    wire = to_wire(tensor, axis).clone()
    dist.broadcast(wire, src=axis.ranks[source], group=axis.group)
    hold(until, 0.0)
    return wire.to(tensor.device)


def shift(tensor: Tensor, axis: Axis, by: int = 1) -> Tensor:
    """What the rank `by` places before this one gives, the axis being a ring; ours goes as far the other way.

    Every rank sends one message and receives one. Shapes are equal everywhere.
    """
    places = by % axis.size
    if places == 0:
        return tensor
    until = _note("send", axis, size_of(tensor))
    wire = to_wire(tensor, axis)
    came = torch.empty_like(wire)
    after, before = (axis.ranks[(axis.rank + to) % axis.size] for to in (places, -places))
    # Both at once: a rank that sent first and received then would wait for one that does the same.
    pair = [dist.P2POp(dist.isend, wire, after, axis.group), dist.P2POp(dist.irecv, came, before, axis.group)]
    for work in dist.batch_isend_irecv(pair):
        work.wait()
    hold(until, 0.0)
    return came.to(tensor.device)


def barrier(axis: Axis) -> None:
    """Wait until every rank of the axis is here."""
    if axis.size > 1:
        dist.barrier(group=axis.group)


def gather_objects(value: Any, axis: Axis) -> list[Any]:
    """Any picklable value of every rank of the axis, in order, on every rank. Not counted as traffic."""
    if axis.size == 1:
        return [value]
    values: list[Any] = [None] * axis.size
    dist.all_gather_object(values, value, group=axis.group)
    return values


def gather_numbers(values: Sequence[float], axis: Axis) -> list[list[float]]:
    """As many numbers of every rank of the axis, in order, on every rank. Not counted as traffic."""
    if axis.size == 1:
        return [list(values)]
    own = torch.tensor(values, dtype=torch.float64, device=axis.placement.wire)
    everyone = [torch.empty_like(own) for _ in axis.ranks]
    dist.all_gather(everyone, own, group=axis.group)
    return [numbers.tolist() for numbers in everyone]


def slices(tensor: Tensor, axis: Axis, dim: int) -> tuple[Tensor, ...]:
    """The tensor cut along `dim` into one equal slice a rank; `ValueError` where that does not come out even."""
    if tensor.shape[dim] % axis.size:
        raise ValueError(
            f"dimension {dim} of a tensor of shape {tuple(tensor.shape)} is {tensor.shape[dim]}, "
            f"which {axis.name}={axis.size} does not divide"
        )
    return tensor.chunk(axis.size, dim)


Operation = Callable[[Tensor], Tensor]


class _Pair(torch.autograd.Function):
    """A communication whose backward is another communication."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, forward: Operation, backward: Operation) -> Tensor:
        ctx.pair_backward = backward
        return forward(x)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None]:
        return ctx.pair_backward(gradients[0]), None, None


def same(x: Tensor) -> Tensor:
    """x, for the direction of a pair that does not communicate."""
    return x.view_as(x)


def pair(x: Tensor, axis: Axis, forward: Operation, backward: Operation) -> Tensor:
    """`forward(x)`, whose backward is `backward`; x itself on an axis of size 1."""
    if axis.size == 1:
        return x
    result: Tensor = _Pair.apply(x, forward, backward)  # type: ignore[no-untyped-call]
    return result


def copy_to_region(x: Tensor, axis: Axis) -> Tensor:
    """Enter a split region with a replicated tensor: identity forward, all-reduce backward.

    Megatron-LM's *f* (Shoeybi et al. 2019, §3): each rank uses all of `x`, so its gradient is the sum of theirs.
    """
    return pair(x, axis, same, lambda g: all_reduce(g, axis))


def reduce_from_region(x: Tensor, axis: Axis) -> Tensor:
    """Leave a split region by adding its partial sums: all-reduce forward, identity backward.

    Megatron-LM's *g* (Shoeybi et al. 2019, §3): the conjugate of `copy_to_region`.
    """
    return pair(x, axis, lambda x: all_reduce(x, axis), same)


def gather_from_region(x: Tensor, axis: Axis, dim: int = -1) -> Tensor:
    """Leave a split region by joining slices along `dim`: all-gather forward, own slice backward.

    The backward assumes that what follows is replicated, so that every rank holds the same gradient.
    """
    return pair(x, axis, lambda x: all_gather(x, axis, dim), lambda g: slices(g, axis, dim)[axis.rank])


def scatter_to_region(x: Tensor, axis: Axis, dim: int = -1) -> Tensor:
    """Enter a split region with one's own slice along `dim` of a replicated tensor.

    Slice forward, all-gather backward: the conjugate of `gather_from_region`.
    """
    return pair(x, axis, lambda x: slices(x, axis, dim)[axis.rank].clone(), lambda g: all_gather(g, axis, dim))
