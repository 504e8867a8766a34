"""Attention split by heads, with as many key-value heads as ranks, more, or fewer."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

import minipar
from minipar import Mesh, comm
from minipar.ledger import Ledger
from minipar.manifest import gather, manifest
from minipar.mesh import Axis
from minipar.tensor import Attention, Moment, check_heads
from tests.minipar.equality import assert_close, assert_close_by_name
from tests.minipar.model.dense import Attention as DenseAttention

HIDDEN, HEADS = 16, 8
SIZE = HIDDEN // HEADS


def drawn(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def split(kv_heads: int, axis: Axis, sequence_parallel: bool = False, p: float = 0.0) -> Attention:
    qkv, out, bias = drawn((HEADS + 2 * kv_heads) * SIZE, HIDDEN), drawn(HIDDEN, HIDDEN, seed=1), drawn(HIDDEN, seed=2)
    return Attention(qkv, out, bias, HEADS, kv_heads, axis, sequence_parallel, p)


X, DY = drawn(2, 5, HIDDEN, seed=3), drawn(2, 5, HIDDEN, seed=4)


@pytest.mark.parametrize("tp", [1, 2, 4])
@pytest.mark.parametrize("kv_heads", [1, 2, 4, 8])
def test_any_number_of_key_value_heads_equals_the_independent_attention(kv_heads: int, tp: int) -> None:
    """NeMo Automodel PR#1324: a fused matrix must be cut and joined head by head."""

    def on_rank() -> tuple[list[Tensor], dict[str, Tensor], dict[str, Tensor]]:
        axis = Mesh(tp=tp).tp
        layer, x = split(kv_heads, axis), X.clone().requires_grad_()
        y = layer(x)
        y.backward(DY)
        entries = manifest(layer)
        gradients = gather(((n, p.grad) for n, p in layer.named_parameters()), entries, axis)
        return [y.detach(), x.grad], gradients, gather(layer.named_parameters(), entries, axis)

    dense = DenseAttention(HIDDEN, HEADS, kv_heads).double()
    dense.load_state_dict(split(kv_heads, Mesh().tp).state_dict())
    x = X.clone().requires_grad_()
    y = dense(x)
    y.backward(DY)
    for ours, gradients, weights in minipar.run(on_rank, tp, timeout=20, device="cpu"):
        assert_close(ours, [y.detach(), x.grad])
        assert_close_by_name(gradients, {name: p.grad for name, p in dense.named_parameters()})
        assert all(torch.equal(weights[name], p) for name, p in dense.named_parameters())


