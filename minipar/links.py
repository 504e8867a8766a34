"""Emulation, so that a laptop shows what a cluster does: compute that takes a chosen time, and links that are slower.

What is paced really runs; then its rank sleeps until the chosen time is over. Ranks that sleep need no core, so
many of them fit on two. What is emulated is always said to be.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass


def hold(started: float, seconds: float) -> None:
    """Sleep until `seconds` after `started` (by `time.perf_counter`); return at once if that is past."""
    left = started + seconds - time.perf_counter()
    if left > 0:
        time.sleep(left)


@dataclass(frozen=True)
class Link:
    """A connection of two ranks: `latency` in seconds, `bandwidth` in bytes a second, in each direction."""

    latency: float
    bandwidth: float

    def __post_init__(self) -> None:
        """Refuse what no link has."""
        if self.latency < 0 or self.bandwidth <= 0:
            raise ValueError(f"{self}: a latency is at least 0 seconds, a bandwidth above 0 bytes a second")

    def seconds(self, size: float, messages: int = 1) -> float:
        """How long `size` bytes take in so many messages, one after another."""
        return messages * self.latency + size / self.bandwidth


@dataclass(frozen=True)
class Links:
    """How ranks are connected: `inside` a node of `ranks_per_node` consecutive ranks, and `between` nodes."""

    inside: Link
    between: Link
    ranks_per_node: int

    def of(self, source: int, to: int) -> Link:
        """The link between two global ranks."""
        return self.inside if source // self.ranks_per_node == to // self.ranks_per_node else self.between

    def collective(self, ranks: Sequence[int], sent: float, rounds: int) -> float:
        """Seconds for a ring of `ranks` in which each sends `sent` bytes in `rounds` messages: the slowest link's."""
        ring = zip(ranks, (*ranks[1:], ranks[0]), strict=True)
        return max(self.of(a, b).seconds(sent, rounds) for a, b in ring)
