"""How long a schedule takes with however many micro-batches: a few are simulated, and the rest is known.

In the middle of a schedule a rank does with the next micro-batch what it did with this one (interleaved: with the next
p). One of the longest chains of waiting sets how long all takes. Where it does the same for two micro-batches there, w
seconds and c micro-batches apart, it can do so once more: c more take w more at least. And where what later actions
wait for ends at most w later than what those c micro-batches before waited for, so do they: c more take w more at most.
Costs for which two rhythms compete may take long to settle: until they do, twice as many micro-batches are simulated,
up to all of them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from functools import lru_cache
from itertools import pairwise

from minipar.pipeline.schedule import Action, Schedule, needs
from minipar.plan.closed import CLOSED, closed
from minipar.plan.ends import NEVER, Costs, Table, Task, ends, seconds_of
from minipar.plan.layout import written


@lru_cache(maxsize=4096)
def duration(schedule: str, p: int, m: int, virtual: int, costs: Costs, send: float) -> float:
    """Seconds from the first start to the last end of `m` micro-batches over `p` ranks; a message takes `send`."""
    if schedule in CLOSED:
        return closed(schedule, p, m, costs, send)
    n, period = 5 * p, p if schedule == "interleaved" else 1
    while n < 0.8 * m:
        n += (m - n) % period
        some = written(schedule, p, n, virtual)
        table, end = ends(some, n, costs, send)
        reach, before = _reach(schedule, p, n, virtual)
        last = n - reach - 1  # the actions on micro-batches from here on end the schedule
        chain = (one for one in _longest(some, table, end, costs) if 2 * p <= one.micro_batch < last)
        if found := _rhythm(chain, {task: (table[task], last - far) for task, far in before}, last, period):
            apart, seconds = found
            rest = (m - n) % apart
            if not rest:
                return end + (m - n) // apart * seconds
            n += rest
        else:
            n *= 2
    return ends(written(schedule, p, m, virtual), m, costs, send)[1]


def _longest(schedule: Schedule, table: Table, end: float, costs: Costs) -> Iterator[Action]:
    """A chain of actions that start when the one before it is done or its message is there; told from the last one."""
    seconds, rows = seconds_of(costs), schedule.actions
    at = {row[-1]: (rank, len(row) - 1) for rank, row in enumerate(rows)}
    action = next(one for one in at if table[one[:2]][one[2]] == end)
    rank, place = at[action]
    while True:
        yield action
        before = rows[rank][place - 1] if place else None
        length = seconds[action[:2]]
        if before and table[before[:2]][before[2]] + length == table[action[:2]][action[2]]:
            action, place = before, place - 1
            continue
        for kind, stage, i in needs(action, schedule.stages)[:1]:
            made = kind if table[kind, stage][i] < NEVER else "B"
            action, rank = Action(made, stage, i), schedule.holder[stage]
            place = rows[rank].index(action)
            break
        else:
            return


def _rhythm(
    chain: Iterable[Action], rows: dict[Task, tuple[list[float], int]], last: int, period: int
) -> tuple[int, float] | None:
    """How many micro-batches apart a chain does the same again, and how much later, where nothing is later still.

    rows: of each task when it ends, and the first micro-batch that matters to those from `last` on.
    """
    seen: dict[Task, int] = {}
    tried = set()
    for kind, stage, i in chain:
        later = seen.setdefault((kind, stage), i)
        apart, ends_at = later - i, rows[kind, stage][0]
        if apart and apart % period == 0 and apart not in tried:
            tried.add(apart)
            seconds = ends_at[later] - ends_at[i]
            if all(_within(row, first, last, apart, seconds * (1 + 1e-9)) for row, first in rows.values()):
                return apart, seconds
    return None


def _within(row: list[float], first: int, last: int, apart: int, seconds: float) -> bool:
    """Whether none ends more than `seconds` later than the one so far before it; where one is not, neither may be."""
    if first < apart:
        return first == last
    pairs = zip(row[first - apart : last - apart], row[first:last], strict=True)
    return all(later <= one + seconds and (one < NEVER or later == NEVER) for one, later in pairs)


@lru_cache(maxsize=256)
def _reach(name: str, p: int, m: int, virtual: int) -> tuple[int, tuple[tuple[Task, int], ...]]:
    """How many micro-batches neighbours in a row are apart, at most; and of each task, where the next is later."""
    before: defaultdict[Task, int] = defaultdict(int)
    reach = 1
    for row in written(name, p, m, virtual).actions:
        for (kind, stage, i), (_, _, following) in pairwise(row):
            if following - i > before[kind, stage]:
                before[kind, stage] = following - i
            if i - following > reach:
                reach = i - following
    return max(reach, *before.values()), tuple(before.items())
