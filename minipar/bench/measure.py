"""Timing several ways of doing the same thing, in turn, so that a busy machine slows all of them alike."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Mapping, Sequence

import torch

from minipar import comm
from minipar.mesh import Axis

WARM_UPS = 3


def alternate(ways: Mapping[str, Callable[[], object]], repeats: int, axis: Axis) -> dict[str, float]:
    """Median seconds of each way over `repeats` rounds in which each runs once; the slowest rank of `axis` counts."""
    for _ in range(WARM_UPS):
        for way in ways.values():
            way()
    times: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(repeats):
        for name, way in ways.items():
            times[name].append(_seconds(way, axis))
    slowest = {name: map(max, zip(*comm.gather_objects(own, axis), strict=True)) for name, own in times.items()}
    return {name: statistics.median(rounds) for name, rounds in slowest.items()}


def _seconds(way: Callable[[], object], axis: Axis) -> float:
    comm.barrier(axis)
    began = time.perf_counter()
    way()
    if axis.placement.device.type == "cuda":
        torch.cuda.synchronize(axis.placement.device)
    return time.perf_counter() - began


def geometric_mean(ratios: Sequence[float]) -> float:
    """The geometric mean: half as fast here and twice as fast there is even."""
    return math.exp(statistics.fmean(map(math.log, ratios)))
