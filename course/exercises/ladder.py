"""The puzzle ladder of lesson 07: seven rungs, each a bubble to reach in a room for so many micro-batches."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from course.quiz.schedule_answer import DoesNotRun, check_runs, read
from minipar.pipeline import Costs, Schedule, Timeline, by_name, simulate
from minipar.words import _

ROUNDING = 1e-9


@dataclass(frozen=True)
class Rung:
    """A puzzle: so many ranks with `each` stages each, and micro-batches; the published schedule `like` solves it.

    F, I and W take 1 unit in one rank's share of the model, a B takes 2. A rank with two stages has halves of these.
    """

    number: int
    ranks: int
    micro_batches: int
    each: int
    like: str

    @cached_property
    def known(self) -> Schedule:
        """A published schedule that is just good enough."""
        return by_name(self.like, self.ranks, self.micro_batches)

    @property
    def room(self) -> float:
        """How many live micro-batches, of all its stages, a rank has room for."""
        return self.known.room

    @cached_property
    def bubble(self) -> float:
        """The most that the bubble may be, from 0 to 1."""
        return self.timed(self.known).bubble_rate

    def timed(self, schedule: Schedule) -> Timeline:
        """The schedule's timeline in this puzzle's units."""
        return simulate(schedule, Costs(forward=1, input=1, weight=1).times(1 / self.each))

    def read(self, answer: object) -> Schedule:
        """The schedule that was written, which runs and has this puzzle's size.

        Raises `ValueError` for what is none, and `DoesNotRun` for one that cannot run; both say why.
        """
        schedule = read(self.known, answer)
        check_runs(schedule, self.known)
        for rank in range(self.ranks):
            held = schedule.holder.count(rank)
            if held != self.each:
                text = _("rank {rank} holds {held} stages, and {each} are asked for")
                raise DoesNotRun(text.format(rank=rank, held=held, each=self.each))
        return schedule

    def fits(self, schedule: Schedule) -> bool:
        """Whether it has room."""
        return schedule.room <= self.room + ROUNDING

    def beats(self, schedule: Schedule) -> bool:
        """Whether its bubble is small enough."""
        return self.timed(schedule).bubble_rate <= self.bubble + ROUNDING


def rungs() -> tuple[Rung, ...]:
    """The ladder, from the lowest."""
    return (
        Rung(1, 2, 3, 1, "gpipe"),
        Rung(2, 3, 4, 1, "1f1b"),
        Rung(3, 3, 4, 1, "zb-h1"),
        Rung(4, 2, 4, 2, "interleaved"),
        Rung(5, 2, 4, 1, "zb-h2"),
        Rung(6, 2, 4, 2, "v-min"),
        Rung(7, 2, 4, 2, "zb-v"),
    )
