"""A schedule as plain data: for each rank, the ordered list of what it does. Checked without starting a process.

There are no sends in it. They follow from it: whatever one rank makes and another needs is sent (see `lower`).
"""

from __future__ import annotations

import re
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Literal, NamedTuple

Kind = Literal["F", "B", "I", "W"]


KEPT_FOR_WEIGHTS = 0.5
"""The share of a micro-batch's activations that waits with its W; Qi et al. 2024 have 0.37 and 0.43 (Table 1)."""


class ScheduleError(ValueError):
    """A schedule that cannot run; the message names the action, and draws where ranks that wait for ever stop."""


class Action(NamedTuple):
    """What one stage does for one micro-batch; both count from 0.

    ``F`` is the forward, ``B`` the whole backward. A backward can be split into ``I``, the gradient of the stage's
    input, for which the stage before waits, and ``W``, the gradients of its weights, for which nobody does. (Qi et
    al. 2024 write B for I.)
    """

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
    def virtual(self) -> int:
        """How many stages a rank holds (the most, where they differ)."""
        return max(Counter(self.holder).values(), default=0)

    @property
    def micro_batches(self) -> int:
        """Into how many micro-batches the batch is cut."""
        return 1 + max((a.micro_batch for rank in self.actions for a in rank), default=-1)

    @property
    def peak_live(self) -> tuple[int, ...]:
        """For each rank the most micro-batches, stage by stage, all of whose activations it holds at once.

        A micro-batch is live in a stage from the start of its forward to the end of its B or I. Where a rank holds v
        stages each of these is a v-th of the rank's activations for one micro-batch.
        """
        return self._peaks({"F": 1, "B": -1, "I": -1})

    @property
    def peak_backlog(self) -> tuple[int, ...]:
        """For each rank the most weight gradients that wait at once: I is done, W is not.

        For each of them a stage still holds a part of the activations (Qi et al. 2024, Table 1).
        """
        return self._peaks({"I": 1, "W": -1})

    @property
    def peak_held(self) -> tuple[int, ...]:
        """For each rank the most micro-batches, stage by stage, that are live or wait for their W."""
        return self._peaks({"F": 1, "B": -1, "W": -1})

    @property
    def room(self) -> float:
        """How many live micro-batches, each of all its stages, the fullest rank needs room for.

        It is the least `memory_limit` with which `check` takes the schedule: a micro-batch that waits for its W takes
        `KEPT_FOR_WEIGHTS` of the room.
        """
        change = {"F": 1.0, "B": -1.0, "I": KEPT_FOR_WEIGHTS - 1, "W": -KEPT_FOR_WEIGHTS}
        rows = enumerate(self.actions)
        peaks = ((rank, max(accumulate((change[a.kind] for a in row), initial=0.0))) for rank, row in rows)
        return max((peak / max(1, self.holder.count(rank)) for rank, peak in peaks), default=0.0)

    def _peaks(self, changes: dict[Kind, int]) -> tuple[int, ...]:
        rows = ((changes.get(action.kind, 0) for action in row) for row in self.actions)
        return tuple(max(accumulate(row, initial=0)) for row in rows)


WORD = re.compile(r"([FBIW])([0-9]{1,15})(?:@([0-9]{1,15}))?")


def parse(rows: Sequence[str], name: str = "my schedule") -> Schedule:
    """Read a schedule from one line a rank, such as ``["F0 F1 B0 B1", "F0 B0 F1 B1"]``.

    The number is the micro-batch; the stage is the rank's own, unless the word says ``F0@2``: stage 2. A stage is
    held by the rank that first names it. Raises `ScheduleError` for a word that is none of F, B, I, W and a number.
    """

    def action(word: str, rank: int) -> Action:
        found = WORD.fullmatch(word)
        if found is None:
            raise ScheduleError(
                f"rank {rank}: {word!r} is not an action; write F, B, I or W and a micro-batch, as in F0 "
                "(F0@2 where it is for stage 2)"
            )
        kind, number, stage = found.groups()
        return Action(kind, int(stage or rank), int(number))  # type: ignore[arg-type]

    actions = tuple(tuple(action(word, rank) for word in row.split()) for rank, row in enumerate(rows))
    holder: dict[int, int] = {}
    for rank, row in enumerate(actions):
        for a in row:
            holder.setdefault(a.stage, rank)
    stages = max(len(rows), 1 + max(holder, default=-1))
    for stage in range(len(rows), stages):  # one at a time: a slip such as F0@1000000000 is a large number
        if stage not in holder:
            raise ScheduleError(f"schedule {name!r} has stage {stages - 1}, but nobody does anything for stage {stage}")
    return Schedule(name, actions, tuple(holder.get(stage, stage) for stage in range(stages)))


Result = tuple[Kind, int, int]
"""What an action has made once it is done, named by the action; a B has, for others, made what an I makes."""


def makes(action: Action) -> Result:
    """The result that others wait for."""
    return ("I", *action[1:]) if action.kind == "B" else action


def needs(action: Action, stages: int) -> tuple[Result, ...]:
    """The results that `action` works on; the first is the one that may come from another rank.

    F of stage s needs F of stage s−1. B and I of stage s need the gradient that stage s+1 makes, and their own F.
    W needs its own I.
    """
    kind, stage, micro_batch = action
    if kind == "F":
        return (("F", stage - 1, micro_batch),) if stage else ()
    if kind == "W":
        return (("I", stage, micro_batch),)
    if stage + 1 == stages:
        return (("F", stage, micro_batch),)
    return ("I", stage + 1, micro_batch), ("F", stage, micro_batch)


def feeds(action: Action, stages: int) -> int | None:
    """The other stage that works on the result of `action`; None where there is none."""
    if action.kind == "W":
        return None
    to = action.stage + 1 if action.kind == "F" else action.stage - 1
    return to if 0 <= to < stages else None


