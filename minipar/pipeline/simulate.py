"""Predict a schedule's timeline from the time that each action takes, with no process started."""

from __future__ import annotations

from dataclasses import dataclass

from minipar.pipeline.schedule import Action, Schedule, in_order, needs
from minipar.pipeline.timeline import Span, Timeline


@dataclass(frozen=True)
class Costs:
    """Seconds that one micro-batch takes in one stage, forward and backward, and to be sent to the next stage.

    A backward of matmuls does twice the work of their forward (Narayanan et al. 2021, §2.2.1), hence the defaults.
    The receiver waits for a message; sending takes the sender no time.
    """

    forward: float = 1.0
    backward: float = 2.0
    send: float = 0.0

    def of(self, action: Action) -> float:
        """Seconds that `action` takes."""
        return self.forward if action.kind == "F" else self.backward


def simulate(schedule: Schedule, costs: Costs | None = None) -> Timeline:
    """The timeline of `schedule` where every action starts as soon as its rank is free and its input is there.

    Raises `ScheduleError` for a schedule that never finishes.
    """
    costs = costs or Costs()
    free = [0.0] * schedule.ranks
    ends: dict[Action, float] = {}
    spans: list[Span] = []
    for rank, action in in_order(schedule):
        need = needs(action, schedule.stages)
        ready = 0.0
        if need is not None:
            ready = ends[need] + (costs.send if schedule.holder[need.stage] != rank else 0.0)
        start = max(free[rank], ready)
        free[rank] = ends[action] = start + costs.of(action)
        spans.append(Span(rank, action, start, ends[action]))
    return Timeline(tuple(spans), schedule.ranks)
