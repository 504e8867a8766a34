"""Slices of the sequence: values and gradients are those of the whole, and the traffic is what the docstrings say."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

import minipar
from minipar import Mesh, comm
from minipar.comm import copy_to_region
from minipar.ledger import Traffic
from minipar.manifest import gather, manifest
from minipar.mesh import Axis
from minipar.tensor import (
    ColumnParallelLinear,
    RegionNorm,
    RowParallelLinear,
    VocabParallelEmbedding,
    gather_from_sequence,
    reduce_to_sequence,
    scatter_to_sequence,
)
from tests.minipar.equality import assert_close, assert_close_by_name

B, S, H = 2, 8, 4


def drawn(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def mine(whole: Tensor, axis: Axis) -> Tensor:
    return whole.chunk(axis.size, 1)[axis.rank]


@pytest.mark.parametrize("tp", [2, 4])
def test_a_split_region_between_slices_equals_the_whole(tp: int) -> None:
    """scatter, gather, a sum of parts, reduce: y = 3 · tp-fold sum of x/tp, written as a split region does."""
    x, weights = drawn(B, S, H), drawn(B, S, H, seed=1)

    def on_rank() -> tuple[Tensor, Tensor]:
        axis = Mesh(tp=tp).tp
        leaf = x.clone().requires_grad_()
        whole = gather_from_sequence(scatter_to_sequence(leaf, axis), axis)
        y = reduce_to_sequence((axis.rank + 1) * whole, axis)
        (y * mine(weights, axis)).sum().backward()
        return comm.all_gather(y.detach(), axis, 1), leaf.grad

    total = tp * (tp + 1) / 2
    for y, gradient in minipar.run(on_rank, tp, timeout=20, device="cpu"):
        assert_close([y, gradient], [total * x, total * weights])


def test_each_has_its_conjugate_as_its_backward() -> None:
    """A slice's gradient is the others' too where all used the whole, and only one's own where each has a slice."""

    def on_rank() -> list[list[Tensor]]:
        axis = Mesh(tp=4).tp
        results = []
        for call, size, of_size in (
            (scatter_to_sequence, S, S // 4),
            (gather_from_sequence, S // 4, S),
            (reduce_to_sequence, S, S // 4),
        ):
            x, dy = (drawn(B, n, H, seed=axis.rank + i).requires_grad_(i == 0) for i, n in ((0, size), (9, of_size)))
            y = call(x, axis)
            y.backward(dy)
            results.append([y.detach(), x.grad])
        return results

    def together(size: int, first: int) -> list[Tensor]:
        return [drawn(B, size, H, seed=first + rank) for rank in range(4)]

    wholes, of_wholes, slices, of_slices = together(S, 0), together(S, 9), together(S // 4, 0), together(S // 4, 9)
    for rank, ours in enumerate(minipar.run(on_rank, 4, timeout=20, device="cpu")):
        scattered, gathered, reduced = ours
        assert_close(scattered, [wholes[rank].chunk(4, 1)[rank], torch.cat(of_slices, 1)])
        assert_close(gathered, [torch.cat(slices, 1), sum(of_wholes).chunk(4, 1)[rank]])
        assert_close(reduced, [sum(wholes).chunk(4, 1)[rank], torch.cat(of_slices, 1)])


def whole_layer(kind: str, x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    return F.layer_norm(x, (H,), weight, bias) if kind == "norm" else F.linear(x, weight, bias)


@pytest.mark.parametrize("tp", [1, 2, 4])
@pytest.mark.parametrize("kind", ["column", "row", "norm"])
@pytest.mark.parametrize("sequence", [False, True])
def test_a_layer_has_the_unsplit_output_and_gradients_on_every_rank(kind: str, tp: int, sequence: bool) -> None:
    """text-generation-inference#1036; Megatron-LM#443, #1446: bias once, its gradient and a norm's whole."""
    x, out = drawn(B, S, H), 8 if kind == "column" else H
    weight, bias = drawn(*([H] if kind == "norm" else [out, H]), seed=1), drawn(out, seed=2)
    dy = drawn(B, S, out, seed=3)

    def on_rank() -> tuple[Tensor, Tensor, dict[str, Tensor]]:
        axis = Mesh(tp=tp).tp
        leaf = (mine(x, axis) if sequence and kind != "row" else x).clone().requires_grad_()
        if kind == "column":
            layer: torch.nn.Module = ColumnParallelLinear(weight, bias, axis, sequence_parallel=sequence)
            y, mine_of_dy = layer(leaf), dy.chunk(tp, -1)[axis.rank]
        elif kind == "row":
            layer = RowParallelLinear(weight, bias, axis, sequence)
            y, mine_of_dy = layer(comm.scatter_to_region(leaf, axis)), mine(dy, axis) if sequence else dy
        else:
            layer = RegionNorm(H, axis, sequence, torch.float64)
            layer.load_state_dict({"weight": weight, "bias": bias})
            y, mine_of_dy = layer(leaf), mine(dy, axis) if sequence else dy
        y.backward(mine_of_dy)
        y, of_x = y.detach(), leaf.grad
        if kind == "column":
            y = comm.all_gather(y, axis, -1)
        elif sequence:
            y = comm.all_gather(y, axis, 1)
        of_x = comm.all_gather(of_x, axis, 1) if sequence and kind != "row" else of_x
        return y, of_x, gather(((n, p.grad) for n, p in layer.named_parameters()), manifest(layer), axis)

    leaves = [t.clone().requires_grad_() for t in (x, weight, bias)]
    y = whole_layer(kind, *leaves)
    y.backward(dy)
    for ours, of_x, whole in minipar.run(on_rank, tp, timeout=20, device="cpu"):
        assert_close([ours, of_x], [y.detach(), leaves[0].grad])
        assert_close_by_name(whole, {"weight": leaves[1].grad, "bias": leaves[2].grad})


@pytest.mark.parametrize("call", [scatter_to_sequence, reduce_to_sequence])
def test_a_sequence_that_does_not_divide_is_refused_before_anything_is_sent(call: Callable) -> None:
    """verl#3296."""

    def on_rank() -> list[Traffic]:
        mesh = Mesh(tp=2)
        with pytest.raises(ValueError, match="is 7, which tp=2 does not divide"):
            call(drawn(B, 7, H), mesh.tp)
        with pytest.raises(ValueError, match="is 7, which tp=2 does not divide"):
            VocabParallelEmbedding(drawn(4, H), mesh.tp, True)(torch.zeros(B, 7, dtype=torch.long))
        with pytest.raises(ValueError, match="is 7, which tp=2 does not divide"):
            RowParallelLinear(drawn(H, 2 * H).float(), None, mesh.tp, True)(torch.zeros(B, 7, H))
        return mesh.ledger.rows()

    assert minipar.run(on_rank, 2, timeout=20, device="cpu") == [[], []]


def test_an_embedding_gives_the_slice_of_the_whole() -> None:
    table, tokens = drawn(13, H), torch.arange(B * S).reshape(B, S) % 13

    dy = drawn(B, S, H, seed=1)

    def on_rank() -> tuple[bool, Tensor]:
        axis = Mesh(tp=4).tp
        layer = VocabParallelEmbedding(table, axis, True)
        y = layer(tokens)
        y.backward(mine(dy, axis))
        gradient = gather([("weight", layer.weight.grad)], manifest(layer), axis)["weight"]
        return torch.equal(y, mine(F.embedding(tokens, table), axis)), gradient

    leaf = table.clone().requires_grad_()
    F.embedding(tokens, leaf).backward(dy)
    for equal, gradient in minipar.run(on_rank, 4, timeout=20, device="cpu"):
        assert equal
        assert_close([gradient], [leaf.grad])


def test_collectives_can_be_under_way_together_and_be_waited_for_in_any_order() -> None:
    def on_rank() -> list[Tensor]:
        axis = Mesh(tp=2).tp
        x = torch.full((2, 2), 1.0 + axis.rank)
        pending = [
            comm.start_all_reduce(x, axis),
            comm.start_all_gather(x, axis, 1),
            comm.start_reduce_scatter(x, axis),
        ]
        results = [p.wait() for p in reversed(pending)]
        assert torch.equal(x, torch.full((2, 2), 1.0 + axis.rank))
        return results

    for scattered, gathered, reduced in minipar.run(on_rank, 2, timeout=20, device="cpu"):
        assert torch.equal(reduced, torch.full((2, 2), 3.0))
        assert torch.equal(gathered, torch.tensor([[1.0, 1, 2, 2], [1, 1, 2, 2]]))
        assert torch.equal(scattered, torch.full((1, 2), 3.0))


@pytest.mark.parametrize("start", [comm.start_all_reduce, comm.start_all_gather, comm.start_reduce_scatter])
def test_to_start_a_collective_waits_for_nobody(start: Callable[..., comm.Pending], tmp_path: Path) -> None:
    """Rank 1 starts only when rank 0 has: were that to wait for rank 1, neither would go on."""

    def on_rank() -> Tensor:
        axis, started = Mesh(tp=2).tp, tmp_path / "started"
        while axis.rank == 1 and not started.exists():
            time.sleep(0.01)
        pending = start(torch.ones(2, 2), axis)
        started.touch()
        return pending.wait()

    results = minipar.run(on_rank, 2, timeout=15, device="cpu")
    assert [result.sum() for result in results] == ([4, 4] if start is comm.start_reduce_scatter else [8, 8])


def test_a_frozen_weight_gets_no_gradient_and_its_input_is_not_gathered_again() -> None:
    def on_rank() -> tuple[bool, dict[str, int]]:
        mesh = Mesh(tp=2)
        layer = ColumnParallelLinear(drawn(8, H), None, mesh.tp, sequence_parallel=True)
        layer.weight.requires_grad_(False)
        leaf = mine(drawn(B, S, H), mesh.tp).clone().requires_grad_()
        layer(copy_to_region(leaf, mesh.tp)).sum().backward()
        calls = {row.operation: row.calls for row in mesh.ledger.rows()}
        return leaf.grad is not None and layer.weight.grad is None, calls

    for right, calls in minipar.run(on_rank, 2, timeout=20, device="cpu"):
        assert right
        assert calls == {"all-gather": 1, "reduce-scatter": 1, "all-reduce": 1}