def check(
    schedule: Schedule, memory_limit: float | None = None, kept_for_weights: float = KEPT_FOR_WEIGHTS
) -> Schedule:
    """Return the schedule, proven to run; raise `ScheduleError` that names the action otherwise.

    Proven is: every stage does F and B (or I and W) of every micro-batch exactly once, on the rank that holds the
    stage, in order, and no rank waits for ever. The order found for that is also one in which every message can be
    handed over hand to hand (`lower`), so it does not matter whether sends block.

    memory_limit: how many live micro-batches a rank has room for, each of all its stages (see `Schedule.peak_live`);
    one that waits for its W takes `kept_for_weights` of that room.
    """
    _check_complete(schedule)
    deque(in_order(schedule), maxlen=0)
    if memory_limit is not None:
        _check_memory(schedule, memory_limit, kept_for_weights)
    return schedule


def _check_complete(schedule: Schedule) -> None:
    m, p = schedule.micro_batches, schedule.stages
    if m == 0:
        raise ScheduleError(f"schedule {schedule.name!r} does nothing")
    done: set[Action] = set()
    for rank, actions in enumerate(schedule.actions):
        for action, times in Counter(actions).items():
            _check_action(schedule, rank, action)
            if times > 1:
                raise ScheduleError(f"rank {rank} does {action} {times} times")
        done.update(actions)
    split = {action[1:] for action in done if action.kind in "IW"}
    for rank, actions in enumerate(schedule.actions):
        both = next((action for action in actions if action.kind == "B" and action[1:] in split), None)
        if both is not None:
            raise ScheduleError(f"rank {rank} does {both}, and an I or W of it too: a backward is whole or split")
    missing = 2 * p * m + len(split) - len(done)
    if missing:
        # One at a time: a slip of the keyboard such as F1000000000 asks for more actions than memory holds.
        wanted = (
            Action(kind, s, i)
            for i in range(m)
            for s in range(p)
            for kind in ("F", *(("I", "W") if (s, i) in split else ("B",)))
        )
        first = next(action for action in wanted if action not in done)
        raise ScheduleError(f"{first} is missing on rank {schedule.holder[first.stage]} ({missing} missing in all)")


def _check_action(schedule: Schedule, rank: int, action: Action) -> None:
    p = schedule.stages
    if action.kind not in "FBIW" or not 0 <= action.stage < p or action.micro_batch < 0:
        raise ScheduleError(
            f"rank {rank} does {action}, but there are {p} stages and {schedule.micro_batches} micro-batches"
        )
    holder = schedule.holder[action.stage]
    if holder != rank:
        raise ScheduleError(f"rank {rank} does {action}, but rank {holder} holds that stage")


def _check_memory(schedule: Schedule, limit: float, kept: float) -> None:
    for rank, actions in enumerate(schedule.actions):
        stages, live, waiting = schedule.holder.count(rank), 0, 0
        for action in actions:
            live += {"F": 1, "W": 0}.get(action.kind, -1)
            waiting += {"I": 1, "W": -1}.get(action.kind, 0)
            if live + kept * waiting > limit * stages * (1 + 1e-9):
                of_stages = f" of one of its {stages} stages each" if stages > 1 else ""
                late = f", and {waiting} waiting for W that take {kept:g} each" if waiting else ""
                raise ScheduleError(
                    f"rank {rank} would hold {live} live micro-batches{of_stages}{late} at {action}; "
                    f"its room is for {limit * stages:g}"
                )


def in_order(schedule: Schedule) -> Iterator[tuple[int, Action, tuple[Result, ...]]]:
    """All actions as (rank, action, what it needs), each after that and after what its rank does before it.

    Raises `ScheduleError` where the ranks wait for each other for ever, naming and drawing what each waits for.
    """
    stages, rows = schedule.stages, schedule.actions
    done: set[Result] = set()
    position = [0] * schedule.ranks
    asleep: dict[Result, list[int]] = {}  # what ranks wait for -> those ranks
    awake = deque(range(schedule.ranks))
    while awake:
        rank = awake.popleft()
        row = rows[rank]
        for at in range(position[rank], len(row)):
            action = row[at]
            wanted = needs(action, stages)
            if not done.issuperset(wanted):
                missing = next(need for need in wanted if need not in done)
                asleep.setdefault(missing, []).append(rank)
                break
            yield rank, action, wanted
            made = makes(action)
            done.add(made)
            position[rank] = at + 1
            if made in asleep:
                awake.extend(asleep.pop(made))
    if asleep:
        raise ScheduleError(_where_it_stops(schedule, position, asleep))


def _where_it_stops(schedule: Schedule, position: Sequence[int], asleep: dict[Result, list[int]]) -> str:
    """What each rank waits for, in words and as a picture: what is done, a bar, and what is left."""
    makers = {makes(action): action for row in schedule.actions for action in row}
    waiting = sorted((rank, makers[result]) for result, ranks in asleep.items() for rank in ranks)
    waits = [f"rank {r} waits for {action} before {schedule.actions[r][position[r]]}" for r, action in waiting]
    lines = [f"schedule {schedule.name!r} never finishes: {'; '.join(waits)}", "", "It stops at the bars:"]
    for rank, (row, at) in enumerate(zip(schedule.actions, position, strict=True)):
        words = [f"{a.kind}{a.micro_batch}" + ("" if schedule.virtual == 1 else f"@{a.stage}") for a in row]
        done, left = words[:at], words[at:]
        shown = ["…"] * (len(done) > 8) + done[-8:] + ["|"] * bool(left) + left[:8] + ["…"] * (len(left) > 8)
        lines.append(f"  rank {rank}  {' '.join(shown)}")
    return "\n".join(lines)
