"""A scheduler that decides by a few rules, each time that a rank is free or something comes."""

from __future__ import annotations

import math
from heapq import heappop, heappush
from typing import NamedTuple

from minipar.pipeline.auto.task import NEVER, Task


class Rules(NamedTuple):
    """The numbers of the greedy scheduler.

    round_trip, more: a rank may be as many forwards ahead of its I as fit before I of micro-batch 0 could be there,
    counting this share of the time that it travels beyond the forwards, and `more` forwards.
    late: W comes before all else where more than `late` times its rank wait.
    gap: nothing to do but W, and something comes: do W if at least this share of it fits before.
    hold: F could be done, and an I comes: wait if it comes within this share of an F.
    in_turn: do F before I where the last was an I.
    """

    round_trip: float
    more: float
    late: float
    gap: float
    hold: float
    in_turn: bool


def greedy(task: Task, rules: Rules) -> tuple[str, ...]:
    """What each rank does if it decides by the rules each time that it is free or something comes.

    It knows when what its neighbours have begun will come.
    """
    p, m, limit, kept = task.ranks, task.micro_batches, task.limit, task.kept
    forward, input_, weight, up, down = task.forward, task.input, task.weight, task.up, task.down
    _, _, late, gap, hold, in_turn = rules
    ahead = _ahead(task, rules)
    waiting = [late * r if late < NEVER else m for r in range(p)]
    comes_f = [[0.0] * m, *([NEVER] * m for _ in range(p - 1))]
    comes_i = [[NEVER] * m for _ in range(p)]
    done_f, done_i, done_w = [0] * p, [0] * p, [0] * p
    free, rows = [0.0] * p, ["" for _ in range(p)]
    turn = [False] * p
    events = [(0.0, 0)]
    while events:
        now, r = heappop(events)
        if now < free[r]:
            continue
        f, i, w = done_f[r], done_i[r], done_w[r]
        backlog = i - w
        next_i = comes_i[r][i] if i < f else NEVER
        next_f = comes_f[r][f] if f < m and f - i < ahead[r] else NEVER
        full = next_f < NEVER and f + 1 - i + kept * backlog > limit
        coming = next_i if full or next_i < next_f else next_f
        if backlog > waiting[r] or (full and backlog and next_f <= now < next_i):
            kind = "W"
        elif next_i <= now and not (in_turn and turn[r] and next_f <= now and not full):
            kind = "I"
        elif next_f <= now and not full and not now < next_i < now + hold * forward[r][f]:
            kind = "F"
        else:
            if coming <= now:
                coming = next_i  # F is held back for it
            kind = "W" if backlog and coming >= now + gap * weight[r][w] else ""
        if kind == "F":
            end = now + forward[r][f]
            done_f[r], turn[r] = f + 1, False
            if r + 1 < p:
                comes_f[r + 1][f] = end + up[r]
                heappush(events, (end + up[r], r + 1))
            else:
                comes_i[r][f] = end
        elif kind == "I":
            end = now + input_[r][i]
            done_i[r], turn[r] = i + 1, True
            if r:
                comes_i[r - 1][i] = end + down[r]
                heappush(events, (end + down[r], r - 1))
        elif kind == "W":
            end = now + weight[r][w]
            done_w[r] = w + 1
        else:
            continue  # what comes wakes it
        rows[r] += kind
        free[r] = end
        heappush(events, (end, r))
    return tuple(rows)


def _ahead(task: Task, rules: Rules) -> list[float]:
    """How many forwards each rank may be ahead of its I."""
    most, found = min(task.limit, task.micro_batches), []
    forwards = travel = 0.0
    for r in reversed(range(task.ranks)):
        one = task.forward[r][0]
        forwards += one
        fit = (forwards + rules.round_trip * travel) / one if one else NEVER
        found.append(max(1.0, min(most, math.floor(min(fit, most) + 1e-9) + rules.more)))
        travel += task.input[r][0] + task.down[r] + (task.up[r - 1] if r else 0.0)
    return found[::-1]
