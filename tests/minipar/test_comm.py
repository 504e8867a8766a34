from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

import minipar
from minipar import Mesh, comm
from minipar.ledger import Ledger, Traffic
from minipar.mesh import Axis
from tests.minipar.equality import assert_close

WHOLE = [torch.randint(-99, 99, (4, 6, 8), generator=torch.Generator().manual_seed(r)).double() for r in range(4)]

# name: (the call, what it must give the rank with index r on an axis whose ranks have the tensors `there`)
OPERATIONS: dict[str, tuple[Callable[[Tensor, Axis], Any], Callable[[list[Tensor], int], Any]]] = {
    "all_reduce": (comm.all_reduce, lambda there, r: sum(there)),
    "broadcast": (comm.broadcast, lambda there, r: there[0]),
    "broadcast last": (lambda x, a: comm.broadcast(x, a, source=a.size - 1), lambda there, r: there[-1]),
    "gather_tensors": (lambda x, a: torch.stack(comm.gather_tensors(x, a)), lambda there, r: torch.stack(there)),
    "all_gather": (comm.all_gather, lambda there, r: torch.cat(there)),
    "all_gather -1": (lambda x, a: comm.all_gather(x, a, -1), lambda there, r: torch.cat(there, -1)),
    "reduce_scatter": (comm.reduce_scatter, lambda there, r: sum(there).chunk(len(there))[r]),
    "reduce_scatter -1": (
        lambda x, a: comm.reduce_scatter(x, a, -1),
        lambda there, r: sum(there).chunk(len(there), -1)[r],
    ),
    "shift": (comm.shift, lambda there, r: there[r - 1]),
    "shift back": (lambda x, a: comm.shift(x, a, by=-1), lambda there, r: there[(r + 1) % len(there)]),
    "shift far": (lambda x, a: comm.shift(x, a, by=4 * a.size + 1), lambda there, r: there[r - 1]),
}


def on_both_meshes(tensors: list[Tensor], staged: bool = False) -> None:
    """Check every collective on every axis of two meshes; `tensors` holds each rank's argument."""

    def on_rank() -> dict[Any, Any]:
        results: dict[Any, Any] = {}
        for mesh in (Mesh(pp=2, tp=2), Mesh(dp=2, tp=2)):
            x = tensors[mesh.rank]
            before = x.clone()
            for axis in (mesh.dp, mesh.pp, mesh.tp):
                axis = replace(axis, placement=replace(axis.placement, staged=staged))
                for name, (call, _) in OPERATIONS.items():
                    result = call(x, axis)
                    own = axis.size == 1 or result.data_ptr() != x.data_ptr()
                    results[mesh.dp.size, axis.name, name] = result, axis.ranks, axis.rank, own
            assert torch.equal(x, before), "the argument was changed"
        return results

    for results in minipar.run(on_rank, 4, timeout=30, device="cpu"):
        assert len(results) == 2 * 3 * len(OPERATIONS)
        for key, (result, ranks, rank, own) in results.items():
            wanted = OPERATIONS[key[-1]][1]([tensors[r] for r in ranks], rank)
            assert torch.equal(result, wanted), key
            assert result.dtype == wanted.dtype
            assert own, f"{key} returned its argument's memory"


def test_every_collective_on_every_axis() -> None:
    on_both_meshes(WHOLE)


def test_a_tensor_may_lie_in_memory_in_another_order_on_each_rank() -> None:
    turned = [t.transpose(0, 2).contiguous().transpose(0, 2) if rank % 2 else t for rank, t in enumerate(WHOLE)]
    assert [t.is_contiguous() for t in turned] == [True, False] * 2
    on_both_meshes(turned)
    on_both_meshes([t[::2, :, ::4] for t in WHOLE])


def test_staged_through_host_memory_gives_the_same() -> None:
    on_both_meshes(WHOLE, staged=True)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64])
def test_other_dtypes_stay_what_they_are(dtype: torch.dtype) -> None:
    on_both_meshes([t.to(dtype) for t in WHOLE])


def test_a_shift_is_one_message_of_each_rank_and_none_where_it_comes_round() -> None:
    def on_rank() -> list[Any]:
        axis = Mesh(tp=3).tp
        came = [comm.shift(torch.tensor([axis.rank]), axis, by).item() for by in (1, 2, 3)]
        return [came, [(row.operation, row.calls, row.bytes, row.sent) for row in axis.ledger.rows()]]

    for rank, (came, rows) in enumerate(minipar.run(on_rank, 3, timeout=20, device="cpu")):
        assert came == [(rank - 1) % 3, (rank - 2) % 3, rank]
        assert rows == [("send", 2, 16, 16.0)]


