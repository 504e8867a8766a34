"""When the actions of a schedule end: each rank goes on until it waits for another, which wakes it once it has gone on.

As `minipar.pipeline.simulate` has it, without putting the actions of all ranks into one order first: a schedule that is
timed once is timed in a fraction of the time.
"""

from __future__ import annotations

from collections import deque

from minipar.pipeline.schedule import Schedule

Costs = tuple[tuple[float, float], ...]
"""Seconds of a micro-batch's forward and backward, for each stage."""

Task = tuple[str, int]
"""An action's kind and stage."""

Table = dict[Task, list[float]]
"""Of each task when it ends, for each micro-batch."""

NEVER = float("inf")
"""When an action ends that there is not."""


def seconds_of(costs: Costs) -> dict[Task, float]:
    """Seconds of each kind in each stage: I and W are half a backward each (Qi et al. 2024, Table 1)."""
    found: dict[Task, float] = {}
    for stage, (forward, backward) in enumerate(costs):
        found["F", stage], found["B", stage] = forward, backward
        found["I", stage] = found["W", stage] = backward / 2
    return found


def ends(schedule: Schedule, m: int, costs: Costs, send: float) -> tuple[Table, float]:
    """Of each task when it ends for each of `m` micro-batches, and the last end; a message takes `send`."""
    holder, rows = schedule.holder, schedule.actions
    forwards, gradients = ([[NEVER] * m for _ in costs] for _ in range(2))
    there, table, how = [0.0] * m, Table(), {}
    for (kind, stage), length in seconds_of(costs).items():
        source, by_stage = (stage - 1, forwards) if kind == "F" else (stage + 1, gradients)
        made = by_stage[stage] if kind != "W" else [NEVER] * m
        table[kind, stage] = made if kind in "FW" else [NEVER] * m
        waits = kind != "W" and 0 <= source < len(costs)
        rank = holder[source] if waits else holder[stage]
        travel = send if rank != holder[stage] else 0.0
        how[kind, stage] = length, by_stage[source] if waits else there, travel, rank, made, table[kind, stage]
    position, free = [0] * len(rows), [0.0] * len(rows)
    asleep: list[list[int]] = [[] for _ in rows]  # by whom they wait for
    awake = deque(range(len(rows)))
    while awake:
        rank = awake.popleft()
        row, begun, now = rows[rank], position[rank], free[rank]
        position[rank] = len(row)
        for at in range(begun, len(row)):
            kind, stage, i = row[at]
            length, needed, travel, other, made, own = how[kind, stage]
            ready = needed[i] + travel
            if ready > now:
                if ready == NEVER:
                    asleep[other].append(rank)
                    position[rank] = at
                    break
                now = ready
            now += length
            made[i] = own[i] = now
        free[rank] = now
        if position[rank] > begun:
            awake.extend(asleep[rank])
            asleep[rank] = []
    return table, max(free)
