"""How long a schedule takes with however many micro-batches: simulated until it repeats itself, then followed.

In the middle of a schedule a rank does with the next micro-batch what it did with this one (interleaved: with the next
p). An action starts when the one before it in its row is done and what it works on is there; neighbours in a row are
at most `reach` micro-batches apart. So where all that happens to `reach` micro-batches in a row ends later than what
happened to those a period before by one and the same time, so does everything after it, as long as the rows go on so.
Then another period adds that time, exactly. Costs for which two rhythms compete may take long to settle: until they
do, twice as many micro-batches are simulated, up to all of them.
"""

from __future__ import annotations

from collections import defaultdict
from functools import lru_cache
from itertools import pairwise

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
        reach = _reach(schedule, p, n, virtual)
        if found := _repeats(_table(_order(schedule, p, n, virtual), ends, n), reach, n, period):
            length, seconds = found
            rest = (m - n) % length
            if n + rest >= m:
                break
            if rest:
                ends = _ends(schedule, p, n + rest, virtual, costs, send)
            return max(ends) + (m - n - rest) // length * seconds
        n *= 2
    return max(_ends(schedule, p, m, virtual, costs, send))


def seconds_of(costs: Costs) -> dict[tuple[str, int], float]:
    """Seconds of each kind in each stage: I and W are half a backward each (Qi et al. 2024, Table 1)."""
    found = {}
    for stage, (forward, backward) in enumerate(costs):
        found["F", stage], found["B", stage] = forward, backward
        found["I", stage] = found["W", stage] = backward / 2
    return found


Table = list[list[float | None]]
"""Of each kind and stage, when it ends for each micro-batch; None: it does not do it."""


def _repeats(table: Table, reach: int, n: int, period: int) -> tuple[int, float] | None:
    """After how many micro-batches the schedule repeats itself before its last ones, and how much later."""
    last = n - reach - 1  # the actions on micro-batches from here on end the schedule
    for length in range(period, last - reach + 1, period):
        seconds = _later([(row[last - reach - length : last - length], row[last - reach : last]) for row in table])
        if seconds is not None:
            return length, seconds
    return None


def _later(rows: list[tuple[list[float | None], list[float | None]]]) -> float | None:
    """By how much all of the second of each pair ends later than the first; None where not all by the same."""
    least, most = float("inf"), 0.0
    for earlier, later in rows:
        for one, other in zip(earlier, later, strict=True):
            if one is not None and other is not None:
                least, most = min(least, other - one), max(most, other - one)
            elif one is not other:
                return None
        if most - least > 1e-9 * most:
            return None
    return most


def _table(order: Compiled, ends: list[float], m: int) -> Table:
    table: defaultdict[tuple[str, int], list[float | None]] = defaultdict(lambda: [None] * m)
    for (kind, stage, micro_batch), end in zip(order.actions, ends, strict=True):
        table[kind, stage][micro_batch] = end
    return list(table.values())


def _ends(schedule: str, p: int, m: int, virtual: int, costs: Costs, send: float) -> list[float]:
    order, seconds = _order(schedule, p, m, virtual), seconds_of(costs)
    travel = [[0.0 if source == to else send for to in range(p)] for source in range(p)]
    return order.times([seconds[kind, stage] for kind, stage, _ in order.actions], travel)[1]


@lru_cache(maxsize=256)
def _order(name: str, p: int, m: int, virtual: int) -> Compiled:
    return compiled(written(name, p, m, virtual))


@lru_cache(maxsize=256)
def _reach(name: str, p: int, m: int, virtual: int) -> int:
    """How many micro-batches neighbours in a row are apart, at most."""
    pairs = [pair for row in written(name, p, m, virtual).actions for pair in pairwise(row)]
    return max((abs(one.micro_batch - other.micro_batch) for one, other in pairs), default=1) or 1
