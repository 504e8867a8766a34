"""What the search for a schedule works on: the task in plain numbers, a plan as letters, and playing it through."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

NEVER = math.inf


class Plan(NamedTuple):
    """What each rank does, a letter an action: micro-batches come in order. `time`: less is better, see `Run.time`."""

    time: tuple[float, ...]
    rows: tuple[str, ...]


@dataclass(frozen=True)
class Task:
    """What to schedule: seconds by stage and micro-batch, seconds to the next and to the previous rank, the room."""

    ranks: int
    micro_batches: int
    forward: Sequence[Sequence[float]]
    input: Sequence[Sequence[float]]
    weight: Sequence[Sequence[float]]
    up: Sequence[float]
    down: Sequence[float]
    limit: float
    kept: float


@dataclass(frozen=True)
class Run:
    """When each rank's actions start and end; `time` is the longest span, the duration and the peak of live ones."""

    starts: list[list[float]]
    ends: list[list[float]]
    peak: float
    waited_for: float

    @property
    def spans(self) -> list[float]:
        """Seconds from the first start to the last end of each rank."""
        return [ends[-1] - starts[0] for starts, ends in zip(self.starts, self.ends, strict=True)]

    @property
    def time(self) -> tuple[float, ...]:
        """What makes one plan better than another, most important first; less is better."""
        # Twelve digits: what differs by rounding alone is the same.
        return float(f"{max(self.spans):.12g}"), float(f"{max(ends[-1] for ends in self.ends):.12g}"), self.peak


def play(task: Task, rows: Sequence[str]) -> Run:
    """What `simulate` says of these rows, and NEVER where the ranks wait for ever."""
    p, m, kept = task.ranks, task.micro_batches, task.kept
    forward, input_, weight, up, down = task.forward, task.input, task.weight, task.up, task.down
    comes_f = [[0.0] * m, *([NEVER] * m for _ in range(p - 1))]
    comes_i = [[NEVER] * m for _ in range(p)]
    starts: list[list[float]] = [[] for _ in rows]
    ends: list[list[float]] = [[] for _ in rows]
    done = [(0, 0, 0)] * p
    peak, waited_for, awake = 0.0, 0.0, list(range(p))[::-1]
    while awake:
        r = awake.pop()
        row, begun, ended, (f, i, w) = rows[r], starts[r], ends[r], done[r]
        now, above, below = ended[-1] if ended else 0.0, False, False
        for kind in row[len(ended) :]:
            comes = comes_f[r][f] if kind == "F" else comes_i[r][i] if kind == "I" else now if w < i else NEVER
            if comes > now:
                if comes == NEVER:
                    break
                now = comes
            begun.append(now)
            if kind == "F":
                now += forward[r][f]
                if r + 1 < p:
                    comes_f[r + 1][f], above = now + up[r], True
                else:
                    comes_i[r][f] = now
                f += 1
                if f - i + kept * (i - w) > peak:
                    peak = f - i + kept * (i - w)
            elif kind == "I":
                now += input_[r][i]
                if r:
                    comes_i[r - 1][i], below = now + down[r], True
                i += 1
            else:
                now += weight[r][w]
                w += 1
            ended.append(now)
            if kind != "W":
                waited_for += now
        done[r] = f, i, w
        awake += [r + 1] * above + [r - 1] * below
    if any(len(ended) < len(row) for row, ended in zip(rows, ends, strict=True)):
        return Run([[0.0]], [[NEVER]], NEVER, NEVER)
    return Run(starts, ends, peak, waited_for)
