from __future__ import annotations

import json
import random
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from minipar.pipeline import Costs, Schedule, check, one_f_one_b, simulate, zb_h1, zb_h2
from minipar.pipeline.auto import auto
from minipar.pipeline.auto.greedy import greedy
from minipar.pipeline.auto.search import STARTS, _bound, _task, _written
from minipar.pipeline.auto.task import play

DATA = Path(__file__).parents[2] / "data"


def read(name: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = json.loads((DATA / name).read_text())
    return rows


ROWS = [
    pytest.param({**setup, **profile, **printed}, id=f"{printed['model']}, m={printed['m']}")
    for printed, profile in zip(read("zb_table5_bubble.json"), read("zb_table9_profile.json"), strict=True)
    for setup in read("zb_table3_setup.json")
    if setup["model"] == printed["model"] == profile["model"] and printed["m"] == profile["m"]
]


def costs_of(row: dict[str, Any]) -> Costs:
    return Costs(forward=row["T_F"], input=row["T_B"], weight=row["T_W"], send=row["T_comm"])


def kept_for_weights(row: dict[str, Any]) -> float:
    """M_W / M_B by Table 1 of Zero Bubble."""
    hidden = row["hidden"]
    return float(32 * hidden / (34 * hidden + 5 * row["heads"] * row["seq_len"]))


def peak(schedule: Schedule, kept: float) -> float:
    return max(simulate(schedule).peak_memory(lambda stage: 1, lambda stage: kept))


@pytest.mark.parametrize("row", ROWS)
@pytest.mark.parametrize("times", [1, 2])
def test_with_room_for_p_and_2p_it_is_as_good_as_the_published_ones(row: dict[str, Any], times: int) -> None:
    room = times * row["p"]
    schedule = check(auto(row["p"], row["m"], costs_of(row), room), room)
    assert max(schedule.peak_live) <= room
    assert round(simulate(schedule, costs_of(row)).bubble_rate, 4) <= row[f"ZB-{times}p"]


@pytest.mark.parametrize("row", ROWS)
def test_with_the_memory_of_2p_it_is_as_good_as_the_published_zb_2p(row: dict[str, Any]) -> None:
    schedule = check(auto(row["p"], row["m"], costs_of(row), 2 * row["p"], kept_for_weights(row)))
    assert peak(schedule, kept_for_weights(row)) <= 2 * row["p"] + 1e-9
    assert simulate(schedule, costs_of(row)).bubble_rate <= row["ZB-2p"] + 5e-5


@pytest.mark.parametrize("row", ROWS)
def test_with_2p_micro_batches_live_until_w_it_is_the_fastest_there_is(row: dict[str, Any]) -> None:
    """The published ZB-2p is below what any schedule can reach, where a waiting W keeps all of its activations."""
    p, m, costs = row["p"], row["m"], costs_of(row)
    hop_and_back = row["T_F"] + row["T_B"] + 2 * row["T_comm"]
    # First F of rank 0 to rank p-1, all F and I there and the W that make room for the last F, an I back, its W.
    fastest = (p - 1) * hop_and_back + m * (row["T_F"] + row["T_B"]) + (m - 2 * p + 1) * row["T_W"]
    timeline = simulate(check(auto(p, m, costs, 2 * p, 1), 2 * p, 1), costs)
    assert timeline.longest_span == pytest.approx(fastest)
    assert 1 - timeline.busiest / fastest > row["ZB-2p"] + 5e-5
    assert timeline.longest_span < simulate(zb_h2(p, m), costs).longest_span


@st.composite
def tasks(draw: st.DrawFn) -> tuple[int, int, Costs, float]:
    p, m = draw(st.integers(1, 5)), draw(st.integers(1, 8))
    second = st.floats(0, 10).map(lambda x: round(x, 2))

    def some() -> Any:
        each = draw(st.lists(second, min_size=p, max_size=p))
        both = draw(st.lists(second, min_size=p * m, max_size=p * m))
        return draw(st.sampled_from([each[0], each, lambda action: both[action.stage * m + action.micro_batch]]))

    links = draw(st.lists(second, min_size=2 * p, max_size=2 * p))
    send: Any = draw(st.sampled_from([0.0, links[0], lambda source, to: links[source + p * (to > source)]]))
    whole = draw(st.sampled_from([None, some()]))
    return (
        p,
        m,
        Costs(some(), whole, send, some(), some()),
        draw(st.integers(1, 2 * p + 1)) + draw(st.sampled_from([0, 0.5])),
    )


@settings(max_examples=25)
@given(task=tasks(), kept=st.sampled_from([1.0, 0.4, 0.0]))
def test_it_fits_is_the_same_each_time_and_never_worse_than_what_is_written_by_hand(
    task: tuple[int, int, Costs, float], kept: float
) -> None:
    p, m, costs, limit = task
    schedule = check(auto(p, m, costs, limit, kept), limit, kept)
    assert (schedule.stages, schedule.micro_batches) == (p, m)
    assert schedule == auto(p, m, costs, limit, kept)
    assert peak(schedule, kept) <= limit + 1e-9
    span = simulate(schedule, costs).longest_span
    assert span >= _bound(_task(p, m, costs, limit, kept)) * (1 - 1e-9) or costs.backward is not None
    for other in one_f_one_b(p, m), zb_h1(p, m), zb_h2(p, m):
        if peak(other, kept) <= limit:
            assert span <= simulate(other, costs).longest_span * (1 + 1e-9)


@settings(max_examples=25)
@given(task=tasks(), start=st.sampled_from(STARTS))
def test_its_own_times_are_those_of_simulate(task: tuple[int, int, Costs, float], start: Any) -> None:
    p, m, costs, limit = task
    inside = _task(p, m, costs, limit, 1.0)
    rows = greedy(inside, start)
    schedule = check(_written("greedy", rows), limit, 1)
    run, timeline = play(inside, rows), simulate(schedule, costs)
    assert [[span.start for span in row] for row in timeline.rows if row] == [sorted(row) for row in run.starts]
    assert [max(row) for row in run.ends] == [max(span.end for span in row) for row in timeline.rows]
    assert run.time[:2] == pytest.approx((timeline.longest_span, timeline.end))
    assert run.peak == max(schedule.peak_held)


def test_it_holds_for_stages_that_differ() -> None:
    chance = random.Random(0)
    p, m = 6, 20
    f, i, w = ([chance.uniform(0.5, 1.5) for _ in range(p)] for _ in "FIW")
    costs = Costs(forward=f, input=i, weight=w, send=lambda source, to: 0.1 * abs(source - to))
    found = simulate(check(auto(p, m, costs, 12), 12), costs)
    assert found.longest_span < simulate(zb_h1(p, m), costs).longest_span
    assert found.longest_span <= simulate(zb_h2(p, m), costs).longest_span * (1 + 1e-9)
    assert found.bubble_rate < 0.01


def test_with_room_for_one_it_is_one_at_a_time() -> None:
    schedule = check(auto(3, 2, Costs(1, input=1, weight=1), 1), 1)
    assert schedule.name == "auto (at most 1 live)"
    assert simulate(schedule, Costs(1, input=1, weight=1)).longest_span == 2 * 7


def test_even_costs_and_2p_give_no_bubble() -> None:
    costs = Costs(1, input=1, weight=1)
    assert simulate(auto(4, 12, costs, 7), costs).bubble_rate == pytest.approx(0)


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ((0, 4, Costs(), 4), "stages=0"),
        ((4, 0, Costs(), 4), "micro_batches=0"),
        ((4, 12, Costs(), 0.5), "memory_limit=0.5; no rank could do a forward.*1 live.*ZB-H1 for 4, ZB-H2 for 7"),
        ((4, 4, Costs(), float("nan")), "memory_limit=nan"),
        ((4, 4, Costs(), 4, 1.5), "kept_for_weights=1.5"),
        ((4, 4, Costs(forward=[1, 2]), 4), "forward has 2 costs"),
    ],
)
def test_it_says_what_is_wrong_before_it_starts(asked: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        auto(*asked)


def test_it_takes_seconds_for_32_stages_and_256_micro_batches() -> None:
    costs = Costs(forward=1, input=0.98, weight=0.65, send=0.02)
    start = time.perf_counter()
    schedule = auto(32, 256, costs, 64, 0.45)
    seconds = time.perf_counter() - start
    print(f"\np=32, m=256: {seconds:.1f} s, bubble rate {simulate(schedule, costs).bubble_rate:.4f}")
    assert seconds < 60
