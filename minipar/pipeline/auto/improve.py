"""Improving a plan: what the slowest rank waits for changes places, as long as that helps."""

from __future__ import annotations

from collections.abc import Iterator

from minipar.pipeline.auto.task import Plan, Run, Task, play


def improved(task: Task, plan: Plan, bound: float, tries: int) -> tuple[Plan, int]:
    """The plan after changes, as long as one helps, to what the end of the slowest rank waits for; and the tries.

    A change helps if that end comes earlier, or as early and what ranks wait for comes earlier in sum: where several
    things are as late, each has to be changed.
    """
    rows, run, used, better = plan.rows, play(task, plan.rows), 0, True
    while better and run.time[0] > bound:
        better = False
        for other in _changes(task, rows, run):
            if used >= tries:
                break
            used += 1
            then = play(task, other)
            if then.peak <= task.limit and (then.time[0], then.waited_for) < (run.time[0], run.waited_for):
                rows, run, better = other, then, True
                break
    return min(plan, Plan(run.time, rows)), used


def _changes(task: Task, rows: tuple[str, ...], run: Run) -> Iterator[tuple[str, ...]]:
    """The rows with one thing changed among all that the end of the slowest rank waits for, its end first.

    A W or F and the action that waits for it change places, or that W comes last; or the rank's last W comes before
    an action that waits for another rank.
    """
    slowest = run.spans.index(max(run.spans))
    path, seen = [(slowest, len(rows[slowest]) - 1)], set[tuple[int, int]]()
    while path:
        r, at = path.pop()
        if (r, at) in seen:
            continue
        seen.add((r, at))
        row, before, after = rows[r], rows[:r], rows[r + 1 :]
        kind = row[at]
        tight = run.starts[r][at] * (1 - 1e-12)
        source = r - 1 if kind == "F" else r + 1 if kind == "I" else -1
        if 0 <= source < task.ranks:
            there = _place(rows[source], kind, row[:at].count(kind))
            if run.ends[source][there] + (task.up if kind == "F" else task.down)[source] >= tight:
                path.append((source, there))
        if not at:
            continue
        if run.ends[r][at - 1] < tight:
            if row[-1] == "W" and row[:at].count("I") > row[:at].count("W"):
                yield (*before, row[:at] + "W" + row[at:-1], *after)
            continue
        path.append((r, at - 1))
        if row[at - 1] + kind in ("WI", "WF", "FI"):
            yield (*before, row[: at - 1] + kind + row[at - 1] + row[at + 1 :], *after)
        if row[at - 1] + kind in ("WI", "WF"):
            yield (*before, row[: at - 1] + row[at:] + "W", *after)


def _place(row: str, kind: str, number: int) -> int:
    """Where in the row the action of this kind with this number is."""
    at = -1
    for _ in range(number + 1):
        at = row.index(kind, at + 1)
    return at
