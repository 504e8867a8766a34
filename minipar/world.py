"""Run a function on fresh ranks: `run(fn, ranks=4)` from a notebook cell, a test, a script or under torchrun."""

from __future__ import annotations

import atexit
import contextlib
import functools
import os
import pickle
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from multiprocessing.connection import wait
from typing import Any

import torch.distributed as dist

from minipar import cargo, rank
from minipar.devices import DEVICE_VARIABLE, choose, gpus, place
from minipar.member import Member, OnReport, interrupts_held

GRACE = 0.3  # seconds in which a killed rank's own end is noticed before its neighbours' broken sockets are believed
ANSWER = 1.0  # seconds that ranks get to say where they stand


class RankFailed(RuntimeError):
    """A rank raised, or was killed: its traceback first, then where each other rank stood.

    `rank` is the number of the rank that failed, `places` maps every other rank to its place.
    """

    def __init__(self, message: str, rank: int | None, places: dict[int, str]) -> None:
        super().__init__(message, rank, places)  # all three, so that the error itself can be pickled
        self.message = message
        self.rank = rank
        self.places = places

    def __str__(self) -> str:
        others = "\n".join(f"  rank {r}: {place}" for r, place in sorted(self.places.items()))
        return f"{self.message}\n\nWhere the ranks stood:\n{others}" if others else self.message

    def _render_traceback_(self) -> list[str]:
        """What a notebook shows: the rank's story, without the caller's waiting loop (IPython's documented hook)."""
        return [f"{type(self).__name__}: {self}"]


class RankTimeout(RankFailed, TimeoutError):
    """The ranks did not finish in time; `places` says where each stood."""


def run(
    fn: Callable[..., Any],
    ranks: int = 4,
    *args: Any,
    timeout: float = 60.0,
    renewed: bool = False,
    device: str | None = None,
    on_report: OnReport = None,
    **kwargs: Any,
) -> list[Any]:
    """Call ``fn(*args, **kwargs)`` on `ranks` ranks and return what each returned, in rank order.

    The ranks are fresh processes with `torch.distributed` started, one thread each, and they are
    gone when the call returns. Where a process group is there already (under torchrun, or inside
    a rank), `fn` runs in the ranks of that group instead.

    fn: any function, also one that was defined in a notebook cell; what it returns must pickle.
        CUDA tensors come back on the CPU.
    timeout: seconds for everything; then all ranks are ended.
    renewed: the seconds count from the last report that a rank made, for work of unknown length.
    device: ``"cpu"``, ``"cuda"`` or None, a GPU where there is one (see `minipar.devices`).
    on_report: called here with ``(rank, value)`` for every ``minipar.report(value)`` inside a rank.

    Raises `RankFailed` when a rank raises or dies, `RankTimeout` when time is up, `ValueError` for
    degrees that do not fit the ranks that are there and for a device that is not there.
    """
    if ranks < 1:
        raise ValueError(f"ranks={ranks}; at least one rank is needed")
    wanted = device or os.environ.get(DEVICE_VARIABLE) or None
    choose(0, ranks, wanted, gpus() if wanted == "cuda" else 0)  # what is wrong in every rank is told before they start
    if dist.is_initialized() or {"RANK", "WORLD_SIZE", "MASTER_ADDR"} <= os.environ.keys():
        return _join(fn, ranks, args, kwargs, timeout, device, on_report)
    payload, sources = cargo.pack((fn, args, kwargs))
    with tempfile.TemporaryDirectory(prefix="minipar-") as folder:
        store, environment = os.path.join(folder, "rendezvous"), dict(os.environ)
        jobs = [rank.Job(payload, sources, r, ranks, store, timeout, device, environment) for r in range(ranks)]
        with _started(jobs) as members:
            return _collect(members, timeout, renewed, on_report)