def test_alone_on_an_axis_everything_is_its_argument_and_nothing_is_sent() -> None:
    mesh, x = Mesh(), WHOLE[0].clone().requires_grad_()
    for axis in (mesh.dp, mesh.pp, mesh.tp):
        for call in (comm.all_reduce, comm.all_gather, comm.reduce_scatter, comm.broadcast):
            assert call(x, axis) is x
        for pair in (comm.copy_to_region, comm.reduce_from_region, comm.gather_from_region, comm.scatter_to_region):
            assert pair(x, axis) is x
        assert comm.gather_tensors(x, axis) == [x]
        assert comm.gather_objects("mine", axis) == ["mine"]
        comm.barrier(axis)
    assert mesh.ledger.rows() == []


def test_what_does_not_divide_is_refused_before_anything_is_sent() -> None:
    def on_rank() -> tuple[list[str], list[Traffic]]:
        axis, messages = Mesh(tp=4).tp, []
        if axis.rank == 0:  # alone: whatever communicates first waits here for ever
            for call in (comm.reduce_scatter, comm.scatter_to_region, comm.slices):
                try:
                    call(torch.zeros(4, 6), axis, 1)
                except ValueError as error:
                    messages.append(str(error))
        return messages, axis.ledger.rows()

    [(messages, rows), *_] = minipar.run(on_rank, 4, timeout=15)
    assert messages == ["dimension 1 of a tensor of shape (4, 6) is 6, which tp=4 does not divide"] * 3
    assert rows == []


def loss(y: Tensor, w: Tensor) -> Tensor:
    return (y.sin() * w).sum()


X = [torch.randn(4, 3, 8, dtype=torch.float64, generator=torch.Generator().manual_seed(r)) for r in range(4)]
W = [torch.randn(4, 3, 8, dtype=torch.float64, generator=torch.Generator().manual_seed(9 + r)) for r in range(4)]


def gradients(pair: str, xs: list[Tensor], ws: list[Tensor], *dim: int) -> list[tuple[Tensor, ...]]:
    """(output, input's gradient, forward's traffic, backward's traffic) of each rank."""

    def on_rank() -> tuple[Any, ...]:
        mesh = Mesh(tp=4)
        x = xs[mesh.rank].requires_grad_()
        with mesh.ledger.page() as forward:
            y = getattr(comm, pair)(x, mesh.tp, *dim)
        with mesh.ledger.page() as backward:
            (y.sin() * ws[mesh.rank]).sum().backward()
        return y.detach(), x.grad, forward.rows(), backward.rows()

    return minipar.run(on_rank, 4, timeout=20, device="cpu")


def unsplit(inputs: list[Tensor], total: Any) -> list[Tensor]:
    leaves = [x.clone().requires_grad_() for x in inputs]
    return list(torch.autograd.grad(total(*leaves), leaves))


REDUCED, GATHERED = [Traffic("all-reduce", "tp", 4, 1, 768)], [Traffic("all-gather", "tp", 4, 1, 4 * 768)]


def test_copy_is_nothing_forward_and_an_all_reduce_backward() -> None:
    [whole] = unsplit(X[:1], lambda x: sum(loss(x, w) for w in W))
    for y, gradient, forward, backward in gradients("copy_to_region", X[:1] * 4, W):
        assert torch.equal(y, X[0])
        assert_close([gradient], [whole])
        assert (forward, backward) == ([], REDUCED)


def test_reduce_is_an_all_reduce_forward_and_nothing_backward() -> None:
    whole = unsplit(X, lambda *xs: loss(sum(xs), W[0]))
    for (y, gradient, forward, backward), wanted in zip(
        gradients("reduce_from_region", X, W[:1] * 4), whole, strict=True
    ):
        assert_close([y, gradient], [sum(X), wanted])
        assert (forward, backward) == (REDUCED, [])


@pytest.mark.parametrize("dim", [0, -1])
def test_gather_is_an_all_gather_forward_and_a_slice_backward(dim: int) -> None:
    w = torch.cat(W, dim)
    whole = unsplit(X, lambda *xs: loss(torch.cat(xs, dim), w))
    for (y, gradient, forward, backward), wanted in zip(
        gradients("gather_from_region", X, [w] * 4, dim), whole, strict=True
    ):
        assert_close([y, gradient], [torch.cat(X, dim), wanted])
        assert (forward, backward) == (GATHERED, [])


