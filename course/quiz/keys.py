"""Numbers that a quiz may ask for, computed by the library, so that no key can contradict a formula."""

from __future__ import annotations

from collections.abc import Callable

from minipar.pipeline import gpipe, simulate


def gpipe_bubble_percent(stages: int, micro_batches: int) -> float:
    """Idle share of all time under GPipe, in percent."""
    return 100 * simulate(gpipe(stages, micro_batches)).bubble_of_total


def gpipe_overhead_percent(stages: int, micro_batches: int) -> float:
    """Idle time over ideal time under GPipe, in percent."""
    return 100 * simulate(gpipe(stages, micro_batches)).bubble_over_ideal


def gpipe_speedup(stages: int, micro_batches: int) -> float:
    """How many times faster than one rank with all stages."""
    timeline = simulate(gpipe(stages, micro_batches))
    return timeline.busy / timeline.duration


KEYS: dict[str, Callable[[int, int], float]] = {
    key.__name__: key for key in (gpipe_bubble_percent, gpipe_overhead_percent, gpipe_speedup)
}
