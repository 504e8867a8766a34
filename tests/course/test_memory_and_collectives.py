"""The explorers of lessons 01 and 02: every position of their sliders shows the library's numbers."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from course.widgets.collectives import MOST_RANKS, SIZES, collectives
from course.widgets.collectives import look as look_at_ring
from course.widgets.explorer import Explorer
from course.widgets.memory import DEVICES, MODELS, REPLICAS, SAMPLES, SAVED, memory, predicted
from course.widgets.memory import look as look_at_memory
from course.widgets.units import bytes_in_words, seconds_in_words


def position(of: tuple[str, ...]) -> st.SearchStrategy[int]:
    return st.integers(0, len(of) - 1)


@settings(max_examples=150)
@given(
    model=position(MODELS),
    samples=position(SAMPLES),
    replicas=position(REPLICAS),
    zero=st.integers(0, 3),
    recompute=position(SAVED),
    device=position(DEVICES),
)
def test_memory_is_what_the_planner_predicts(model, samples, replicas, zero, recompute, device) -> None:
    view = look_at_memory(model, samples, replicas, zero, recompute, device)
    found = predicted(model, samples, replicas, zero, recompute, device)
    states, rest, room = (float(value.split()[0].replace(",", "")) for _, value in view.facts[1:])
    assert states + rest == pytest.approx(found.worst.total / 2**30, abs=0.11)
    assert room == pytest.approx(abs(found.usable - found.worst.total) / 2**30, abs=0.051)
    assert view.facts[3][0] == ("room left" if found.fits else "too much")
    assert ElementTree.fromstring(view.picture).get("aria-label", "").startswith(MODELS[model])


@given(ranks=st.integers(1, MOST_RANKS), step=st.integers(0, 2 * MOST_RANKS), size=st.integers(0, len(SIZES) - 1))
def test_a_ring_can_be_stepped_through_to_its_end(ranks: int, step: int, size: int) -> None:
    view = look_at_ring(ranks, step, size)
    label = ElementTree.fromstring(view.picture).get("aria-label", "")
    assert label.startswith(f"Step {min(step, 2 * (ranks - 1))} of" if step and ranks > 1 else "Before")
    assert view.facts[1][1] == f"{200 * (ranks - 1) / ranks:.0f} %"


@pytest.mark.parametrize("explorer", [memory(), collectives()])
def test_every_slider_says_its_value_and_moves_the_picture(explorer: Explorer) -> None:
    before = explorer.picture, explorer.facts
    for control in explorer.controls:
        assert not control["names"] or len(control["names"]) == control["most"] - control["least"] + 1
        explorer.values = {**explorer.values, control["name"]: control["most"]}
        assert (explorer.picture, explorer.facts) != before, control["name"]
        before = explorer.picture, explorer.facts


@pytest.mark.parametrize(("size", "words"), [(0, "0 B"), (1000, "1,000 B"), (2**20, "1 MiB"), (2**40, "1,024 GiB")])
def test_sizes_have_the_unit_that_suits_them(size: int, words: str) -> None:
    assert bytes_in_words(size) == words


@pytest.mark.parametrize(("time", "words"), [(0, "0 µs"), (2.5e-6, "2.5 µs"), (0.0421, "42.1 ms"), (3.2, "3.2 s")])
def test_times_have_the_unit_that_suits_them(time: float, words: str) -> None:
    assert seconds_in_words(time) == words
