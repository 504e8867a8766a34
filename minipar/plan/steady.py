"""How long a schedule takes with however many micro-batches: simulated until it repeats itself, then followed.

In the middle of a schedule a rank does with the next micro-batch what it did with this one (interleaved: with the next
p). An action starts when the one before it in its row is done and what it works on is there; neighbours in a row are
at most `reach` micro-batches apart. So where all that happens to `reach` micro-batches in a row ends later than what
happened to those a period before by one and the same time, so does everything after it, as long as the rows go on so.
Then another period adds that time, exactly. Costs for which two rhythms compete may take long to settle: until they
do, twice as many micro-batches are simulated, up to all of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from itertools import pairwise

from minipar.plan.closed import CLOSED, closed
from minipar.plan.ends import NEVER, Costs, ends
from minipar.plan.layout import written


@lru_cache(maxsize=4096)
def duration(schedule: str, p: int, m: int, virtual: int, costs: Costs, send: float) -> float:
    """Seconds from the first start to the last end of `m` micro-batches over `p` ranks; a message takes `send`."""
    if schedule in CLOSED:
        return closed(schedule, p, m, costs, send)
    n, period = 5 * p, p if schedule == "interleaved" else 1
    while n < 0.8 * m:
        n += (m - n) % period
        table, end = ends(written(schedule, p, n, virtual), n, costs, send)
        if found := _repeats(list(table.values()), _reach(schedule, p, n, virtual), n, period):
            length, seconds = found
            rest = (m - n) % length
            if n + rest >= m:
                break
            if rest:
                end = ends(written(schedule, p, n + rest, virtual), n + rest, costs, send)[1]
            return end + (m - n - rest) // length * seconds
        n *= 2
    return ends(written(schedule, p, m, virtual), m, costs, send)[1]


Table = list[list[float]]
"""Of each kind and stage, when it ends for each micro-batch."""


def _repeats(table: Table, reach: int, n: int, period: int) -> tuple[int, float] | None:
    """After how many micro-batches the schedule repeats itself before its last ones, and how much later."""
    last = n - reach - 1  # the actions on micro-batches from here on end the schedule
    for length in range(period, last - reach + 1, period):
        pairs = ((row[last - reach - length : last - length], row[last - reach : last]) for row in table)
        if (seconds := _later(pairs)) is not None:
            return length, seconds
    return None


def _later(rows: Iterator[tuple[list[float], list[float]]]) -> float | None:
    """By how much all of the second of each pair ends later than the first; None where not all by the same."""
    least, most = NEVER, 0.0
    for earlier, later in rows:
        for one, other in zip(earlier, later, strict=True):
            if one < NEVER and other < NEVER:
                least, most = min(least, other - one), max(most, other - one)
            elif one != other:
                return None
        if most - least > 1e-9 * most:
            return None
    return most


@lru_cache(maxsize=256)
def _reach(name: str, p: int, m: int, virtual: int) -> int:
    """How many micro-batches neighbours in a row are apart, at most."""
    pairs = (pair for row in written(name, p, m, virtual).actions for pair in pairwise(i for _, _, i in row))
    return max((abs(one - other) for one, other in pairs), default=1) or 1