def test_ranks_that_share_a_head_hold_bitwise_the_same_weights_and_gradients() -> None:
    def on_rank() -> tuple[Tensor, Tensor]:
        layer = split(2, Mesh(tp=4).tp)
        layer(X).backward(DY)
        shared = slice(HEADS * SIZE // 4, None)  # behind this rank's queries
        return layer.qkv.weight.detach()[shared], layer.qkv.weight.grad[shared]

    results = minipar.run(on_rank, 4, timeout=20, device="cpu")
    for one, other in ((0, 1), (2, 3)):
        assert all(torch.equal(a, b) for a, b in zip(results[one], results[other], strict=True))
    assert not torch.equal(results[0][0], results[2][0])


@pytest.mark.parametrize("kv_heads", [1, 2, 8])
def test_slices_of_the_sequence_give_the_same_output_and_gradients(kv_heads: int) -> None:
    x, dy = drawn(2, 8, HIDDEN, seed=3), drawn(2, 8, HIDDEN, seed=4)

    def on_rank(tp: int, sequence_parallel: bool) -> dict[str, Tensor]:
        axis = Mesh(tp=tp).tp
        layer = split(kv_heads, axis, sequence_parallel)
        leaf, of_y = ((t.chunk(tp, 1)[axis.rank] if sequence_parallel else t).clone() for t in (x, dy))
        y = layer(leaf.requires_grad_())
        y.backward(of_y)
        both = {"y": y.detach(), "x": leaf.grad}
        if sequence_parallel:
            both = {name: comm.all_gather(t, axis, 1) for name, t in both.items()}
        return both | gather(((n, p.grad) for n, p in layer.named_parameters()), manifest(layer), axis)

    expected = on_rank(1, False)
    for ours in minipar.run(on_rank, 4, 4, True, timeout=20, device="cpu"):
        assert_close_by_name(ours, expected)


def test_weights_joined_at_one_tp_give_the_same_output_at_another() -> None:
    """NeMo Automodel PR#1324, after a step, so that the joined weights are not those it started from."""

    def stepped() -> dict[str, Tensor]:
        axis = Mesh(tp=2).tp
        layer = split(2, axis)
        layer(X).backward(DY)
        torch.optim.SGD(layer.parameters(), 0.1).step()
        return gather(layer.named_parameters(), manifest(layer), axis) | {"y": layer(X).detach()}

    def used(saved: dict[str, Tensor], tp: int) -> Tensor:
        return Attention(*saved.values(), HEADS, 2, Mesh(tp=tp).tp)(X).detach()

    saved = minipar.run(stepped, 2, timeout=20, device="cpu")[0]
    expected = saved.pop("y")
    assert list(saved) == ["qkv.weight", "out.weight", "out.bias"]
    assert_close([used(saved, 1)], [expected])
    assert_close(minipar.run(used, 4, saved, 4, timeout=20, device="cpu"), [expected] * 4)


@given(st.sampled_from([1, 2, 4, 8]), st.sampled_from([1, 2, 4, 8]), st.integers(1, 3))
def test_each_rank_has_the_key_value_heads_of_its_query_heads(kv_heads: int, tp: int, size: int) -> None:
    hidden, share = HEADS * size, HEADS // kv_heads
    head_of_row = torch.arange((HEADS + 2 * kv_heads) * size).div(size, rounding_mode="floor")
    qkv = head_of_row.double().unsqueeze(1).expand(-1, hidden)
    for rank in range(tp):
        axis = Axis("tp", tuple(range(tp)), rank, None, Mesh().placement, Ledger())
        layer = Attention(qkv, torch.zeros(hidden, hidden), torch.zeros(hidden), HEADS, kv_heads, axis)
        held = [s.held(tp) for s in layer.sections]
        q, k, v = (rows[::size].tolist() for rows in layer.qkv.weight[:, 0].detach().split(held))
        group = len(q) // len(k)
        assert q == [rank * len(q) + i for i in range(HEADS // tp)]
        assert [k[i // group] - HEADS for i in range(len(q))] == [head // share for head in q]
        assert [v[i // group] - HEADS - kv_heads for i in range(len(q))] == [head // share for head in q]


def test_nothing_that_comes_later_is_seen() -> None:
    later = torch.cat([X[:, :3], drawn(2, 2, HIDDEN, seed=9)], 1)
    for p in (0.0, 0.5):
        layer = split(2, Mesh().tp, p=p)
        assert_close([layer(later)[:, :3].detach()], [layer(X)[:, :3].detach()])
        assert not torch.allclose(layer(later)[:, 3:], layer(X)[:, 3:])


def test_the_attention_that_can_drop_is_the_one_that_cannot_where_nothing_is_dropped() -> None:
    expected = split(2, Mesh().tp)(X).detach()
    dropping = split(2, Mesh().tp, p=1e-300)
    assert_close([dropping(X).detach()], [expected])
    dropping.p = 0.5
    assert not torch.allclose(dropping(X), expected)
    assert not torch.allclose(dropping(X, Moment(step=1)), dropping(X))
    assert_close([dropping.eval()(X).detach()], [expected])


@given(st.integers(1, 8), st.integers(1, 8), st.integers(1, 8), st.integers(1, 3))
def test_heads_are_accepted_exactly_where_every_rank_gets_whole_ones(heads: int, kv: int, tp: int, size: int) -> None:
    fits = heads % kv == 0 and heads % tp == 0 and (kv % tp == 0 or tp % kv == 0)
    if fits:
        check_heads(heads * size, heads, kv, tp)
        return
    with pytest.raises(ValueError, match="not divisible") as error:
        check_heads(heads * size, heads, kv, tp)
    if "tp can be" in str(error.value):
        for n in map(int, str(error.value).split("tp can be ")[1].split(", ")):
            check_heads(heads * size, heads, kv, n)


def test_features_that_do_not_divide_into_heads_are_refused() -> None:
    with pytest.raises(ValueError, match="hidden=10 is not divisible by heads=4"):
        check_heads(10, 4, 4, 1)
