"""`minipar.run` as a function: what it gives back, and what it says when a rank fails."""

from __future__ import annotations

import functools
import os
import pickle
import signal
import statistics
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cloudpickle
import psutil
import pytest
import torch
import torch.distributed as dist

import minipar
from minipar import RankFailed, RankTimeout

cloudpickle.register_pickle_by_value(sys.modules[__name__])  # so that no rank imports this file, and pytest with it
pytestmark = pytest.mark.usefixtures("nothing_left")

run = functools.partial(minipar.run, timeout=20, device="cpu")


@dataclass(frozen=True)
class Point:
    x: int


def place_of(comment: str) -> str:
    """How a place names the only line of this file that ends with the comment."""
    lines = Path(__file__).read_text().splitlines()
    (number,) = [i for i, line in enumerate(lines, start=1) if line.endswith(f"# {comment}")]
    return f"{__file__}:{number} in fn: {lines[number - 1].strip()}"


def test_results_come_in_rank_order_for_any_number_of_ranks() -> None:
    for ranks in (3, 1, 4, 2):
        assert run(dist.get_rank, ranks) == list(range(ranks))


def test_arguments_pass_through() -> None:
    assert run(lambda *args, **kwargs: (args, kwargs), 2, 1, [2], key="three") == [((1, [2]), {"key": "three"})] * 2


def test_any_picklable_value_comes_back() -> None:
    def fn(point: Point) -> tuple[Any, ...]:
        leaf = torch.ones(2, requires_grad=True)
        layer = torch.nn.Parameter(torch.ones(2))
        return torch.arange(3), leaf, leaf * 2, layer, torch.ones(2, device="meta"), point, lambda x: x + point.x

    numbers, leaf, product, layer, meta, point, add = run(fn, 1, Point(4))[0]
    assert numbers.tolist() == [0, 1, 2]
    assert leaf.requires_grad
    assert product.tolist() == [2, 2]
    assert type(layer) is torch.nn.Parameter
    assert meta.is_meta
    assert point == Point(4)
    assert add(1) == 5


def test_a_result_that_cannot_be_pickled_fails_clearly() -> None:
    with pytest.raises(RankFailed, match="the function returned a lock that cannot be pickled"):
        run(threading.Lock, 2)


def test_ranks_see_the_environment_of_this_moment(monkeypatch: pytest.MonkeyPatch) -> None:
    for value in ("before", "after"):
        monkeypatch.setenv("MINIPAR_TEST", value)
        assert run(lambda: os.environ["MINIPAR_TEST"], 2) == [value] * 2


@pytest.mark.parametrize("wrong", [{"ranks": 0}, {"ranks": -1}, {"device": "gpu"}])
def test_a_wrong_argument_is_a_value_error_that_names_it(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=repr(next(iter(wrong.values())))):
        run(lambda: 0, **wrong)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_gpu_that_is_not_there_is_a_value_error() -> None:
    with pytest.raises(ValueError, match="PyTorch sees no GPU here"):
        run(lambda: 0, 2, device="cuda")


def test_a_call_is_quick_after_the_first() -> None:
    run(lambda: 0)
    seconds = []
    for _ in range(5):
        start = time.perf_counter()
        run(lambda: 0, ranks=4)
        seconds.append(time.perf_counter() - start)
    print(f"\nrun(lambda: 0, ranks=4): median {statistics.median(seconds):.3f} s, best {min(seconds):.3f} s")
    assert min(seconds) < 0.5


def test_calls_leave_no_file_open() -> None:
    run(lambda: 0, 2)
    before = psutil.Process().num_fds()
    for _ in range(3):
        run(lambda: 0, 2)
    assert psutil.Process().num_fds() == before


