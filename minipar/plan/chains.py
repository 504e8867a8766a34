"""A time that a schedule cannot beat, from chains of actions that wait for one another: no simulation, and often exact.

A chain follows the first micro-batch from stage to stage, there and back, and at each may wait for what the rank does
before. Then it stays with one rank, through all that this does up to an action on the last micro-batch, and follows
that one, until the last rank is done. The longest of these chains is the bound.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import islice
from typing import NamedTuple

from minipar.pipeline.schedule import Action
from minipar.plan.closed import CLOSED, closed
from minipar.plan.ends import Costs, Task, seconds_of
from minipar.plan.layout import written

Way = tuple[tuple[Task, Counter[Task]], ...]
"""What is done for one micro-batch, in order, each with how often its rank does what before it."""


def chain(schedule: str, p: int, m: int, virtual: int, costs: Costs, send: float) -> float:
    """Seconds that `steady.duration` is not below; and those that it is, where `closed` knows them.

    Rows begin and end alike for m ≥ 2p (interleaved: for the same m mod p).
    """
    if schedule in CLOSED:
        return closed(schedule, p, m, costs, send)
    seconds = seconds_of(costs)
    enough = 2 * p + (m % p if schedule == "interleaved" else 0)
    holder, first, last = _ways(schedule, p, min(m, enough), virtual)
    work = [0.0] * p
    for rank, cost in zip(holder, costs, strict=True):
        work[rank] += m * sum(cost)
    ends: list[list[_At]] = [[] for _ in range(p)]
    for end in _followed(last, holder, seconds, send):
        ends[end.rank].append(end)
    least = 0.0
    for rank, length, start, before in _followed(first, holder, seconds, send):
        for _, _, rest, after in ends[rank]:
            between = work[rank] - before - after
            if between > length / 2:  # else the one on the last micro-batch comes before
                least = max(least, start + between + rest)
    return least


class _At(NamedTuple):
    """An action on the way: its rank and length, the seconds before it at least, and those of its rank's own work."""

    rank: int
    length: float
    ready: float
    own: float


def _followed(way: Way, holder: Sequence[int], seconds: dict[Task, float], send: float) -> Iterator[_At]:
    ready, last = 0.0, holder[way[0][0][1]]
    for task, before in way:
        rank, length = holder[task[1]], seconds[task]
        own = sum(seconds[one] * often for one, often in before.items())
        ready = max(own, ready + send * (rank != last))
        yield _At(rank, length, ready, own)
        ready, last = ready + length, rank


@lru_cache(maxsize=256)
def _ways(name: str, p: int, m: int, virtual: int) -> tuple[tuple[int, ...], Way, Way]:
    """Who holds which stage; the way of the first micro-batch; and the last one's from its end, told backwards."""
    schedule = written(name, p, m, virtual)
    on_rank = 2 * schedule.virtual
    first = [one for row in schedule.actions for one in islice(_befores(row, 0), on_rank)]
    last = [one for row in schedule.actions for one in islice(_befores(reversed(row), m - 1), on_rank)]

    def turn(one: tuple[Task, Counter[Task]]) -> int:
        kind, stage = one[0]
        return stage if kind == "F" else 2 * schedule.stages - stage

    return schedule.holder, tuple(sorted(first, key=turn)), tuple(sorted(last, key=turn, reverse=True))


def _befores(row: Iterable[Action], micro_batch: int) -> Iterator[tuple[Task, Counter[Task]]]:
    before: Counter[Task] = Counter()
    for kind, stage, own in row:
        if own == micro_batch and kind != "W":
            yield (kind, stage), before.copy()
        before[kind, stage] += 1