def _join(
    fn: Callable[..., Any],
    ranks: int,
    args: Sequence[Any],
    kwargs: dict[str, Any],
    timeout: float,
    device: str | None,
    on_report: OnReport,
) -> list[Any]:
    """`run` in the ranks that are there: every rank calls this, every rank gets the whole list."""
    there = dist.get_world_size() if dist.is_initialized() else int(os.environ["WORLD_SIZE"])
    if there != ranks:
        raise ValueError(f"run was asked for ranks={ranks}, but {there} ranks were started: make the two numbers equal")
    if not dist.is_initialized():
        if device is not None:
            os.environ[DEVICE_VARIABLE] = device
        rank.join_group(place(), int(os.environ["RANK"]), there, "env://", timeout)
        atexit.register(_leave)  # a group that is still there when Python ends can abort the process
    deliver = functools.partial(on_report, dist.get_rank()) if on_report else None
    with rank.reporting_to(deliver):
        mine = cargo.dumps(fn(*args, **kwargs))
    everyone: list[bytes] = [b""] * there
    dist.all_gather_object(everyone, mine)
    return [pickle.loads(result) for result in everyone]


def _leave() -> None:
    if dist.is_initialized():
        dist.destroy_process_group()


@contextlib.contextmanager
def _started(jobs: Sequence[rank.Job]) -> Iterator[list[Member]]:
    members: list[Member] = []
    try:
        for job in jobs:
            members.append(Member(job))
            members[-1].start()
        yield members
        for member in members:
            with contextlib.suppress(OSError):
                member.control.send("leave")
        for member in members:
            member.process.join(timeout=5)
    finally:
        with interrupts_held():
            for member in members:
                member.end()


def _collect(members: list[Member], timeout: float, renewed: bool, on_report: OnReport) -> list[Any]:
    """Listen to all ranks until each has returned; raise for the first that did not."""
    deadline = time.monotonic() + timeout

    def hear_report(rank: int, value: Any) -> None:
        nonlocal deadline
        if renewed:
            deadline = time.monotonic() + timeout
        if on_report is not None:
            on_report(rank, value)

    try:
        while any(m.state == "running" for m in members):
            left = deadline - time.monotonic()
            if left <= 0:
                what = (
                    f"the ranks reported nothing for {timeout:g} s"
                    if renewed
                    else f"the ranks did not finish within {timeout:g} s"
                )
                raise RankTimeout(what, None, _places(members))
            _hear(members, left, hear_report)
            if any(m.state in ("failed", "died") for m in members):
                raise _failure(members)
    except KeyboardInterrupt:
        places = "\n".join(f"  rank {r}: {place}" for r, place in _places(members).items())
        raise KeyboardInterrupt(f"interrupted; where the ranks stood:\n{places}") from None
    return [pickle.loads(m.content) for m in members]


def _hear(members: list[Member], seconds: float, on_report: OnReport = None) -> None:
    """Take in whatever the ranks have to say, waiting at most `seconds` for it."""
    ears: dict[Any, Callable[[], None]] = {m.output: m.print_output for m in members if not m.output.closed}
    for m in (m for m in members if not m.control.closed):
        ears[m.control] = ears[m.process.sentinel] = functools.partial(m.hear, on_report)
    for ready in wait(list(ears), max(seconds, 0.0)):
        ears[ready]()


def _hear_until(members: list[Member], seconds: float, enough: Callable[[], bool]) -> None:
    deadline = time.monotonic() + seconds
    while not enough() and (left := deadline - time.monotonic()) > 0:
        _hear(members, left)


def _failure(members: list[Member]) -> RankFailed:
    """The error for the rank that failed by itself, not for those that lost it."""

    def dead() -> list[Member]:
        return [m for m in members if m.state == "died"]

    _hear_until(members, GRACE, lambda: bool(dead()))
    failed = [m for m in members if m.state == "failed"]
    culprit = min(dead() or failed, key=lambda m: m.heard_at)
    places = _places([m for m in members if m is not culprit])
    if culprit.state == "failed":
        line, story = culprit.content
        return RankFailed(f"rank {culprit.rank} raised {line}\n\n{story.rstrip()}", culprit.rank, places)
    return RankFailed(f"rank {culprit.rank} {culprit.obituary()}", culprit.rank, places)


def _places(members: list[Member]) -> dict[int, str]:
    """Where each rank stands, by number."""
    asked = [m for m in members if m.state == "running"]
    for m in asked:
        with contextlib.suppress(OSError):
            m.control.send("where")
    _hear_until(asked, ANSWER, lambda: all(m.place or m.state != "running" for m in asked))
    return {m.rank: m.standing() for m in members}
