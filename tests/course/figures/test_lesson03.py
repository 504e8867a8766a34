"""What lesson 03 shows of cut products: equal to the whole, and sending what the formulas say."""

import re

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from course.figures.cuts import gradient_error
from course.figures.lesson03 import (
    beside_whole,
    grid_beside_line,
    grid_sent,
    line_sent,
    predict_backward,
    predict_grid,
    predict_pair,
)
from course.widgets.units import bytes_in_words
from minipar import Mesh, comm, run
from minipar.mesh import Axis
from minipar.tensor import column_row_matmul


def cells(page: str) -> list[list[str]]:
    rows = re.findall(r"<tr>(<td>.*?)</tr>", page)
    return [re.findall(r"<td>(.*?)</td>", row) for row in rows]


def pair(x: Tensor, w: Tensor, v: Tensor, tp: Axis) -> Tensor:
    return column_row_matmul(x, w.chunk(tp.size, 1)[tp.rank], v.chunk(tp.size, 0)[tp.rank], tp)


def never_summed(x: Tensor, w: Tensor, v: Tensor, tp: Axis) -> Tensor:
    return x @ w.chunk(tp.size, 1)[tp.rank] @ v.chunk(tp.size, 0)[tp.rank]


def test_a_right_cut_is_equal_and_a_wrong_one_is_not() -> None:
    right, wrong = cells(str(beside_whole(pair, never_summed).data))
    assert right[0] == "pair"
    assert max(map(float, right[1:3])) < 1e-12
    assert right[3:] == ["12 KiB", "12 KiB"]
    assert float(wrong[1]) > 0.1
    assert float(wrong[2]) > 0.1


def test_a_grid_is_equal_and_sends_what_the_formula_says() -> None:
    rows = cells(str(grid_beside_line((16, 2048), features=32).data))
    for batch, row in zip((16, 2048), rows, strict=True):
        line, grid = 2 * line_sent(batch, 32), 2 * grid_sent(batch, 32)  # twice, as they are in float64
        assert row[1:5] == [bytes_in_words(size) for size in (line, grid, line, 2 * grid)]
        assert max(map(float, row[5:])) < 1e-12


@given(batch=st.integers(1, 10**4), features=st.integers(1, 10**4))
def test_the_grid_wins_from_eight_samples_a_feature_forward_and_never_in_both(batch: int, features: int) -> None:
    line, grid = line_sent(2 * batch, 2 * features), grid_sent(2 * batch, 2 * features)
    assert (grid < line) == (batch > 8 * features)
    assert grid + 2 * grid > line + line


def shards_and_summands() -> list[float]:
    tp = Mesh(tp=2).tp
    whole = torch.arange(1.0, 9).reshape(2, 4)
    shard = torch.zeros(2, 4)
    shard.chunk(2, 1)[tp.rank].copy_(whole.chunk(2, 1)[tp.rank])
    missing = shard.clone()
    missing[0, 0] = 0
    found = whole, shard, whole / 2, missing, None
    return [gradient_error(ours, whole, tp) for ours in found]


def test_a_shard_of_a_gradient_is_right_and_a_summand_or_a_hole_is_not() -> None:
    errors = run(shards_and_summands, 2, timeout=30, device="cpu")
    assert errors == [[0, 0, 0.5, 0.125, 1]] * 2


@pytest.mark.parametrize(("widget", "truth"), [(predict_backward, 384.0), (predict_pair, 1), (predict_grid, 3.5)])
def test_predictions_know_the_truth_and_do_not_show_it(widget: object, truth: float) -> None:
    made = widget()  # type: ignore[operator]
    assert f"{truth:g}" not in re.sub(r"\d+ ranks|float32|2 × 2", "", made.question)
    made._handle_custom_msg({"prediction": "2"}, [])
    assert f"it is {truth:g}" in made.outcome["sentences"][0]


def test_the_line_is_what_an_all_reduce_sends() -> None:
    assert line_sent(64, 128, ranks=4) == 2 * 3 / 4 * 64 * 128 * torch.finfo(torch.float32).bits / 8
    assert comm.size_of(torch.zeros(64, 128)) == 64 * 128 * 4
