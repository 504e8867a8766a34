"""Attention split by heads, with as many key-value heads as ranks, more, or fewer."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

import minipar
from minipar import Mesh
from minipar.manifest import gather, manifest
from minipar.mesh import Axis
from minipar.tensor import Attention, check_heads
from tests.minipar.equality import assert_close, assert_close_by_name
from tests.minipar.model.dense import Attention as DenseAttention

HIDDEN, HEADS = 16, 8
SIZE = HIDDEN // HEADS


def drawn(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def split(kv_heads: int, axis: Axis) -> Attention:
    rows = (HEADS + 2 * kv_heads) * SIZE
    return Attention(drawn(rows, HIDDEN), drawn(HIDDEN, HIDDEN, seed=1), drawn(HIDDEN, seed=2), HEADS, kv_heads, axis)


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
