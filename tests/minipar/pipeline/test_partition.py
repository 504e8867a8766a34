from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minipar.pipeline import even_cuts

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
