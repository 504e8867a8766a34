"""A timeline: who did what from when to when, measured or predicted, and how much of it was idle."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from minipar.pipeline.schedule import Action


class Span(NamedTuple):
    """One action of one rank, with its start and end in seconds since the step began."""

    rank: int
    action: Action
    start: float
    end: float


@dataclass(frozen=True)
class Timeline:
    """The spans of all `ranks` ranks.

    The literature has two bubble fractions, and they differ. With p equal stages and m micro-batches
    GPipe has (p−1)/(m+p−1) of the first and (p−1)/m of the second.
    """

    spans: tuple[Span, ...]
    ranks: int

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