def test_a_rank_that_raises_is_shown_with_its_line_and_the_others_with_theirs() -> None:
    def fn() -> None:
        dist.barrier()
        if dist.get_rank() == 2:
            raise ValueError("no such layer")  # raised here
        dist.all_reduce(torch.zeros(1))  # awaited here

    start = time.monotonic()
    with pytest.raises(RankFailed, match="rank 2 raised ValueError: no such layer") as failed:
        run(fn, 4)
    assert time.monotonic() - start < 3
    assert failed.value.rank == 2
    assert 'raise ValueError("no such layer")  # raised here' in str(failed.value)
    assert failed.value.places == dict.fromkeys((0, 1, 3), place_of("awaited here"))
    assert str(pickle.loads(pickle.dumps(failed.value))) == str(failed.value)


def test_a_killed_rank_is_named_and_not_those_that_lost_it() -> None:
    def fn(victim: int) -> None:
        for step in range(1000):
            dist.all_reduce(torch.zeros(1))
            if (dist.get_rank(), step) == (victim, 3):
                os.kill(os.getpid(), signal.SIGKILL)

    for victim in (0, 1, 2, 3) * 2:
        with pytest.raises(RankFailed, match=f"rank {victim} was killed by SIGKILL") as failed:
            run(fn, 4, victim)
        assert failed.value.rank == victim
        assert failed.value.places.keys() == {0, 1, 2, 3} - {victim}


def test_a_killed_rank_is_noticed_though_its_child_holds_the_pipe_open() -> None:
    def fn() -> None:
        if dist.get_rank() == 1:
            os.system("sleep 60 &")
            os.kill(os.getpid(), signal.SIGKILL)
        dist.barrier()

    start = time.monotonic()
    with pytest.raises(RankFailed, match="rank 1 was killed"):
        run(fn, 2)
    assert time.monotonic() - start < 3


@pytest.mark.parametrize(
    ("leave", "said"),
    [(lambda: os._exit(3), "left with exit code 3"), (lambda: sys.exit("enough"), "raised SystemExit: enough")],
)
def test_a_rank_that_leaves_early_is_named(leave: Callable[[], None], said: str) -> None:
    with pytest.raises(RankFailed, match=f"rank 1 {said}"):
        run(lambda: leave() if dist.get_rank() == 1 else dist.barrier(), 2)


def test_a_rank_that_dies_after_its_result_spoils_nothing() -> None:
    def fn() -> int:
        if dist.get_rank() == 0:
            threading.Timer(0.2, lambda: os._exit(1)).start()
        else:
            time.sleep(0.6)  # returns well after the other has died
        return dist.get_rank()

    assert run(fn, 2) == [0, 1]


def test_a_hang_ends_in_time_and_says_where_each_rank_stood() -> None:
    def fn() -> None:
        if dist.get_rank() == 0:
            time.sleep(600)  # asleep here
        if dist.get_rank() == 1:
            os.kill(os.getpid(), signal.SIGSTOP)
        if dist.get_rank() == 2:
            return
        dist.recv(torch.zeros(1), src=1)  # listens here

    with pytest.raises(RankTimeout, match=r"did not finish within 1 s") as failed:
        run(fn, 4, timeout=1)
    assert isinstance(failed.value, TimeoutError)
    assert failed.value.rank is None
    assert failed.value.places == {
        0: place_of("asleep here"),
        1: "gave no answer (stopped, or busy outside Python)",
        2: "had finished",
        3: place_of("listens here"),
    }


def test_a_function_without_source_runs_and_fails_readably() -> None:
    names: dict[str, Any] = {}
    exec("def fn(x):\n    return 1 / x", names)
    assert run(names["fn"], 2, 2) == [0.5, 0.5]
    with pytest.raises(RankFailed, match=r"(?s)ZeroDivisionError.*line 2, in fn"):
        run(names["fn"], 2, 0)


def test_a_run_inside_a_rank_joins_the_ranks_that_are_there() -> None:
    def fn(ranks: int) -> list[int] | str:
        try:
            return run(lambda: dist.get_rank() + 1, ranks)
        except ValueError as error:
            return str(error)

    assert run(fn, 2, 2) == [[1, 2], [1, 2]]
    for said in run(fn, 2, 4):
        assert "ranks=4" in said
        assert "2 ranks were started" in said
