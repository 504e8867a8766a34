"""No process that `minipar.run` started outlives the call, and none outlives the caller."""

from __future__ import annotations

import contextlib
import functools
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable

import cloudpickle
import psutil
import pytest
import torch
import torch.distributed as dist

import minipar
from minipar import RankFailed

cloudpickle.register_pickle_by_value(sys.modules[__name__])  # so that no rank imports this file, and pytest with it
pytestmark = pytest.mark.usefixtures("nothing_left")

run = functools.partial(minipar.run, timeout=20, device="cpu")
Script = Callable[[str], "subprocess.Popen[str]"]
Gone = Callable[[list[psutil.Process]], None]
RanksLeft = Callable[[int], list[psutil.Process]]


@pytest.mark.parametrize("end", ["success", "failure", "timeout"])
def test_what_a_rank_started_ends_with_it(end: str, gone: Gone) -> None:
    def fn() -> None:
        minipar.report(subprocess.Popen(["sleep", "60"]).pid)
        dist.barrier()
        if end == "failure":
            raise ValueError
        if end == "timeout":
            time.sleep(60)

    started: list[psutil.Process] = []
    with contextlib.nullcontext() if end == "success" else pytest.raises(RankFailed):
        run(fn, 2, timeout=1.5, on_report=lambda _, pid: started.append(psutil.Process(pid)))
    assert len(started) == 2
    gone(started)


def test_a_script_needs_no_guard_and_its_server_ends_with_it(script: Script, gone: Gone) -> None:
    process = script("import minipar\nprint('top', flush=True)\nprint(minipar.run(lambda: 42, 2), flush=True)\ninput()")
    assert [process.stdout.readline(), process.stdout.readline()] == ["top\n", "[42, 42]\n"]
    servers = psutil.Process(process.pid).children(recursive=True)
    assert process.communicate("\n") == ("", None)
    gone(servers)


@pytest.mark.alone
def test_interrupts_and_a_kill_of_the_caller_end_all_ranks(
    script: Script, gone: Gone, ranks_left: RanksLeft, until: Callable[[Callable[[], bool]], bool]
) -> None:
    process = script("""
import subprocess, time, minipar
def fn():
    subprocess.Popen(["sleep", "60"])
    print("ready") or time.sleep(60)  # stands here
while True:
    try:
        minipar.run(fn, 2)
    except KeyboardInterrupt as interrupt:
        print("interrupted", interrupt, flush=True)
""")

    def lines(count: int) -> list[str]:
        return sorted(process.stdout.readline().rstrip() for _ in range(count))

    def interrupt() -> None:
        os.killpg(process.pid, signal.SIGINT)  # as a terminal and Jupyter do: all that has not left the group hears it

    assert until(lambda: any("forkserver" in str(p.cmdline()) for p in psutil.Process(process.pid).children()))
    interrupt()  # while the server that forks the ranks still imports: it must survive, in silence
    assert lines(1) == ["interrupted"]
    assert lines(2) == ["[rank 0] ready", "[rank 1] ready"]
    ranks = ranks_left(process.pid)
    assert len(ranks) == 4
    interrupt()
    assert lines(1) == ["interrupted interrupted; where the ranks stood:"]
    for r, line in enumerate(lines(2)):
        assert re.fullmatch(rf"  rank {r}: .*script.py:5 in fn: .*# stands here", line)
    gone(ranks)
    assert lines(2) == ["[rank 0] ready", "[rank 1] ready"]
    everything = psutil.Process(process.pid).children(recursive=True)
    assert len(everything) == 6
    process.kill()
    gone(everything)


def test_a_rank_can_have_helpers_of_its_own() -> None:
    def fn() -> list[int]:
        loader = torch.utils.data.DataLoader(list(range(4)), batch_size=2, num_workers=1)
        return [int(batch.sum()) for batch in loader]

    assert run(fn, 2) == [[1, 5], [1, 5]]


def test_a_kill_of_the_caller_ends_ranks_that_cannot_listen(script: Script, gone: Gone) -> None:
    process = script("""
import ctypes, os, signal, subprocess, time, minipar, torch.distributed as dist
def fn():
    subprocess.Popen(["sleep", "60"])
    print("ready")
    if dist.get_rank() == 0:
        os.kill(os.getpid(), signal.SIGSTOP)
    ctypes.PyDLL(None).sleep(60)  # does not let other Python threads run
minipar.run(fn, 2)
""")
    for _ in range(2):
        assert "ready" in process.stdout.readline()
    everything = psutil.Process(process.pid).children(recursive=True)
    assert len(everything) == 6
    process.kill()
    gone(everything)
