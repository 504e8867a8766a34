"""What property tests of durations draw: a schedule by its numbers, its stages' costs, and a message's seconds."""

from __future__ import annotations

from typing import NamedTuple

from hypothesis import strategies as st

from minipar.pipeline import Costs, Schedule, simulate
from minipar.pipeline.names import LOOPED, NAMES, by_name
from minipar.plan.layout import STAGES_A_RANK

SECONDS = st.sampled_from([0.01, 0.5, 1.0, 1.25, 2.0, 3.1])


class Case(NamedTuple):
    """As the planner names a schedule, with seconds of each stage's forward and backward."""

    name: str
    p: int
    m: int
    virtual: int
    costs: tuple[tuple[float, float], ...]
    send: float

    @property
    def schedule(self) -> Schedule:
        return by_name(self.name, self.p, self.m, self.virtual if self.name in LOOPED else None)

    @property
    def seconds(self) -> float:
        """Simulated whole."""
        forward, backward = zip(*self.costs, strict=True)
        return simulate(self.schedule, Costs(forward, backward, self.send)).duration


@st.composite
def cases(draw: st.DrawFn, ranks: int, micro_batches: int, stages_a_rank: int) -> Case:
    """Up to so many of each. Stages are any, equal but for the last, as models have them, or compete in rhythm."""
    name, p = draw(st.sampled_from(NAMES)), draw(st.integers(1, ranks))
    virtual = draw(st.integers(1, stages_a_rank)) if name in LOOPED else 1
    stages = p * STAGES_A_RANK.get(name, virtual)
    costs = draw(st.lists(st.tuples(SECONDS, SECONDS), min_size=stages, max_size=stages))
    alike = draw(st.sampled_from(["no", "but the last", "nearly"]))
    if alike == "but the last":
        costs = [costs[0]] * (stages - 1) + [costs[-1]]
    elif alike == "nearly":
        costs = [(1 + forward / 50, 2 + backward / 50) for forward, backward in costs]
    send = draw(st.sampled_from([0.0, 0.1, 1.0]))
    return Case(name, p, draw(st.integers(1, micro_batches)), virtual, tuple(costs), send)
