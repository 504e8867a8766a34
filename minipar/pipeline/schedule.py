"""A schedule as plain data: for each rank, the ordered list of what it does. Checked without starting a process.

There are no sends in it. They follow from it: whatever one rank makes and another needs is sent.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

Kind = Literal["F", "B"]


class ScheduleError(ValueError):
    """A schedule that cannot run; the message names the action."""


class Action(NamedTuple):
    """The forward (``F``) or backward (``B``) of one micro-batch through one stage. Both count from 0."""

    kind: Kind
    stage: int
    micro_batch: int

    def __str__(self) -> str:
        return f"{self.kind}{self.micro_batch} of stage {self.stage}"


@dataclass(frozen=True)
class Schedule:
    """What every rank does, in order: `actions[rank]`. `holder[stage]` is the rank that holds a stage."""

    name: str
    actions: tuple[tuple[Action, ...], ...]
    holder: tuple[int, ...]

    @property
    def ranks(self) -> int:
        """How many ranks it needs."""
        return len(self.actions)

    @property
    def stages(self) -> int:
        """Into how many stages the model is cut."""
        return len(self.holder)

    @property
    def micro_batches(self) -> int:
        """Into how many micro-batches the batch is cut."""
        return 1 + max((a.micro_batch for rank in self.actions for a in rank), default=-1)

    @property
    def peak_live(self) -> tuple[int, ...]:
        """For each rank the most micro-batches, stage by stage, whose activations it holds at once.

        A micro-batch is live from the start of its forward to the end of its backward.
        """
        return tuple(_peak(actions) for actions in self.actions)


def _peak(actions: Sequence[Action]) -> int:
    live = most = 0
    for action in actions:
        live += 1 if action.kind == "F" else -1
        most = max(most, live)
    return most


def parse(rows: Sequence[str], name: str = "my schedule") -> Schedule:
    """Read a schedule from one line a rank, such as ``["F0 F1 B0 B1", "F0 B0 F1 B1"]``; rank and stage are one.

    Raises `ScheduleError` for a word that is not F or B and a number.
    """

    def action(word: str, stage: int) -> Action:
        kind, number = word[:1], word[1:]
        if kind not in ("F", "B") or not (number.isascii() and number.isdigit()):
            raise ScheduleError(f"rank {stage}: {word!r} is not an action; write F or B and a micro-batch, as in F0")
        return Action("F" if kind == "F" else "B", stage, int(number))

    actions = tuple(tuple(action(word, rank) for word in row.split()) for rank, row in enumerate(rows))
    return Schedule(name, actions, tuple(range(len(rows))))


def needs(action: Action, stages: int) -> Action | None:
    """The action whose result `action` works on; None for the first stage's forward, which works on the batch.

    F of stage s needs F of stage s−1; B of stage s needs B of stage s+1, and in the last stage its own F.
    """
    kind, stage, micro_batch = action
    if kind == "F":
        return Action("F", stage - 1, micro_batch) if stage else None
    return Action("B", stage + 1, micro_batch) if stage + 1 < stages else Action("F", stage, micro_batch)


def feeds(action: Action, stages: int) -> Action | None:
    """The action on another stage that works on the result of `action`; None where there is none."""
    kind, stage, micro_batch = action
    to = stage + 1 if kind == "F" else stage - 1
    return Action(kind, to, micro_batch) if 0 <= to < stages else None


def check(schedule: Schedule) -> Schedule:
    """Return the schedule, proven to run; raise `ScheduleError` that names the action otherwise.

    Proven is: every stage does F and B of every micro-batch exactly once, on the rank that holds the
    stage, F before B, and no rank waits for ever. Sends do not block, so a rank waits only for what it needs.
    """
    _check_complete(schedule)
    deque(in_order(schedule), maxlen=0)
    return schedule


def _check_complete(schedule: Schedule) -> None:
    m, p = schedule.micro_batches, schedule.stages
    if m == 0:
        raise ScheduleError(f"schedule {schedule.name!r} does nothing")
    done: set[Action] = set()
    for rank, actions in enumerate(schedule.actions):
        for action, times in Counter(actions).items():
            if action.kind not in ("F", "B") or not 0 <= action.stage < p or action.micro_batch < 0:
                raise ScheduleError(f"rank {rank} does {action}, but there are {p} stages and {m} micro-batches")
            if schedule.holder[action.stage] != rank:
                holder = schedule.holder[action.stage]
                raise ScheduleError(f"rank {rank} does {action}, but rank {holder} holds that stage")
            if times > 1:
                raise ScheduleError(f"rank {rank} does {action} {times} times")
        done.update(actions)
    missing = 2 * p * m - len(done)
    if missing:
        # One at a time: a slip of the keyboard such as F1000000000 asks for more actions than memory holds.
        wanted = (Action(kind, s, i) for i in range(m) for s in range(p) for kind in ("F", "B"))
        first = next(action for action in wanted if action not in done)
        raise ScheduleError(f"{first} is missing on rank {schedule.holder[first.stage]} ({missing} missing in all)")


def in_order(schedule: Schedule) -> Iterator[tuple[int, Action]]:
    """All actions as (rank, action), each after what it needs and after what its rank does before it.

    Raises `ScheduleError` where the ranks wait for each other for ever, naming what each waits for.
    """
    done: set[Action] = set()
    position = [0] * schedule.ranks
    asleep: dict[Action, list[int]] = {}  # what ranks wait for -> those ranks
    awake = deque(range(schedule.ranks))
    while awake:
        rank = awake.popleft()
        actions = schedule.actions[rank]
        while position[rank] < len(actions):
            action = actions[position[rank]]
            missing = _missing(action, schedule.stages, done)
            if missing is not None:
                asleep.setdefault(missing, []).append(rank)
                break
            yield rank, action
            done.add(action)
            position[rank] += 1
            awake.extend(asleep.pop(action, ()))
    if asleep:
        waiting = sorted((rank, action) for action, ranks in asleep.items() for rank in ranks)
        waits = [f"rank {r} waits for {action} before {schedule.actions[r][position[r]]}" for r, action in waiting]
        raise ScheduleError(f"schedule {schedule.name!r} never finishes: {'; '.join(waits)}")


def _missing(action: Action, stages: int, done: set[Action]) -> Action | None:
    """What must be done before `action` and is not; None when it can go."""
    own = Action("F", action.stage, action.micro_batch)
    if action.kind == "B" and own not in done:
        return own
    need = needs(action, stages)
    return need if need is not None and need not in done else None
