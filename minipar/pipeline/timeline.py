"""A timeline: who did what from when to when, measured or predicted, and how much of it was idle."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

from minipar.pipeline.schedule import Action, makes, needs


class Span(NamedTuple):
    """One action of one rank, with its start and end in seconds since the step began."""

    rank: int
    action: Action
    start: float
    end: float


class Parts(NamedTuple):
    """A step's seconds by what a rank did with them, on average over the ranks.

    compute: its actions. communication: what it needed was made, but had not arrived. idle: the bubble, when what it
    needed was not even made, or nothing was left to do. They add up to the step's duration.
    """

    compute: float
    communication: float
    idle: float


@dataclass(frozen=True)
class Timeline:
    """The spans of all `ranks` ranks; `emulated` where compute was paced or links were slowed down.

    The literature has two bubble fractions, and they differ. With p equal stages and m micro-batches
    GPipe has (p−1)/(m+p−1) of the first and (p−1)/m of the second.
    """

    spans: tuple[Span, ...]
    ranks: int
    emulated: bool = False

    @property
    def start(self) -> float:
        """When the first action starts, in seconds."""
        return min((span.start for span in self.spans), default=0.0)

    @property
    def end(self) -> float:
        """When the last action ends, in seconds."""
        return max((span.end for span in self.spans), default=0.0)

    @property
    def duration(self) -> float:
        """From the first start to the last end, in seconds."""
        return self.end - self.start

    @property
    def busy(self) -> float:
        """Seconds of work, summed over the ranks."""
        return sum(span.end - span.start for span in self.spans)

    @property
    def bubble_of_total(self) -> float:
        """Idle time over all time, between 0 and 1 (Huang et al. 2019, §2.3)."""
        total = self.ranks * self.duration
        return (total - self.busy) / total if total else 0.0

    @property
    def bubble_over_ideal(self) -> float:
        """Idle time over the time that the work alone would take; can exceed 1 (Narayanan et al. 2021, §2.2.1)."""
        return (self.ranks * self.duration - self.busy) / self.busy if self.busy else 0.0

    @cached_property
    def rows(self) -> tuple[tuple[Span, ...], ...]:
        """The spans of each rank, by their start."""
        rows: list[list[Span]] = [[] for _ in range(self.ranks)]
        for span in self.spans:
            rows[span.rank].append(span)
        return tuple(tuple(sorted(row, key=lambda span: span.start)) for row in rows)

    @property
    def longest_span(self) -> float:
        """The most seconds that a rank takes from the start of its first action to the end of its last.

        Step after step, this and not `duration` is what a step costs: a rank that is done early starts the next step
        early (Qi et al. 2024, §5.3, "the largest execution time of all stages").
        """
        return max((row[-1].end - row[0].start for row in self.rows if row), default=0.0)

    @property
    def busiest(self) -> float:
        """The most seconds of work that a rank has: no schedule is faster."""
        return max((sum(span.end - span.start for span in row) for row in self.rows), default=0.0)

    @property
    def bubble_rate(self) -> float:
        """The idle share of `longest_span`, between 0 and 1, as Zero Bubble's Table 5 has it (Qi et al. 2024, §5.3)."""
        return (self.longest_span - self.busiest) / self.longest_span if self.longest_span else 0.0

    def peak_memory(
        self, activations: Callable[[int], float], for_weights: Callable[[int], float] | None = None
    ) -> tuple[float, ...]:
        """For each rank the most that it holds of activations at once, in the unit of `activations`.

        activations: what a stage (given by its number) keeps of one micro-batch from the start of its forward to the
        end of its B or I; for_weights: what it keeps of that from I to the end of W (all of it by default).
        """
        kept = for_weights or activations
        peaks = []
        for row in self.rows:
            now = most = 0.0
            for _, (kind, stage, _), _, _ in row:
                if kind == "F":
                    now += activations(stage)
                    most = max(most, now)
                else:
                    whole, after = activations(stage), kept(stage)
                    now -= {"B": whole, "I": whole - after, "W": after}[kind]
            peaks.append(most)
        return tuple(peaks)

    def parts(self) -> Parts:
        """How a rank's time divides into compute, communication and idle, on average."""
        stages = 1 + max((span.action.stage for span in self.spans), default=-1)
        made = {makes(span.action): span for span in self.spans}
        communication = 0.0
        for row in self.rows:
            free = self.start
            for span in row:
                ends = (made[need].end for need in needs(span.action, stages) if need in made)
                communication += max(0.0, span.start - max([free, *ends]))
                free = span.end
        total, compute, communication = (
            self.duration,
            self.busy / max(self.ranks, 1),
            communication / max(self.ranks, 1),
        )
        return Parts(compute, communication, total - compute - communication)

    def to_chrome_trace(self, name: str = "minipar") -> dict[str, Any]:
        """The timeline in the Trace Event Format, which Perfetto and chrome://tracing open: a track a rank."""
        return {"traceEvents": list(_events(self, name, 0)), "displayTimeUnit": "ms"}


NAMES = {"F": "forward", "B": "backward", "I": "input gradient", "W": "weight gradient"}


def chrome_trace(timelines: Iterable[tuple[str, Timeline]]) -> dict[str, Any]:
    """Several timelines under their names, such as the predicted above the measured, in one Chrome trace."""
    events = (event for i, (name, timeline) in enumerate(timelines) for event in _events(timeline, name, i))
    return {"traceEvents": list(events), "displayTimeUnit": "ms"}


def _events(timeline: Timeline, name: str, process: int) -> Iterable[dict[str, Any]]:
    title = f"{name} (emulated)" if timeline.emulated else name
    yield {"ph": "M", "name": "process_name", "pid": process, "args": {"name": title}}
    for rank in range(timeline.ranks):
        yield {"ph": "M", "name": "thread_name", "pid": process, "tid": rank, "args": {"name": f"rank {rank}"}}
    for rank, action, start, end in timeline.spans:
        yield {
            "ph": "X",
            "name": f"{action.kind}{action.micro_batch}",
            "cat": NAMES[action.kind],
            "pid": process,
            "tid": rank,
            "ts": start * 1e6,
            "dur": (end - start) * 1e6,
            "args": action._asdict(),
        }


def difference(predicted: Timeline, measured: Timeline) -> Parts:
    """Measured minus predicted seconds, by part; they add up to the difference of the two durations."""
    return Parts(*(m - p for m, p in zip(measured.parts(), predicted.parts(), strict=True)))
