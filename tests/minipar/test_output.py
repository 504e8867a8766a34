"""What ranks print and report reaches the caller: whole, at once, with the rank's number."""

from __future__ import annotations

import ctypes
import functools
import os
import sys
import time
from pathlib import Path
from typing import Any

import cloudpickle
import pytest
import torch.distributed as dist

import minipar
from minipar import RankFailed

cloudpickle.register_pickle_by_value(sys.modules[__name__])  # so that no rank imports this file, and pytest with it
pytestmark = pytest.mark.usefixtures("nothing_left")

run = functools.partial(minipar.run, timeout=20, device="cpu")


def test_output_has_its_rank_and_arrives_whole(capfd: pytest.CaptureFixture[str]) -> None:
    def fn() -> None:
        os.write(1, "naïve\n".encode())
        print("from an error", file=sys.stderr)
        ctypes.CDLL(None).printf(b"from C\n")
        print("without an end", end="")

    run(fn, 2)
    lines = [f"[rank {r}] {text}" for r in (0, 1) for text in ("naïve", "from an error", "from C", "without an end")]
    assert sorted(capfd.readouterr().out.splitlines()) == sorted(lines)


def test_output_before_a_failure_is_not_lost(capfd: pytest.CaptureFixture[str]) -> None:
    def fn() -> None:
        print("so far", end="")
        dist.barrier()
        if dist.get_rank() == 0:
            raise ValueError
        time.sleep(60)

    with pytest.raises(RankFailed):
        run(fn, 2)
    assert sorted(capfd.readouterr().out.splitlines()) == ["[rank 0] so far", "[rank 1] so far"]


def test_no_line_of_forty_thousand_is_lost(capfd: pytest.CaptureFixture[str]) -> None:
    run(lambda: print(*range(10_000), sep="\n"), 4)
    lines = capfd.readouterr().out.splitlines()
    for r in range(4):
        assert [line for line in lines if line.startswith(f"[rank {r}]")] == [f"[rank {r}] {i}" for i in range(10_000)]


def test_output_appears_while_the_ranks_run(capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    def fn(seen: Path) -> None:
        print("early")
        while not seen.exists():
            minipar.report(None)
            time.sleep(0.02)

    heard: list[str] = []

    def look(rank: int, _: None) -> None:
        heard.append(capfd.readouterr().out)
        if "[rank 0] early" in "".join(heard):
            (tmp_path / "seen").touch()

    run(fn, 1, tmp_path / "seen", on_report=look)


def test_reports_arrive_in_order_each_with_its_rank() -> None:
    def fn() -> None:
        for i in range(50):
            minipar.report((dist.get_rank(), i))

    heard: list[tuple[int, Any]] = []
    run(fn, 3, on_report=lambda rank, value: heard.append((rank, value)))
    for r in range(3):
        assert [value for rank, value in heard if rank == r] == [(r, i) for i in range(50)]
    run(fn, 3)  # nobody listens
    minipar.report("not a rank")
    assert len(heard) == 150
