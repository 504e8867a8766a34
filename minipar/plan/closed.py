"""How long the schedules take in which nothing waits for two things at a time: a formula, and no simulation."""

from __future__ import annotations

from minipar.plan.ends import Costs

HOLDING = ("gpipe", "breadth-first")
"""Schedules that hold every micro-batch before the first backward."""

CLOSED = ("naive", *HOLDING)
"""Schedules that `closed` takes."""


def closed(schedule: str, p: int, m: int, costs: Costs, send: float) -> float:
    """Seconds of `m` micro-batches over `p` ranks; `send`: of a message."""
    forwards = [(stage % p, cost[0]) for stage, cost in enumerate(costs)]
    backwards = [(stage % p, cost[1]) for stage, cost in enumerate(costs)][::-1]
    if schedule == "naive":
        return m * (sum(seconds for _, seconds in forwards + backwards) + 2 * (p - 1) * send)
    free = [0.0] * p
    for way in (forwards, backwards):
        _all_through(way, m, send, free)
    return max(free)


def _all_through(way: list[tuple[int, float]], m: int, send: float, free: list[float]) -> None:
    """Take all micro-batches through the stages of `way`, each with its rank and seconds; `free`: of each rank, when.

    Micro-batch i arrives at max(at + i · apart) over some pairs of `apart` and `at`. It starts then, or where they come
    faster than one in `seconds`, i · `seconds` after the first: a convex function of i again, so there is nothing else.
    """
    arrives, last = {0.0: 0.0}, way[0][0]
    for rank, seconds in way:
        travel = send if rank != last else 0.0
        starts = {apart: at + travel for apart, at in arrives.items()}
        first = max(free[rank], *starts.values())
        starts[seconds] = max(first, starts.get(seconds, 0.0))
        arrives = {apart: at + seconds for apart, at in starts.items()}
        free[rank] = max(at + (m - 1) * apart for apart, at in arrives.items())
        last = rank
