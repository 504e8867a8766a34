"""What each rank of a schedule holds when it begins an action, counted in micro-batches and in messages."""

from __future__ import annotations

from collections import Counter, deque
from functools import lru_cache
from typing import NamedTuple

from minipar.pipeline.lower import users
from minipar.pipeline.schedule import Action, Kind, Result, Schedule, in_order, makes
from minipar.plan.closed import HOLDING
from minipar.plan.layout import Numbers, written


class Moment(NamedTuple):
    """A rank has what an action works on, and begins it; or, with no action, is done with all of them.

    live, waiting and done: for each of the rank's stages in order, of how many micro-batches it keeps activations (with
    this forward's own), of how many weight gradients wait, and whether it has no action left. copies: messages sent of
    which the rank does not know that they arrived. mail: results that lie here for a later action.
    """

    kind: Kind | None
    stage: int
    live: tuple[int, ...]
    waiting: tuple[int, ...]
    done: tuple[bool, ...]
    copies: int
    mail: int


def moments(layout: Numbers) -> tuple[frozenset[Moment], ...]:
    """For each pipeline rank, the moments of a step that differ.

    After 4·pp + 1 micro-batches they repeat themselves, interleaved from one group of pp to the next; so no more are
    gone through, but for schedules that hold all of them.
    """
    m, pp = layout.micro_batches, layout.pp
    enough = 4 * pp + 1
    if layout.schedule in HOLDING or m <= enough:
        enough = m
    else:
        enough += (m - enough) % pp
    return _moments(layout.schedule, layout.pp, enough, layout.virtual)


@lru_cache(maxsize=512)
def _moments(name: str, pp: int, micro_batches: int, virtual: int) -> tuple[frozenset[Moment], ...]:
    schedule = written(name, pp, micro_batches, virtual)
    ranks = [_Rank(schedule, rank) for rank in range(schedule.ranks)]
    for rank, action, _ in in_order(schedule):
        ranks[rank].begin(action, ranks)
        ranks[rank].end(action, ranks)
    return tuple(frozenset(rank.seen | {rank.now(None, -1)}) for rank in ranks)


class _Rank:
    """One rank while the schedule runs: it receives a message when an action needs it, as `minipar.wire.Line` does."""

    def __init__(self, schedule: Schedule, rank: int) -> None:
        self.schedule, self.rank = schedule, rank
        self.own = [stage for stage, holder in enumerate(schedule.holder) if holder == rank]
        self.live, self.waiting = dict.fromkeys(self.own, 0), dict.fromkeys(self.own, 0)
        self.left = Counter(action.stage for action in schedule.actions[rank])
        self.mail: set[Result] = set()
        self.due: dict[int, deque[tuple[Result, int]]] = {}  # by sender: what comes, and how many of ours it had then
        self.received: dict[int, int] = {}
        self.sent: dict[int, int] = {}
        self.delivered: dict[int, int] = {}
        self.seen: set[Moment] = set()

    def now(self, kind: Kind | None, stage: int) -> Moment:
        copies = sum(self.sent.values()) - sum(self.delivered.values())
        done = tuple(self.left[own] == 0 for own in self.own)
        live, waiting = tuple(self.live.values()), tuple(self.waiting.values())
        return Moment(kind, stage, live, waiting, done, copies, len(self.mail))

    def begin(self, action: Action, ranks: list[_Rank]) -> None:
        kind, stage, _ = action
        if (need := self._needs(action)) is not None:
            source = self.schedule.holder[need[1]]
            while need not in self.mail:
                result, had = self.due[source].popleft()
                self.mail.add(result)
                self.received[source] = self.received.get(source, 0) + 1
                self.delivered[source] = max(self.delivered.get(source, 0), had)
            self.mail.remove(need)
        if kind == "F":
            self.live[stage] += 1
        self.seen.add(self.now(kind, stage))

    def _needs(self, action: Action) -> Result | None:
        kind, stage, micro_batch = action
        if kind == "F":
            return ("F", stage - 1, micro_batch) if stage else None
        if kind == "W" or stage + 1 == self.schedule.stages:
            return None
        return "I", stage + 1, micro_batch

    def end(self, action: Action, ranks: list[_Rank]) -> None:
        kind, stage, _ = action
        self.live[stage] -= kind in "BI"
        self.left[stage] -= 1
        self.waiting[stage] += (kind == "I") - (kind == "W")
        for user in users(action, self.schedule.stages):
            to = self.schedule.holder[user]
            if to == self.rank:
                self.mail.add(makes(action))
            else:
                self.sent[to] = self.sent.get(to, 0) + 1
                ranks[to].due.setdefault(self.rank, deque()).append((makes(action), self.received.get(to, 0)))
