"""What lesson 02 asks and shows: the ledger's formula, the planner's link, and every rank's numbers."""

import re

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from course.figures.lesson02 import (
    LINK,
    across_ranks,
    ledger,
    predict_bytes,
    predict_many_small,
    predict_more_ranks,
    sent,
    times_picture,
)
from course.widgets.predict import Prediction
from minipar.alphabeta import ALL_REDUCE, LinkMeasure
from minipar.ledger import Traffic


def truth(widget: Prediction) -> str:
    widget._handle_custom_msg({"prediction": "2"}, [])
    said: str = widget.outcome["sentences"][0]
    return said.partition("; it is ")[2].rstrip(".")


@given(n=st.integers(2, 64), size=st.integers(0, 10**9))
def test_a_ring_sends_two_parts_of_n_less_than_the_tensor_twice(n: int, size: int) -> None:
    assert sent(n, size) == pytest.approx(2 * (n - 1) / n * size)


def test_more_ranks_send_hardly_more() -> None:
    assert truth(predict_bytes()) == "1.75 GiB"
    assert truth(predict_more_ranks()) == "1.125 times"


def test_many_small_sums_take_hundreds_of_times_as_long_as_a_large_one() -> None:
    n, kib = 8, 1024

    def ring(size: float) -> float:
        return 2 * (n - 1) * (LINK.alpha + size / n * LINK.beta)

    assert truth(predict_many_small()) == f"{1000 * ring(kib) / ring(1000 * kib):.0f} times"


def test_the_table_shows_each_ranks_numbers_and_no_markup() -> None:
    results: list[dict[str, torch.Tensor | None]] = [
        {"<b>": torch.tensor([1, 2]), "reduce": None},
        {"<b>": torch.tensor([30.5, 4]), "reduce": torch.ones(1)},
    ]
    page = str(across_ranks(results).data)
    assert re.findall(r"<td>(.*?)</td>", page) == ["1 2", "30.5 4", "–", "1"]
    assert "<code>&lt;b&gt;</code>" in page
    assert page.count("rank ") == 2


def test_the_ledgers_lines_are_as_wide_as_each_other() -> None:
    rows = [Traffic("all-reduce", "tp", 4, 1, 6400), Traffic("send", "tp", 4, 12, 10**9)]
    heads, *lines = ledger(rows).splitlines()
    assert {len(line) for line in lines} == {len(heads)}
    assert lines[0].split() == ["all-reduce", "1", "6,400", "9,600"]
    assert lines[1].split() == ["send", "12", "1,000,000,000", "1,000,000,000"]


@given(alpha=st.floats(1e-6, 1e-2), beta=st.floats(1e-12, 1e-8), n=st.integers(2, 8))
def test_the_picture_finds_the_costs_of_the_slowest_rank(alpha: float, beta: float, n: int) -> None:
    costs = LinkMeasure("tp", n, ALL_REDUCE, alpha, beta)
    slow = {size: costs.seconds(size) for size in (64, 4096, 1 << 18, 1 << 24, 1 << 30)}
    fast = {size: seconds / 2 for size, seconds in slow.items()}
    page = str(times_picture([fast, slow, *[fast] * (n - 2)]).data)
    (speed,) = set(re.findall(r"1 / β = ([0-9.e+]+) GB/s", page))
    assert float(speed) == pytest.approx(1e-9 / beta, rel=0.06)
    assert "fitted" in page
    assert "predicted" not in page  # the line is drawn from the very dots that it goes through
