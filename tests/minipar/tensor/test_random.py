"""Weights and masks depend on names and moments, and on nothing else."""

from __future__ import annotations

from dataclasses import astuple, replace
from itertools import pairwise

import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st

from minipar import Mesh
from minipar.ledger import Ledger
from minipar.mesh import Axis
from minipar.tensor import Draw, Moment, dropout

small = st.integers(0, 3)
moments = st.builds(Moment, small, small, small, small)
names = st.text(st.sampled_from("ab."), max_size=4)
SIZE = 64  # entries of a mask: two that are drawn independently agree by chance once in 2^64


def axis_of(size: int, rank: int) -> Axis:
    """An axis that nobody communicates on."""
    return Axis("tp", tuple(range(size)), rank, None, Mesh().placement, Ledger())


def kept(moment: Moment, name: str) -> list[bool]:
    return (dropout(torch.ones(SIZE), 0.5, moment, name) > 0).tolist()


@given(moments, names, moments, names)
def test_masks_are_equal_exactly_where_moment_and_name_are(m: Moment, name: str, other: Moment, another: str) -> None:
    assert (kept(m, name) == kept(other, another)) == ((m, name) == (other, another))


@given(st.permutations([0, 1, 2, 3]), st.permutations([0, 1, 2, 3]))
def test_the_parts_of_a_moment_are_not_interchangeable(one: list[int], other: list[int]) -> None:
    assert (kept(Moment(*one), "x") == kept(Moment(*other), "x")) == (one == other)


@given(moments, st.floats(0, 0.99), st.integers(1, 5), st.integers(1, 3), st.integers(0, 2), st.booleans())
def test_the_mask_of_a_slice_is_the_slice_of_the_whole_mask(
    moment: Moment, p: float, tp: int, held: int, dim: int, from_behind: bool
) -> None:
    shape = [3, 2, 4]
    shape[dim] = tp * held
    x = torch.randn(shape, dtype=torch.float64)
    whole = dropout(x, p, moment, "x")
    dim -= 3 * from_behind
    pieces = x.chunk(tp, dim)
    cut = [dropout(pieces[rank], p, moment, "x", axis_of(tp, rank), dim) for rank in range(tp)]
    assert torch.equal(torch.cat(cut, dim), whole)


@given(moments, st.floats(0, 0.9))
def test_the_mask_is_the_same_in_every_type_and_in_the_gradient(moment: Moment, p: float) -> None:
    x = torch.ones(SIZE, requires_grad=True)
    y = dropout(x, p, moment, "x")
    y.sum().backward()
    assert torch.equal(x.grad, y)
    assert set(y.tolist()) <= {0.0, torch.tensor(1.0).div(1 - p).item()}
    for dtype in (torch.float64, torch.bfloat16):
        other = dropout(torch.ones(SIZE, dtype=dtype), p, moment, "x")
        assert other.dtype == dtype
        assert torch.equal(other == 0, y == 0)


@given(moments, st.integers(1, 9))
def test_the_share_dropped_is_p(moment: Moment, tenths: int) -> None:
    count, p = 10_000, tenths / 10
    dropped = int((dropout(torch.ones(count), p, moment, "x") == 0).sum())
    assert abs(dropped - p * count) < 6 * (count * p * (1 - p)) ** 0.5  # six standard deviations


def test_more_is_dropped_where_p_is_larger_and_what_was_dropped_stays_so() -> None:
    masks = [dropout(torch.ones(SIZE), p, Moment(), "x") == 0 for p in (0.1, 0.3, 0.5, 0.9)]
    for fewer, more in pairwise(masks):
        assert bool((more | ~fewer).all())
        assert more.sum() > fewer.sum()


@pytest.mark.parametrize("p", [1.0, 1.5, -0.1, float("nan")])
def test_a_share_that_leaves_nothing_to_scale_is_refused(p: float) -> None:
    with pytest.raises(ValueError, match="from 0 to just below 1"):
        dropout(torch.ones(3), p, Moment(), "x")


@given(small, names, small, names)
def test_weights_are_equal_exactly_where_seed_and_full_name_are(seed: int, name: str, other: int, another: str) -> None:
    one, two = Draw(seed).normal(name, SIZE), Draw(other).normal(another, SIZE)
    assert torch.equal(one, two) == ((seed, name) == (other, another))


@given(small, st.lists(st.sampled_from("ab"), min_size=1, max_size=4))
def test_a_weight_has_its_full_name_however_deep_its_module_is(seed: int, path: list[str]) -> None:
    draw = Draw(seed)
    for part in path:
        draw = draw.under(part)
    assert torch.equal(draw.normal("weight", SIZE), Draw(seed).normal(".".join([*path, "weight"]), SIZE))


def test_what_was_drawn_before_does_not_matter() -> None:
    torch.manual_seed(0)
    expected = Draw(0).normal("x", SIZE)
    state = torch.random.get_rng_state()
    draw = Draw(0)
    draw.normal("y", 7), torch.rand(3), draw.zeros(3), dropout(torch.ones(3), 0.5, Moment(), "x")
    assert torch.equal(draw.normal("x", SIZE), expected)
    torch.random.set_rng_state(state)
    Draw(0).normal("x", SIZE), dropout(torch.ones(3), 0.5, Moment(), "x")
    assert torch.equal(torch.random.get_rng_state(), state)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16], ids=str)
def test_a_weight_has_the_type_shape_and_spread_asked_for(dtype: torch.dtype) -> None:
    weight = Draw(0, dtype).normal("x", 100, 200, std=0.5)
    assert (weight.dtype, weight.shape) == (dtype, (100, 200))
    assert weight.double().std().item() == pytest.approx(0.5, rel=0.05)
    assert weight.double().mean().item() == pytest.approx(0, abs=0.02)
    zeros = Draw(0, dtype).under("a").zeros(2, 3)
    assert (zeros.dtype, zeros.shape, zeros.any().item()) == (dtype, (2, 3), False)


@given(moments, small, st.sampled_from(["seed", "step", "micro_batch", "replica"]))
def test_a_moment_can_be_moved_and_is_a_value(moment: Moment, to: int, field: str) -> None:
    assume(getattr(moment, field) != to)
    moved = replace(moment, **{field: to})
    assert kept(moved, "x") != kept(moment, "x")
    assert kept(Moment(*astuple(moment)), "x") == kept(moment, "x")
