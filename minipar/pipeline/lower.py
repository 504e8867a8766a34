"""From a schedule to what each rank really does: its actions, with the sends and receives that follow from them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from minipar.pipeline.schedule import Action, Result, Schedule, feeds, in_order, makes


class Skip(NamedTuple):
    """A tensor that goes from stage `source` straight to `target`, over the heads of those between."""

    source: int
    target: int


class Compute(NamedTuple):
    """Do an action of one's own."""

    action: Action


class Send(NamedTuple):
    """Send the result of one's own action to the rank `to`, for its stage `stage`."""

    result: Result
    to: int
    stage: int


class Receive(NamedTuple):
    """Receive from the rank `source` the result of its action, for one's own stage `stage`."""

    result: Result
    source: int
    stage: int


Instruction = Compute | Send | Receive
Program = tuple[Instruction, ...]


def lower(schedule: Schedule, skips: Sequence[Skip] = ()) -> tuple[Program, ...]:
    """For each rank the instructions that do its part of `schedule`, in order.

    Whatever is made is sent at once, and its receive stands at the same place of one order over all ranks: every
    rank's list is that order with the others' instructions left out. So none can wait for ever even where a send
    blocks until its receive is called: of the messages not yet handed over take the first in the order. Both its
    ranks have all before it behind them, so both are at it. And since the order keeps each rank's own actions
    in their sequence, messages from one rank to another are received in the order in which they are sent.

    Raises `ScheduleError` where the ranks would wait for each other for ever.
    """
    rows: list[list[Instruction]] = [[] for _ in range(schedule.ranks)]
    for rank, action, _ in in_order(schedule):
        rows[rank].append(Compute(action))
        for stage in users(action, schedule.stages, skips):
            to = schedule.holder[stage]
            if to != rank:
                rows[rank].append(Send(makes(action), to, stage))
                rows[to].append(Receive(makes(action), rank, stage))
    return tuple(map(tuple, rows))


def users(action: Action, stages: int, skips: Sequence[Skip] = ()) -> tuple[int, ...]:
    """The stages that work on the result of `action`: the next one (in its direction), then those by skips."""
    kind, stage, _ = action
    if kind == "W":
        return ()
    neighbour = feeds(action, stages)
    skipped = [s.target for s in skips if s.source == stage] if kind == "F" else []
    skipped += [s.source for s in skips if s.target == stage] if kind in "BI" else []
    return (*(() if neighbour is None else (neighbour,)), *skipped)


def check_skips(skips: Sequence[Skip], stages: int) -> None:
    """Raise `ValueError` for a skip that no stage lies between, that does not lead forward, or that is there twice."""
    for skip in skips:
        if not 0 <= skip.source < skip.target - 1 < stages - 1:
            raise ValueError(
                f"{skip} of {stages} stages; a skip leads forward over at least one stage (the next one is fed anyway)"
            )
    if len(set(skips)) < len(skips):
        raise ValueError(f"{list(skips)} has a skip twice; each carries one tensor")
