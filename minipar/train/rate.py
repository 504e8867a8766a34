"""The learning rate of every step: a linear warm-up to the peak, then a cosine down to a floor."""

from __future__ import annotations

import math


def rate_at(step: int, steps: int, peak: float, warm_up: int, floor: float = 0.1) -> float:
    """The rate of step 0 … steps - 1.

    The first `warm_up` steps rise linearly, from peak/warm_up to the peak. From there a cosine falls to floor·peak,
    which the last step has (Loshchilov & Hutter 2017, equation 5, without restarts; the floor of a tenth is that of
    Brown et al. 2020, appendix B). Without warm-up step 0 has the peak; floor=1 stays there. A schedule that ends
    with its warm-up, or has one step only, ends at the peak.

    Raises `ValueError` for a step or a warm-up that is not in the schedule, a peak that is not positive and a floor
    outside 0 … 1.
    """
    if steps < 1:
        raise ValueError(f"steps={steps}; it must be at least 1")
    if not 0 <= step < steps:
        raise ValueError(f"step={step}; the schedule has the steps 0 to {steps - 1}")
    if not 0 <= warm_up <= steps:
        raise ValueError(f"warm_up={warm_up}; it can be 0 to {steps}, the number of steps")
    if not 0 < peak < math.inf:
        raise ValueError(f"peak={peak}; it must be positive and finite")
    if not 0 <= floor <= 1:
        raise ValueError(f"floor={floor}; it is a share of the peak, from 0 to 1")
    if step < warm_up:
        return peak * ((step + 1) / warm_up)
    top, last = max(warm_up - 1, 0), steps - 1  # the step at the peak, the step at the floor
    if step == top:
        return peak
    return peak * (floor + (1 - floor) * (1 + math.cos(math.pi * (step - top) / (last - top))) / 2)
