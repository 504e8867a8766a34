"""Predict a schedule's timeline from the time that each action takes, with no process started."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from minipar.pipeline.schedule import Action, Kind, Result, Schedule, in_order, makes
from minipar.pipeline.timeline import Span, Timeline

Cost = float | Sequence[float] | Callable[[Action], float]
"""Seconds: the same for every stage, one number a stage, or a function of the action."""


@dataclass(frozen=True)
class Costs:
    """Seconds that one micro-batch takes in one stage, by kind, and to be sent to another rank.

    A backward of matmuls does twice the work of their forward (Narayanan et al. 2021, §2.2.1), half of it for the
    input's gradient and half for the weights' (Qi et al. 2024, Table 1), hence the defaults. Where `backward` is
    left out it is input + weight; where these are, each is half of `backward`.

    send: seconds, or a function of the sending and the receiving rank, as links differ. The receiver waits for a
    message; sending takes the sender no time.
    """

    forward: Cost = 1.0
    backward: Cost | None = None
    send: float | Callable[[int, int], float] = 0.0
    input: Cost | None = None
    weight: Cost | None = None
    by_kind: Mapping[Kind, Cost] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Fill in what was left out."""
        half = 1.0 if self.backward is None else _combined(lambda b: b / 2, self.backward)
        of_input, of_weight = (half if cost is None else cost for cost in (self.input, self.weight))
        whole = _combined(lambda i, w: i + w, of_input, of_weight) if self.backward is None else self.backward
        by_kind = {"F": self.forward, "B": whole, "I": of_input, "W": of_weight}
        object.__setattr__(self, "by_kind", by_kind)

    def of(self, action: Action) -> float:
        """Seconds that `action` takes."""
        return _seconds(self.by_kind[action.kind], action)

    def between(self, source: int, to: int) -> float:
        """Seconds that a message takes from one rank to another."""
        if not callable(self.send):
            return self.send
        seconds = self.send(source, to)
        if not seconds >= 0:
            raise ValueError(f"a message from rank {source} to {to} takes {seconds}; that is a time of at least 0")
        return seconds

    def times(self, factor: float) -> Costs:
        """The costs of micro-batches `factor` times as large; messages take as long as before."""
        forward, backward, of_input, of_weight = (_combined(lambda s: s * factor, c) for c in self.by_kind.values())
        return Costs(forward, backward, self.send, of_input, of_weight)

    def check(self, stages: int) -> None:
        """Raise `ValueError` for a negative number, or for a number of costs that is not the number of stages."""
        named = {"forward": self.forward, "backward": self.backward, "input": self.input, "weight": self.weight}
        for name, cost in (*named.items(), ("send", self.send)):
            if cost is None or callable(cost):
                continue
            numbers = list(cost) if isinstance(cost, Sequence) else [cost] * stages
            if len(numbers) != stages:
                raise ValueError(f"{name} has {len(numbers)} costs, but there are {stages} stages")
            if any(not 0 <= number < float("inf") for number in numbers):
                raise ValueError(f"{name}={cost}; a cost is a number of seconds, at least 0")


def _seconds(cost: Cost, action: Action) -> float:
    if isinstance(cost, Sequence):
        return cost[action.stage]
    if not callable(cost):
        return cost
    seconds = cost(action)
    if not seconds >= 0:
        raise ValueError(f"the cost of {action} is {seconds}; a cost is a number of seconds, at least 0")
    return seconds


def _combined(fn: Callable[..., float], *costs: Cost) -> Cost:
    """The cost that is `fn` of these costs, whichever of its three forms each has."""
    if any(callable(cost) for cost in costs):
        return lambda action: fn(*(_seconds(cost, action) for cost in costs))
    lengths = [len(cost) for cost in costs if isinstance(cost, Sequence)]
    if not lengths:
        return fn(*costs)
    listed = [list(cost) if isinstance(cost, Sequence) else [cost] * max(lengths) for cost in costs]
    return [fn(*numbers) for numbers in zip(*listed, strict=False)]


class Compiled(NamedTuple):
    """A schedule's actions in an order in which they can run, so that it can be timed again and again.

    place: for each action its rank. needs: what it works on, each as its place in the order and the rank it is made on.
    """

    actions: tuple[Action, ...]
    place: tuple[int, ...]
    needs: tuple[tuple[tuple[int, int], ...], ...]

    def times(self, seconds: Sequence[float], travel: Sequence[Sequence[float]]) -> tuple[list[float], list[float]]:
        """When each action starts, as soon as its rank is free and its input there, and when it ends.

        seconds: what each action takes. travel: what a message takes, by the rank it comes from and the one it goes to.
        """
        free = [0.0] * (1 + max(self.place, default=-1))
        starts: list[float] = []
        ends: list[float] = []
        for rank, needed, length in zip(self.place, self.needs, seconds, strict=True):
            start = free[rank]
            for need, source in needed:
                ready = ends[need] if source == rank else ends[need] + travel[source][rank]
                if ready > start:
                    start = ready
            free[rank] = start + length
            starts.append(start)
            ends.append(start + length)
        return starts, ends


def compiled(schedule: Schedule) -> Compiled:
    """Put a schedule's actions in order; raises `ScheduleError` for one that never finishes."""
    at: dict[Result, tuple[int, int]] = {}
    actions: list[Action] = []
    place: list[int] = []
    needs: list[tuple[tuple[int, int], ...]] = []
    for rank, action, wanted in in_order(schedule):
        at[makes(action)] = len(actions), rank
        actions.append(action)
        place.append(rank)
        needs.append(tuple([at[need] for need in wanted]))
    return Compiled(tuple(actions), tuple(place), tuple(needs))


def simulate(schedule: Schedule, costs: Costs | None = None) -> Timeline:
    """The timeline of `schedule` where every action starts as soon as its rank is free and its input is there.

    Raises `ScheduleError` for a schedule that never finishes, and `ValueError` for costs that do not fit.
    """
    costs = costs or Costs()
    costs.check(schedule.stages)
    ranks = range(schedule.ranks)
    travel = [[0.0 if source == to else costs.between(source, to) for to in ranks] for source in ranks]
    order = compiled(schedule)
    spans = zip(order.place, order.actions, *order.times(list(map(costs.of, order.actions)), travel), strict=True)
    return Timeline(tuple(map(Span._make, spans)), schedule.ranks)
