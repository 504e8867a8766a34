"""What this machine can do for the course, measured in a few seconds, and what to do about what is missing."""

from __future__ import annotations

import platform
import statistics
import sys
import time
from collections.abc import Callable
from typing import NamedTuple

import torch

from minipar import comm
from minipar.devices import place
from minipar.mesh import Mesh
from minipar.words import _
from minipar.world import run

RANKS = 4
OLDEST_PYTHON, OLDEST_TORCH = (3, 10), (2, 6)
LARGE = 8 << 20  # bytes of the tensor that measures bandwidth


class Finding(NamedTuple):
    """One thing that was looked at; `advice` says what to do where something is missing."""

    name: str
    value: str
    advice: str = ""


def examine(ranks: int = RANKS) -> list[Finding]:
    """Look at Python, PyTorch and the devices, then start ranks and measure an all-reduce between them."""
    began = time.perf_counter()
    run(lambda: None, ranks)
    first = time.perf_counter() - began
    began = time.perf_counter()
    run(lambda: None, ranks)
    again = time.perf_counter() - began
    described, latency, seconds = run(measure_all_reduce, ranks)[0]
    return [
        _version("Python", platform.python_version(), sys.version_info[:2], OLDEST_PYTHON),
        _version("PyTorch", torch.__version__, _numbers(torch.__version__), OLDEST_TORCH),
        _devices(described),
        Finding(
            _("start {ranks} ranks").format(ranks=ranks),
            _("{again:.2f} s (the first time {first:.1f} s)").format(again=again, first=first),
        ),
        Finding(_("all-reduce over {ranks} ranks, 8 bytes").format(ranks=ranks), f"{latency * 1e6:.0f} µs"),
        Finding(
            _("all-reduce over {ranks} ranks, {size} MiB").format(ranks=ranks, size=LARGE >> 20),
            _bandwidth(seconds, ranks),
        ),
    ]


def measure_all_reduce() -> tuple[str, float, float]:
    """On a rank: where it is placed, and the median seconds of an all-reduce of 8 bytes and of `LARGE` bytes."""
    mesh = Mesh(tp=torch.distributed.get_world_size())

    def median_seconds(size: int, repeats: int) -> float:
        tensor = torch.ones(size // 4, device=mesh.device)
        return statistics.median(_timed(lambda: comm.all_reduce(tensor, mesh.tp), mesh) for i in range(repeats))

    median_seconds(8, 5)  # the first calls open connections
    return str(place()), median_seconds(8, 50), median_seconds(LARGE, 7)


def _timed(work: Callable[[], object], mesh: Mesh) -> float:
    comm.barrier(mesh.tp)
    began = time.perf_counter()
    work()
    if mesh.device.type == "cuda":
        torch.cuda.synchronize(mesh.device)
    return time.perf_counter() - began


def _bandwidth(seconds: float, ranks: int) -> str:
    sent = 2 * (ranks - 1) / ranks * LARGE
    words = _("{milliseconds:.1f} ms, so each rank sends {rate:.2f} GiB/s")
    return words.format(milliseconds=seconds * 1e3, rate=sent / seconds / 2**30)


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".")[:2])


def _version(name: str, shown: str, numbers: tuple[int, ...], oldest: tuple[int, ...]) -> Finding:
    wanted = ".".join(map(str, oldest))
    advice = _("too old: install {name} {wanted} or newer").format(name=name, wanted=wanted)
    return Finding(name, shown, "" if numbers >= oldest else advice)


def _devices(described: str) -> Finding:
    gpus = [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())]
    if gpus:
        return Finding(_("ranks run on"), f"{described}; GPUs: {', '.join(gpus)}")
    advice = _("nothing is missing for the lessons: they run on the CPU")
    if not torch.version.cuda:
        advice += _("; to use a GPU, install a PyTorch that is built with CUDA")
    return Finding(_("ranks run on"), described, advice)