@pytest.mark.parametrize("dim", [0, -1])
def test_scatter_is_a_slice_forward_and_an_all_gather_backward(dim: int) -> None:
    x, w = torch.cat(X, dim), torch.cat(W, dim)
    [whole] = unsplit([x], lambda x: loss(x, w))
    for rank, (y, gradient, forward, backward) in enumerate(gradients("scatter_to_region", [x] * 4, W, dim)):
        assert_close([y, gradient], [X[rank], whole])
        assert (forward, backward) == ([], GATHERED)


def test_any_picklable_value_is_gathered_in_rank_order() -> None:
    def on_rank() -> list[Any]:
        mesh = Mesh(pp=2, tp=2)
        return comm.gather_objects({"rank": mesh.rank, "odd": [None] * mesh.rank}, mesh.pp)

    values = [{"rank": r, "odd": [None] * r} for r in range(4)]
    assert minipar.run(on_rank, 4, timeout=20) == [values[0::2], values[1::2]] * 2


def test_the_ledger_counts_calls_and_whole_tensors_on_each_axis() -> None:
    def on_rank() -> list[Traffic]:
        mesh, x = Mesh(pp=2, tp=2), torch.zeros(4, 6, dtype=torch.float64)
        for _ in range(3):
            comm.all_reduce(x, mesh.tp)
        comm.all_gather(x, mesh.pp)
        comm.reduce_scatter(x.float(), mesh.tp)
        comm.broadcast(x[0], mesh.pp)
        comm.all_reduce(x, mesh.pp)
        comm.all_reduce(x, mesh.dp)
        comm.gather_objects("not counted", mesh.tp)
        return mesh.ledger.rows()

    assert minipar.run(on_rank, 4, timeout=20) == 4 * [
        [
            Traffic("all-reduce", "tp", 2, calls=3, bytes=3 * 192),
            Traffic("all-gather", "pp", 2, calls=1, bytes=2 * 192),
            Traffic("reduce-scatter", "tp", 2, calls=1, bytes=96),
            Traffic("broadcast", "pp", 2, calls=1, bytes=48),
            Traffic("all-reduce", "pp", 2, calls=1, bytes=192),
        ]
    ]


@given(st.integers(1, 16), st.integers(0, 10**9))
def test_sent_is_what_a_ring_puts_on_the_wire(ranks: int, size: int) -> None:
    one_lap = sum(size / ranks for _ in range(ranks - 1))  # every step, each rank passes on one of n pieces
    laps = {"all-gather": 1, "reduce-scatter": 1, "broadcast": 1, "all-reduce": 2}
    for operation, times in laps.items():
        assert Traffic(operation, "tp", ranks, 1, size).sent == pytest.approx(times * one_lap)
    assert Traffic("send", "pp", ranks, 1, size).sent == size


def test_a_page_holds_what_happened_within_it_even_after_an_error() -> None:
    ledger = Ledger()
    axis = Axis("pp", (0, 1), 0, None, Mesh().placement, ledger)
    ledger.record("send", axis, 5)
    with suppress(KeyError), ledger.page() as outer:
        ledger.record("send", axis, 0)
        with ledger.page() as inner:
            ledger.record("broadcast", axis, 7)
        raise KeyError
    ledger.record("send", axis, 11)
    assert inner.rows() == [Traffic("broadcast", "pp", 2, 1, 7)]
    assert outer.rows() == [Traffic("send", "pp", 2, 1, 0), Traffic("broadcast", "pp", 2, 1, 7)]
    assert ledger.rows() == [Traffic("send", "pp", 2, 3, 16), Traffic("broadcast", "pp", 2, 1, 7)]


def test_a_second_derivative_through_a_communication_is_an_error_not_a_silent_zero() -> None:
    def on_rank() -> str:
        x = torch.ones(2, requires_grad=True)
        (first,) = torch.autograd.grad((comm.copy_to_region(x, Mesh(tp=2).tp) ** 2).sum(), x, create_graph=True)
        try:
            first.sum().backward()
        except RuntimeError as error:
            return str(error)
        return "accepted"

    for said in minipar.run(on_rank, 2, timeout=20, device="cpu"):
        assert "once_differentiable" in said
