"""What lesson 03 shows of cut products: equal to the whole, and sending what the formulas say."""

import re

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from course.figures.lesson03 import (
    beside_whole,
    grid_beside_line,
    grid_sent,
    line_sent,
    predict_backward,
    predict_grid,
    predict_pair,
)
from minipar import comm
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


def test_a_grid_sends_less_than_a_line_only_where_there_are_many_samples() -> None:
    few, many = cells(str(grid_beside_line((16, 2048), features=32).data))
    assert max(float(few[-1]), float(many[-1])) < 1e-12
    # Columns are samples, line, grid, ratio; here in float64.
    assert [few[3], many[3]] == [f"{grid_sent(b, 32) / line_sent(b, 32):.2f} times" for b in (16, 2048)]
    assert float(few[3].split()[0]) > 1 > float(many[3].split()[0])


@given(batch=st.integers(1, 10**4), features=st.integers(1, 10**4))
def test_the_grid_wins_from_eight_samples_a_feature(batch: int, features: int) -> None:
    assert (grid_sent(2 * batch, 2 * features) < line_sent(2 * batch, 2 * features)) == (batch > 8 * features)


@pytest.mark.parametrize(("widget", "truth"), [(predict_backward, 384.0), (predict_pair, 1), (predict_grid, 3.5)])
def test_predictions_know_the_truth_and_do_not_show_it(widget: object, truth: float) -> None:
    made = widget()  # type: ignore[operator]
    assert f"{truth:g}" not in re.sub(r"\d+ ranks|float32|2 × 2", "", made.question)
    made._handle_custom_msg({"prediction": "2"}, [])
    assert f"it is {truth:g}" in made.outcome["sentences"][0]


def test_the_line_is_what_an_all_reduce_sends() -> None:
    assert line_sent(64, 128, ranks=4) == 2 * 3 / 4 * 64 * 128 * torch.finfo(torch.float32).bits / 8
    assert comm.size_of(torch.zeros(64, 128)) == 64 * 128 * 4
