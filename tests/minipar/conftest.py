"""What the tests of ranks share: patience in place of fixed sleeps, and a look at the processes that are left."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import psutil
import pytest


def becomes_true(condition: Callable[[], bool], seconds: float = 10) -> bool:
    """Whether the condition holds within that time."""
    deadline = time.monotonic() + seconds
    while not (holds := condition()) and time.monotonic() < deadline:
        time.sleep(0.02)
    return holds


def alive(process: psutil.Process) -> bool:
    """Whether the process runs; one that nobody has collected yet does not."""
    with contextlib.suppress(psutil.NoSuchProcess):
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    return False


def command_of(process: psutil.Process) -> str:
    """The process's command line; empty for one that has ended by now."""
    with contextlib.suppress(psutil.NoSuchProcess):
        return " ".join(process.cmdline())
    return ""


def ranks_of(caller: psutil.Process) -> list[psutil.Process]:
    """What `minipar.run` started from this process: not the server that forks ranks, which stays with the caller."""
    servers = [child for child in caller.children() if "multiprocessing" in command_of(child)]
    return [process for process in caller.children(recursive=True) if alive(process) and process not in servers]


@pytest.fixture
def until() -> Callable[[Callable[[], bool]], bool]:
    """Whether a condition comes true in time."""
    return becomes_true


@pytest.fixture
def gone() -> Callable[[Iterable[psutil.Process]], None]:
    """Check that all these processes end by themselves."""

    def check(processes: Iterable[psutil.Process]) -> None:
        processes = list(processes)
        assert processes
        assert becomes_true(lambda: not any(map(alive, processes))), [p for p in processes if alive(p)]

    return check


@pytest.fixture
def ranks_left() -> Callable[[int], list[psutil.Process]]:
    """The ranks, and what they started, that a process has at this moment."""
    return lambda pid: ranks_of(psutil.Process(pid))


@pytest.fixture
def nothing_left() -> Iterator[None]:
    """Check that the test leaves no rank behind: `run` has ended them when it returns, so nobody waits here."""
    yield
    assert ranks_of(psutil.Process()) == []


@pytest.fixture
def script(tmp_path: Path) -> Iterator[Callable[[str], subprocess.Popen[str]]]:
    """Start a script as a terminal does, in a process group of its own; it is killed when the test is over."""
    started: list[subprocess.Popen[str]] = []
    environment = {**os.environ, "MINIPAR_DEVICE": "cpu"}

    def start(text: str) -> subprocess.Popen[str]:
        path = tmp_path / "script.py"
        path.write_text(text)
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
        command = [sys.executable, str(path)]
        started.append(subprocess.Popen(command, **pipes, text=True, env=environment, start_new_session=True))
        return started[-1]

    yield start
    for process in started:
        process.kill()
        process.communicate()
