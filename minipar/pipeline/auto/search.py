"""A search for the schedule with split backwards that is fastest for given costs and memory, as ZB-1p and ZB-2p are."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

from minipar.pipeline.auto.greedy import Rules, greedy
from minipar.pipeline.auto.improve import improved
from minipar.pipeline.auto.task import NEVER, Plan, Task, play
from minipar.pipeline.schedule import KEPT_FOR_WEIGHTS, Action, Kind, Schedule
from minipar.pipeline.schedules import check_counts, one_f_one_b
from minipar.pipeline.simulate import Costs, simulate

WORK = 1_000_000
"""How many actions all tries together may place: a few seconds of Python on a slow core."""


def auto(
    stages: int, micro_batches: int, costs: Costs, memory_limit: float, kept_for_weights: float = KEPT_FOR_WEIGHTS
) -> Schedule:
    """The fastest schedule found with one stage a rank, split backwards, and at most `memory_limit` live micro-batches.

    Fastest is the lowest `Timeline.longest_span`, then the shorter `duration`, then the lower peak. The search tries
    1F1B, ZB-H1 and ZB-H2, cut to the memory, so it is never worse than those that fit; it schedules greedily under a
    few rules, whose numbers it varies one at a time; and it swaps what the slowest rank waits for. It takes seconds
    at most, has no chance in it, and stops where no schedule could be faster.

    costs: seconds, see `Costs`. memory_limit: in activations of one micro-batch in one stage, the same for each rank.
    kept_for_weights: the share of these that a stage keeps from the end of I to the end of W, as in `check`. Qi et al.
    keep 32·s·b·h of s·b·(34h + 5as) (Table 1; 0.37 for their 1.5B and 0.43 for their 6.2B model): their ZB-2p lets
    more than 2p micro-batches wait for W.

    Raises `ValueError` for a count below 1, a memory_limit below 1, a share outside 0 to 1 and costs that do not fit.
    Source: Qi et al. 2024 (Zero Bubble), §3.1: the greedy part; their integer program is not in here.
    """
    check_counts(stages=stages, micro_batches=micro_batches)
    if not memory_limit >= 1:
        raise ValueError(
            f"memory_limit={memory_limit}; no rank could do a forward: a schedule needs room for 1 live micro-batch, "
            f"ZB-H1 for {min(micro_batches, stages)}, ZB-H2 for {min(micro_batches, 2 * stages - 1)}"
        )
    if not 0 <= kept_for_weights <= 1:
        raise ValueError(f"kept_for_weights={kept_for_weights}; it is a share, from 0 to 1")
    costs.check(stages)
    task = _task(stages, micro_batches, costs, memory_limit, kept_for_weights)
    found = _search(task)
    name = f"auto (at most {memory_limit:g} live)"
    whole = one_f_one_b(stages, micro_batches)
    if max(whole.peak_live) <= memory_limit:  # where a whole backward takes less than its halves, this can be faster
        timeline = simulate(whole, costs)
        if (timeline.longest_span, timeline.duration) < found.time[:2]:
            return replace(whole, name=name)
    return _written(name, found.rows)


CHOICES: tuple[tuple[float, ...], ...] = (
    (0, 0.25, 0.5, 0.75, 1),
    (0, 1, 2, NEVER),
    (0, 1, 2, NEVER),
    (0, 0.5, 1),
    (0, 0.5, 1),
    (False, True),
)
STARTS = (
    Rules(0, NEVER, NEVER, 1, 0, False),  # forwards while there is room, and W late
    Rules(1, 1, NEVER, 0, 0, True),  # forwards until an I is there, and W in every gap
    Rules(0, 0, 1, 0.5, 0, False),  # about ZB-H1
    Rules(0.75, 2, NEVER, 0.5, 0, False),
)


def _task(stages: int, micro_batches: int, costs: Costs, limit: float, kept: float) -> Task:
    def seconds(kind: Kind) -> list[list[float]]:
        if callable(costs.by_kind[kind]):
            return [[costs.of(Action(kind, s, i)) for i in range(micro_batches)] for s in range(stages)]
        return [[costs.of(Action(kind, s, 0))] * micro_batches for s in range(stages)]

    up = [costs.between(s, s + 1) for s in range(stages - 1)]
    down = [costs.between(s, s - 1) for s in range(1, stages)]
    return Task(stages, micro_batches, seconds("F"), seconds("I"), seconds("W"), [*up, 0.0], [0.0, *down], limit, kept)


def _search(task: Task) -> Plan:
    """The best plan of all tries."""
    bound = _bound(task) * (1 + 1e-12)
    plans = [Plan(play(task, rows).time, rows) for rows in _by_hand(task)]
    tries = min(1000, max(16, WORK // (3 * task.ranks * task.micro_batches)))
    seen: dict[Rules, Plan] = {}

    def attempt(rules: Rules) -> Plan:
        if rules not in seen:
            rows = greedy(task, rules)
            seen[rules] = Plan(play(task, rows).time, rows)
        return seen[rules]

    for start in STARTS:
        attempt(start)
    for rules in sorted(STARTS, key=lambda start: seen[start].time):
        best, better = seen[rules], True
        while better and best.time[0] > bound:
            better = False
            for at, values in enumerate(CHOICES):
                for value in values:
                    other = Rules._make(value if i == at else same for i, same in enumerate(rules))
                    if len(seen) < tries // 2 and attempt(other).time < best.time:
                        rules, best, better = other, seen[other], True
    plans += seen.values()
    # One of another kind can have more to gain than the best.
    chosen = sorted({*sorted(plans)[:2], *(seen[start] for start in STARTS)})
    best = chosen[0]
    for number, plan in enumerate(chosen):
        if best.time[0] > bound:
            better_plan, used = improved(task, plan, bound, tries // (len(chosen) - number))
            best, tries = min(best, better_plan), tries - used
    return best


def _bound(task: Task) -> float:
    """Seconds below which no schedule's longest span is.

    A rank's work is one such number. Another: after the first F of rank r it takes a forward to rank q, there all F,
    all I and as many W as make room for the last F, an input gradient back to rank r, and its W.
    """
    m, most = task.micro_batches, 0.0
    spare = (task.limit - 1) / task.kept if task.kept else NEVER
    forced = max(0, math.ceil(m - 1 - spare - 1e-9)) if spare < m else 0
    for r in range(task.ranks):
        there = back = 0.0
        most = max(most, sum(task.forward[r]) + sum(task.input[r]) + sum(task.weight[r]))
        for q in range(r + 1, task.ranks):
            there += min(task.forward[q - 1]) + task.up[q - 1]
            back += min(task.input[q - 1]) + task.down[q]
            work = sum(task.forward[q]) + sum(task.input[q]) + sum(sorted(task.weight[q])[:forced])
            most = max(most, there + work + back + min(task.weight[r]))
    return most


def _by_hand(task: Task) -> Iterator[tuple[str, ...]]:
    """1F1B, ZB-H1 and ZB-H2 with forwards in advance and late W cut to the room."""
    p, m, room = task.ranks, task.micro_batches, int(min(task.limit, task.micro_batches))
    for trips, steps in ((1, 0), (1, 1), (2, 2), (2, m)):
        rows = []
        for r in range(p):
            first = min(trips * (p - r - 1) + 1, room)
            spare = (task.limit - first) / task.kept if task.kept else m
            late = int(min(steps * r, spare, m))
            middle = ("I" * (i < m) + "W" * (late <= i < m + late) + "F" * (i + first < m) for i in range(m + late))
            rows.append("F" * first + "".join(middle))
        yield tuple(rows)


def _written(name: str, rows: Sequence[str]) -> Schedule:
    actions = []
    for r, row in enumerate(rows):
        number = {"F": 0, "I": 0, "W": 0}
        mine = []
        for kind in row:
            mine.append(Action(kind, r, number[kind]))  # type: ignore[arg-type]
            number[kind] += 1
        actions.append(tuple(mine))
    return Schedule(name, tuple(actions), tuple(range(len(rows))))
