"""The fit finds constants that were planted, and says what cannot be fitted."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from minipar.plan import Bench, Numbers, hardware_by_name, model_by_name
from minipar.plan.fit import Measured, fit
from minipar.plan.generations import MEGATRON_2022
from minipar.plan.time import step_time

A100 = hardware_by_name("a100-80gb")
LAYOUTS = [Numbers(tp=tp, micro_batch=size) for tp in (1, 2, 8) for size in (1, 4)]


def rows(seconds):
    model = model_by_name("gpt-7.5b")
    made = [lambda bench, at=at: step_time(model, at, bench).total for at in LAYOUTS]
    return [Measured(predicted, seconds(predicted)) for predicted in made]


def test_planted_constants_are_found_from_afar():
    truth = replace(MEGATRON_2022, matmul=0.5, passes=4.0, tensor_overlap=0.8)
    start = replace(MEGATRON_2022, matmul=0.9, passes=1.0, tensor_overlap=0.3)
    names = ["matmul", "passes", "tensor_overlap"]
    found = fit(start, names, rows(lambda predicted: predicted(Bench(A100, truth))), A100)
    for name in names:
        assert getattr(found, name) == pytest.approx(getattr(truth, name), rel=1e-4)


def test_a_robust_fit_does_not_follow_one_wild_row():
    truth = replace(MEGATRON_2022, matmul=0.5)
    measured = rows(lambda predicted: predicted(Bench(A100, truth)))
    measured[0] = measured[0]._replace(seconds=20 * measured[0].seconds)
    plain, robust = (fit(MEGATRON_2022, ["matmul"], measured, A100, robust=r).matmul for r in (None, 0.05))
    assert robust == pytest.approx(0.5, rel=0.01)
    assert abs(np.log(plain / 0.5)) > 0.1


@pytest.mark.parametrize(
    ("names", "says"),
    [
        (["speed"], "'speed' is not a constant"),
        (["launch"], "launch=0.0; it is fitted by its logarithm"),
        (["stalled"], "start above 0"),
        ([], "cannot tell 0 constants"),
        (["update"] * 9, "6 measured times cannot tell 9 constants"),
    ],
)
def test_what_cannot_be_fitted_is_said(names, says):
    with pytest.raises(ValueError, match=says):
        fit(MEGATRON_2022, names, rows(lambda predicted: 1.0), A100)


def test_a_constant_that_no_row_depends_on_is_named():
    with pytest.raises(ValueError, match="no row depends on data_overlap"):
        fit(MEGATRON_2022, ["matmul", "data_overlap"], rows(lambda predicted: 1.0), A100)
