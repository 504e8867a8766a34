"""The explorer of lesson 04: its numbers are what a real block sends, and what the papers say is kept."""

from xml.etree import ElementTree

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import minipar
from course.figures.one_block import CONFIG, SAMPLES, run_block
from course.widgets.block import DEGREES, MODELS, activations, block, look, sent
from minipar.plan import Model, model_by_name

SVG = "{http://www.w3.org/2000/svg}"


@given(model=st.integers(0, len(MODELS) - 1), tp=st.integers(0, len(DEGREES) - 1), sequence=st.integers(0, 1))
def test_every_position_draws_a_part_for_each_rank_inside_the_picture(model: int, tp: int, sequence: int) -> None:
    n = DEGREES[tp]
    root = ElementTree.fromstring(look(model, tp, sequence).picture)
    boxes = [box for box in root.iter(f"{SVG}rect") if box.get("stroke-width") == ".8"]
    cut, whole = (10, 0) if sequence and n > 1 else (6, 4)
    assert len(boxes) == cut * n + whole
    for box in boxes:
        assert 0 <= float(box.get("x", "")) <= float(box.get("x", "")) + float(box.get("width", "")) <= 900
    talks = root.get("aria-label", "").count("all-reduce"), root.get("aria-label", "").count("all-gather")
    assert talks == ((0, 0) if n == 1 else (0, 4) if sequence else (4, 0))


@pytest.mark.parametrize(("tp", "sequence"), [(2, False), (4, True)])
def test_what_is_sent_is_what_a_real_block_sends(tp: int, sequence: bool) -> None:
    ran = minipar.run(run_block, tp, tp, sequence, torch.float64, timeout=30, device="cpu")
    # All samples as one long sequence, as each gradient of a norm is summed once for all of them.
    said = Model(1, CONFIG.hidden, CONFIG.heads, 1, SAMPLES * CONFIG.sequence), tp, sequence
    times = 8 / 2  # bytes of float64 beside half precision
    assert {(one.forward, one.backward) for one in ran} == {tuple(times * size for size in sent(*said))}


@given(tp=st.sampled_from(DEGREES), model=st.sampled_from(MODELS))
def test_what_is_kept_is_what_korthikanti_says(tp: int, model: str) -> None:
    sizes = model_by_name(model)
    s, h, a = sizes.sequence, sizes.hidden, sizes.heads
    assert activations(sizes, tp, False) == pytest.approx(s * h * (10 + 24 / tp + 5 * a * s / (h * tp)))
    assert activations(sizes, tp, True) == pytest.approx(s * h * (34 + 5 * a * s / h) / tp)


def test_the_explorer_begins_where_it_is_told_and_moves() -> None:
    explorer = block(tp=4)
    before = explorer.picture
    explorer.values = {**explorer.values, "sequence": 1}
    assert explorer.picture != before
    assert "reduce-scatter" in explorer.picture
