"""The learning rate of every step, beside PyTorch's own schedulers and closed values."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.optim.lr_scheduler import CosineAnnealingLR, LinearLR, SequentialLR

from minipar.train.rate import rate_at


def rates(steps: int, peak: float, warm_up: int, floor: float = 0.1) -> list[float]:
    return [rate_at(step, steps, peak, warm_up, floor) for step in range(steps)]


@pytest.mark.filterwarnings("ignore:The epoch parameter")
@pytest.mark.parametrize(("steps", "warm_up", "floor"), [(50, 10, 0.1), (20, 2, 0), (37, 5, 0.5), (30, 29, 0.1)])
def test_rates_are_those_of_pytorchs_linear_and_cosine_schedulers(steps: int, warm_up: int, floor: float) -> None:
    peak, top = 3e-3, warm_up - 1
    optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=peak)
    rise = LinearLR(optimizer, start_factor=1 / warm_up, total_iters=top)
    fall = CosineAnnealingLR(optimizer, T_max=steps - 1 - top, eta_min=floor * peak)
    scheduler, theirs = SequentialLR(optimizer, [rise, fall], milestones=[top]), []
    for _ in range(steps):
        theirs.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        scheduler.step()
    assert rates(steps, peak, warm_up, floor) == pytest.approx(theirs, rel=1e-9)


def test_a_short_schedule_has_the_values_that_one_computes_by_hand() -> None:
    swing = 0.4 * math.sqrt(0.5)  # around 0.6, the middle between peak and floor
    assert rates(8, 1.0, 4, floor=0.2) == pytest.approx([0.25, 0.5, 0.75, 1, 0.6 + swing, 0.6, 0.6 - swing, 0.2])


@given(st.integers(1, 300), st.floats(1e-6, 10), st.data(), st.floats(0, 1))
def test_rates_rise_to_the_peak_once_and_fall_to_the_floor(
    steps: int, peak: float, data: st.DataObject, floor: float
) -> None:
    warm_up = data.draw(st.integers(0, steps))
    found, top = rates(steps, peak, warm_up, floor), max(warm_up - 1, 0)
    assert found[top] == max(found) == peak
    assert found[0] == (peak * (1 / warm_up) if warm_up else peak)
    assert found[: top + 1] == sorted(found[: top + 1])
    assert found[top:] == pytest.approx(sorted(found[top:], reverse=True), rel=1e-12)
    if top < steps - 1:
        assert found[-1] == pytest.approx(floor * peak, rel=1e-12, abs=0)


def test_a_floor_of_one_stays_at_the_peak() -> None:
    assert rates(100, 0.3, 2, floor=1) == [0.15] + [0.3] * 99


@pytest.mark.parametrize(
    ("steps", "warm_up", "wanted"),
    [(1, 0, [2.0]), (1, 1, [2.0]), (2, 0, [2.0, 0.2]), (2, 1, [2.0, 0.2]), (2, 2, [1, 2])],
)
def test_the_shortest_schedules_are_whole(steps: int, warm_up: int, wanted: list[float]) -> None:
    assert rates(steps, 2.0, warm_up) == pytest.approx(wanted, rel=1e-15)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"step": 10}, "step=10; the schedule has the steps 0 to 9"),
        ({"step": -1}, "step=-1; the schedule has"),
        ({"steps": 0, "step": 0}, "steps=0; it must be at least 1"),
        ({"warm_up": 11}, "warm_up=11; it can be 0 to 10"),
        ({"warm_up": -1}, "warm_up=-1; it can be 0 to 10"),
        ({"peak": 0.0}, "peak=0.0; it must be positive"),
        ({"peak": -1.0}, "peak=-1.0; it must be positive"),
        ({"peak": math.nan}, "peak=nan; it must be positive"),
        ({"peak": math.inf}, "peak=inf; it must be positive"),
        ({"floor": 1.1}, "floor=1.1; it is a share"),
        ({"floor": -0.1}, "floor=-0.1; it is a share"),
    ],
)
def test_numbers_that_make_no_schedule_are_refused(changed: dict[str, float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        rate_at(**{"step": 0, "steps": 10, "peak": 1.0, "warm_up": 2, **changed})  # type: ignore[arg-type]
