"""`minipar.run` in a real Jupyter kernel: output, errors, and what an interrupt, a restart and a kill leave behind."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import psutil
import pytest
from jupyter_client.blocking import BlockingKernelClient
from jupyter_client.manager import KernelManager

HANG = """\
import subprocess, time
def hang():
    subprocess.Popen(["sleep", "60"])
    print("ready") or time.sleep(60)  # stands here
minipar.run(hang, 2)
"""


@dataclass
class Cell:
    """What a cell has shown so far: its printed text, its result, and its error as the notebook shows it."""

    text: str = ""
    result: str = ""
    error: list[str] = field(default_factory=list)


@dataclass
class Kernel:
    manager: KernelManager
    client: BlockingKernelClient

    def start_cell(self, code: str) -> str:
        """Send a cell off; returns its name."""
        return self.client.execute(code)

    def listen(self, cell: str, until: Callable[[Cell], bool] = lambda _: False) -> Cell:
        """Collect what the cell shows until it is done, or has shown enough."""
        shown = Cell()
        while not until(shown):
            message = self.client.get_iopub_msg(timeout=40)
            content = message["content"]
            if message["parent_header"].get("msg_id") != cell:
                continue
            if message["msg_type"] == "stream":
                shown.text += content["text"]
            elif message["msg_type"] == "execute_result":
                shown.result = content["data"]["text/plain"]
            elif message["msg_type"] == "error":
                shown.error = [content["ename"], "\n".join(content["traceback"])]
            elif message["msg_type"] == "status" and content["execution_state"] == "idle":
                break
        return shown

    def run(self, code: str) -> Cell:
        """Run a cell to its end."""
        return self.listen(self.start_cell(code))

    def hang(self) -> str:
        """Start a cell whose two ranks hang, and wait until they do."""
        self.run("import minipar")
        cell = self.start_cell(HANG)
        self.listen(cell, until=lambda shown: shown.text.count("ready\n") == 2)
        return cell

    @property
    def pid(self) -> int:
        return self.manager.provisioner.pid

    def descendants(self) -> list[psutil.Process]:
        return psutil.Process(self.pid).children(recursive=True)


@pytest.fixture(scope="module")
def kernel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kernel]:
    connection_file = str(tmp_path_factory.mktemp("kernel") / "kernel.json")
    manager = KernelManager(transport="ipc", connection_file=connection_file, shutdown_wait_time=1.0)
    manager.start_kernel(env={**os.environ, "MINIPAR_DEVICE": "cpu"})
    client = manager.client()
    client.start_channels()
    client.wait_for_ready(timeout=40)
    yield Kernel(manager, client)
    client.stop_channels()
    manager.shutdown_kernel(now=True)


def test_a_function_defined_in_a_cell_runs_on_any_number_of_ranks(kernel: Kernel) -> None:
    kernel.run("import minipar, torch.distributed as dist\nclass Square:\n    def __init__(self, x): self.area = x * x")
    shown = kernel.run("[[s.area for s in minipar.run(lambda: Square(dist.get_rank()), n)] for n in (4, 1, 3)]")
    assert shown.result == "[[0, 1, 4, 9], [0], [0, 1, 4]]"


def test_the_output_of_ranks_streams_into_the_cell(kernel: Kernel) -> None:
    cell = kernel.start_cell("import time\nminipar.run(lambda: (print('hello'), time.sleep(1)), 4)")
    shown = kernel.listen(cell, until=lambda shown: shown.text.count("\n") == 4)
    assert shown.result == ""
    assert sorted(shown.text.splitlines()) == [f"[rank {r}] hello" for r in range(4)]
    assert kernel.listen(cell).result == str([(None, None)] * 4)


def test_a_failing_rank_shows_the_line_of_its_cell(kernel: Kernel) -> None:
    shown = kernel.run("def fn():\n    dist.barrier()\n    return 1 / dist.get_rank()  # fails\nminipar.run(fn, 2)")
    name, traceback = shown.error
    assert name == "RankFailed"
    assert traceback.startswith("RankFailed: rank 0 raised ZeroDivisionError")
    assert re.search(r'File "Cell In\[\d+\]", line 3, in fn\n    return 1 / dist.get_rank\(\)  # fails', traceback)
    assert "rank 1: had finished" in traceback


def test_an_interrupt_ends_all_ranks_and_says_where_they_stood(
    kernel: Kernel, gone: Callable[[list[psutil.Process]], None], ranks_left: Callable[[int], list[psutil.Process]]
) -> None:
    cell = kernel.hang()
    ranks = ranks_left(kernel.pid)
    assert len(ranks) == 4
    kernel.manager.interrupt_kernel()
    name, traceback = kernel.listen(cell).error
    assert name == "KeyboardInterrupt"
    for r in range(2):
        assert re.search(rf"rank {r}: Cell In\[\d+\]:4 in hang: .*# stands here", traceback)
    gone(ranks)
    assert kernel.run("minipar.run(dist.get_rank, 4)").result == "[0, 1, 2, 3]"


@pytest.mark.parametrize("end", ["restart", "kill -9"])
def test_no_process_survives_the_kernel(end: str, kernel: Kernel, gone: Callable[[list[psutil.Process]], None]) -> None:
    kernel.hang()
    everything = kernel.descendants()
    assert len(everything) == 6
    if end == "restart":
        kernel.manager.restart_kernel()
        kernel.client.wait_for_ready(timeout=40)
    else:
        os.kill(kernel.pid, signal.SIGKILL)
    gone(everything)
