"""What lesson 04 shows: a block that is cut equals the whole one, and rounding is as large as its numbers let it be."""

import re

import pytest
import torch

import minipar
from course.figures.lesson04 import (
    block_beside_whole,
    errors,
    predict_logits,
    predict_sequence,
    predict_speedup,
    rounding,
)
from course.figures.one_block import Ran, run_block


@pytest.fixture(scope="module")
def whole() -> Ran:
    return minipar.run(run_block, 1, 1, False, torch.float64, timeout=30, device="cpu")[0]


@pytest.mark.parametrize(("tp", "sequence"), [(2, False), (4, True)])
def test_a_cut_block_is_the_whole_one(whole: Ran, tp: int, sequence: bool) -> None:
    ran = minipar.run(run_block, tp, tp, sequence, torch.float64, timeout=30, device="cpu")
    found = errors(ran, whole, sequence)
    assert max(found.result, found.dx, found.weights) < 1e-12
    assert max(one.kept for one in ran) < whole.kept


def test_errors_see_a_wrong_weight_gradient_and_a_wrong_part(whole: Ran) -> None:
    name = next(iter(whole.gradients))
    worse = whole.gradients | {name: 2 * whole.gradients[name]}
    assert errors([Ran(whole.result, whole.dx, worse, 0, 0, 0)], whole, False).weights >= 0.5
    ranks = [Ran(result, whole.dx, worse, 0, 0, 0) for result in (whole.result, 0.9 * whole.result)]
    assert errors(ranks, whole, False).result == pytest.approx(0.1)
    half, rest = whole.result.chunk(2, 1)
    swapped = [
        Ran(part, dx, whole.gradients, 0, 0, 0) for part, dx in zip((rest, half), whole.dx.chunk(2, 1), strict=True)
    ]
    found = errors(swapped, whole, True)
    assert found.result > 0.1
    assert found.dx == 0


def test_the_tables_show_each_layout_and_each_kind_of_number() -> None:
    row = re.findall(r"<td>(.*?)</td>", str(block_beside_whole((2, True)).data))
    assert row[0] == "2 ranks, sequence parallel"
    assert all(float(error) < 1e-12 for error in row[1:4])
    rows = re.findall(r"<tr><td>(\w+)</td><td>(.*?)</td>", str(rounding(tp=2).data))
    limits = {"float64": 1e-12, "float32": 1e-5, "bfloat16": 0.1}
    assert [name for name, _ in rows] == list(limits)
    assert all(float(error) < limits[name] for name, error in rows)


def test_predictions_are_the_planners_and_the_ledgers() -> None:
    for widget, low, high in ((predict_speedup(), 2, 8), (predict_sequence(), 1, 1), (predict_logits(), 21376, 21376)):
        widget._handle_custom_msg({"prediction": "3"}, [])
        truth = float(widget.outcome["sentences"][0].split("it is ")[1].split()[0])
        assert low <= truth <= high
