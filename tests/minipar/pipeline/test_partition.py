from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import combinations, pairwise

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from minipar.pipeline.partition import balanced_cuts, equal_cuts, even_cuts

sizes = st.integers(1, 200).flatmap(lambda layers: st.tuples(st.just(layers), st.integers(1, layers)))


@given(sizes)
def test_every_layer_is_in_one_stage_in_order(size: tuple[int, int]) -> None:
    layers, stages = size
    cuts = even_cuts(layers, stages)
    assert len(cuts) == stages
    assert [layer for cut in cuts for layer in cut] == list(range(layers))


@given(sizes)
def test_lengths_differ_by_at_most_one_and_the_longer_are_in_the_middle(size: tuple[int, int]) -> None:
    layers, stages = size
    lengths = [len(cut) for cut in even_cuts(layers, stages)]
    assert max(lengths) - min(lengths) <= 1
    longer = [stage for stage, length in enumerate(lengths) if length > layers // stages]
    assert len(longer) == layers % stages
    if longer:
        before, after = longer[0], stages - 1 - longer[-1]
        assert longer == list(range(before, stages - after))
        assert abs(before - after) <= 1


def test_ten_layers_on_four_stages() -> None:
    assert even_cuts(10, 4) == (range(2), range(2, 5), range(5, 8), range(8, 10))


@given(st.integers(0, 20), st.integers(-3, 30))
def test_a_stage_without_a_layer_is_refused(layers: int, stages: int) -> None:
    if 1 <= stages <= layers:
        assert all(even_cuts(layers, stages))
    else:
        with pytest.raises(ValueError, match=f"{layers} layers cannot fill {stages} stages"):
            even_cuts(layers, stages)


Chain = tuple[list[float], int, float, float]
# Few whole numbers, so that many cuts tie, and floats whose sums are rounded.
costs = st.one_of(st.integers(0, 3).map(float), st.sampled_from([0.1, 0.2, 0.3, 1e-9, 1e9]), st.floats(0, 1e300))
chains = st.integers(1, 9).flatmap(
    lambda layers: st.tuples(
        st.lists(costs, min_size=layers, max_size=layers), st.integers(1, layers), costs, st.just(0.0) | costs
    )
)


def every_cut(layers: int, stages: int) -> Iterator[tuple[range, ...]]:
    for inner in combinations(range(1, layers), stages - 1):
        yield tuple(range(start, end) for start, end in pairwise([0, *inner, layers]))


def stage_costs(cuts: Sequence[range], chain: Sequence[float], first: float, last: float) -> list[Fraction]:
    """Without rounding."""
    found = [sum((Fraction(chain[layer]) for layer in cut), Fraction(0)) for cut in cuts]
    found[0] += Fraction(first)
    found[-1] += Fraction(last)
    return found


@given(chains)
@example(([0.1, 0.2, 0.3, 0.3, 0.2, 0.1], 3, 0.0, 0.0))
def test_no_cut_is_better_balanced(chain: Chain) -> None:
    layers, stages, first, last = chain

    def rank(cuts: Sequence[range]) -> tuple[Fraction, Fraction, list[int]]:
        each = stage_costs(cuts, layers, first, last)
        return max(each), sum((cost**2 for cost in each), Fraction(0)), [-cut.start for cut in reversed(cuts)]

    assert balanced_cuts(layers, stages, first, last) == min(every_cut(len(layers), stages), key=rank)


@given(st.integers(1, 40).flatmap(lambda layers: st.tuples(st.just(layers), st.integers(1, layers))))
def test_layers_that_cost_the_same_are_cut_evenly(size: tuple[int, int]) -> None:
    layers, stages = size
    lengths = [[len(cut) for cut in cuts] for cuts in (balanced_cuts([0.1] * layers, stages), even_cuts(*size))]
    assert sorted(lengths[0]) == sorted(lengths[1])


def test_the_embedding_and_the_head_take_layers_from_the_first_and_the_last_stage() -> None:
    assert balanced_cuts([1.0] * 9, 3) == (range(3), range(3, 6), range(6, 9))
    assert balanced_cuts([1.0] * 9, 3, first=1, last=2) == (range(3), range(3, 7), range(7, 9))
    assert balanced_cuts([1.0] * 9, 3, last=9) == (range(4), range(4, 8), range(8, 9))


def test_one_slow_layer_leaves_the_others_balanced() -> None:
    assert balanced_cuts([9.0, 1, 1, 1, 1, 1, 1], 3) == (range(1), range(1, 4), range(4, 7))
    assert balanced_cuts([1.0, 1, 1, 1, 9, 1, 1], 4) == (range(2), range(2, 4), range(4, 5), range(5, 7))


def test_the_slowest_stage_counts_before_the_squares() -> None:
    # 9, 8, 2 and 8; squared, 3, 6, 8 + 2 and 8 add up to less.
    assert balanced_cuts([3.0, 6, 8, 2, 8], 4) == (range(2), range(2, 3), range(3, 4), range(4, 5))


def test_sums_that_floats_would_round_do_not_choose_between_ties() -> None:
    assert 0.1 + 0.2 + 0.3 != 0.3 + 0.2 + 0.1
    there = balanced_cuts([0.1, 0.2, 0.3, 0.3, 0.2, 0.1], 2)
    assert there == (range(3), range(3, 6))


def test_one_stage_holds_all() -> None:
    assert balanced_cuts([3.0, 1.0, 2.0], 1, 5.0, 5.0) == (range(3),)


def test_layers_without_costs_still_fill_every_stage() -> None:
    cuts = balanced_cuts([0.0] * 5, 3)
    assert all(cuts)
    assert [layer for cut in cuts for layer in cut] == list(range(5))


def test_two_hundred_layers_on_thirty_two_stages_take_well_under_a_second() -> None:
    began = time.process_time()
    cuts = balanced_cuts([1 + math.sin(layer) / 3 for layer in range(200)], 32, 0.4, 2.0)
    assert time.process_time() - began < 1
    assert len(cuts) == 32


@given(st.integers(0, 20), st.integers(-3, 30))
def test_a_balanced_stage_without_a_layer_is_refused(layers: int, stages: int) -> None:
    if 1 <= stages <= layers:
        assert all(balanced_cuts([1.0] * layers, stages))
    else:
        with pytest.raises(ValueError, match=f"{layers} layers cannot fill {stages} stages"):
            balanced_cuts([1.0] * layers, stages)


@pytest.mark.parametrize("wrong", [-1.0, math.inf, -math.inf, math.nan])
def test_a_cost_that_is_negative_or_not_finite_is_refused_by_its_place(wrong: float) -> None:
    with pytest.raises(ValueError, match=f"layer 2 costs {wrong};"):
        balanced_cuts([1.0, 0.0, wrong], 2)
    with pytest.raises(ValueError, match=f"what comes first costs {wrong};"):
        balanced_cuts([1.0, 1.0], 2, first=wrong)
    with pytest.raises(ValueError, match=f"what comes last costs {wrong};"):
        balanced_cuts([1.0, 1.0], 2, last=wrong)


@settings(max_examples=300, deadline=None)
@given(layers=st.integers(1, 24), stages=st.integers(1, 24), last=st.sampled_from([0.0, 0.01, 0.5, 0.97, 1, 1.73, 6.2]))
def test_equal_layers_are_cut_as_any_are(layers: int, stages: int, last: float) -> None:
    if stages > layers:
        with pytest.raises(ValueError, match="cannot fill"):
            equal_cuts(layers, stages, last)
        return
    assert equal_cuts(layers, stages, last) == tuple(map(len, balanced_cuts([1.0] * layers, stages, 0.0, last)))
