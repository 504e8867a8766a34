"""How long a schedule takes with however many micro-batches: simulated until it repeats itself, then followed.

In the middle of a schedule a rank does with the next micro-batch what it did with this one (interleaved: with the next
p). An action starts when the one before it in its row is done and what it works on is there; neighbours in a row are
at most `reach` micro-batches apart. So where all that happens to `reach` micro-batches in a row ends later than what
happened to those a period before by one and the same time, so does everything after it, as long as the rows go on so.
Then another period adds that time, exactly. Costs for which two rhythms compete may take long to settle: until they
do, twice as many micro-batches are simulated, up to all of them.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from minipar.pipeline.simulate import Compiled, compiled
from minipar.plan.layout import written

HOLDING = ("gpipe", "breadth-first")
"""Schedules that hold every micro-batch before the first backward: they do not repeat themselves."""

Costs = tuple[tuple[float, float], ...]
"""Seconds of a micro-batch's forward and backward, for each stage."""


@lru_cache(maxsize=4096)
def duration(schedule: str, p: int, m: int, virtual: int, costs: Costs, send: float) -> float:
    """Seconds from the first start to the last end of `m` micro-batches over `p` ranks; a message takes `send`."""
    n = m if schedule in HOLDING else 5 * p
    period = p if schedule == "interleaved" else 1
    while n < 0.8 * m:
        n += (m - n) % period
        ends = _ends(schedule, p, n, virtual, costs, send)
        if found := _repeats(_order(schedule, p, n, virtual), ends, n, period):
            length, seconds = found
            rest = (m - n) % length
            if n + rest >= m:
                break
            if rest:
                ends = _ends(schedule, p, n + rest, virtual, costs, send)
            return float(ends.max() + (m - n - rest) // length * seconds)
        n *= 2
    return float(_ends(schedule, p, m, virtual, costs, send).max())


def _repeats(order: _Order, ends: NDArray[np.float64], n: int, period: int) -> tuple[int, float] | None:
    """After how many micro-batches the schedule repeats itself before its last ones, and how much later."""
    reach = order.reach
    last = n - reach - 1  # the actions on micro-batches from here on end the schedule
    table = np.where(order.at < 0, np.nan, ends[order.at])
    window = table[:, last - reach : last]
    for length in range(period, last - reach + 1, period):
        later = window - table[:, last - reach - length : last - length]
        seconds = float(np.nanmax(later))
        same = np.abs(later - seconds) <= 1e-9 * seconds
        if (same | (np.isnan(window) & np.isnan(later))).all():
            return length, seconds
    return None


def _ends(schedule: str, p: int, m: int, virtual: int, costs: Costs, send: float) -> NDArray[np.float64]:
    order = _order(schedule, p, m, virtual)
    forward, backward = np.array(costs).T
    # I and W are half a backward each: as many products (Qi et al. 2024, Table 1).
    seconds = np.stack([forward, backward, backward / 2, backward / 2])[order.kinds, order.stages].tolist()
    travel = [[0.0 if source == to else send for to in range(p)] for source in range(p)]
    return np.array(order.compiled.times(seconds, travel)[1])


class _Order(NamedTuple):
    """A schedule in an order that can run, and the kind and the stage of each action in it.

    at: of each kind and stage, where in it each micro-batch is; -1: nowhere. reach: micro-batches between neighbours.
    """

    compiled: Compiled
    kinds: NDArray[np.int64]
    stages: NDArray[np.int64]
    at: NDArray[np.int64]
    reach: int


@lru_cache(maxsize=256)
def _order(name: str, p: int, m: int, virtual: int) -> _Order:
    schedule = written(name, p, m, virtual)
    order = compiled(schedule)
    kinds = np.array(["FBIW".index(action.kind) for action in order.actions])
    _, *named = zip(*order.actions, strict=True)
    stages, micro_batches = np.array(named)
    at = np.full((4, schedule.stages, m), -1)
    at[kinds, stages, micro_batches] = np.arange(len(kinds))
    rows = [[action.micro_batch for action in row] for row in schedule.actions]
    reach = max(int(np.abs(np.diff(row)).max(initial=1)) for row in rows)
    return _Order(order, kinds, stages, at[(at >= 0).any(axis=2)], reach)
