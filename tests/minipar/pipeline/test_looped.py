from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minipar.pipeline import (
    Action,
    Costs,
    Schedule,
    Timeline,
    breadth_first,
    check,
    dualpipe_v,
    gpipe,
    interleaved,
    looped,
    one_f_one_b,
    simulate,
    v_half,
    v_min,
    zb_v,
)
from minipar.pipeline.schedule import makes, needs
from tests.minipar.pipeline.pictures import docstring_picture, staircase

Loop = Callable[[int, int, int], Schedule]
Vee = Callable[[int, int], Schedule]
LOOPS: tuple[Loop, ...] = (breadth_first, interleaved)
VEES: tuple[Vee, ...] = (zb_v, v_half, v_min, dualpipe_v)
UNITS = Costs(1, 1, input=1, weight=1)  # for pictures
EVEN = Costs()  # F = I = W = 1, a whole backward 2

ranks = st.integers(1, 6)
counts = st.integers(1, 18)
seconds = st.integers(1, 60)


@pytest.fixture(scope="module", autouse=True)
def each_block_once() -> Iterator[None]:
    """The blocks of V-half and V-min, which are the same for every m, are searched for once for each p: it is slow."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(looped, "_block", cache(looped._block))
        yield


def runs(schedule: Schedule, holder: tuple[int, ...], m: int) -> None:
    """It is complete, never waits for ever, and keeps each rank busy for all its work."""
    assert check(schedule) is schedule
    assert (schedule.holder, schedule.micro_batches) == (holder, m)
    assert schedule.stages == len(holder)
    timeline = simulate(schedule)
    assert timeline.busy == 3 * m * len(holder)
    assert timeline.duration >= timeline.longest_span >= timeline.busiest == 3 * m * schedule.virtual


@pytest.mark.parametrize("make", LOOPS)
@pytest.mark.parametrize("v", range(1, 5))
def test_every_size_of_a_loop_runs(make: Loop, v: int) -> None:
    for p in range(1, 9):
        for m in range(1, 25):
            schedule = make(p, m, v)
            runs(schedule, tuple(range(p)) * v, m)
            assert (schedule.ranks, schedule.virtual) == (p, v)


@pytest.mark.parametrize("make", VEES)
def test_every_size_of_a_v_runs(make: Vee) -> None:
    for p in range(1, 9):
        for m in range(1, 25):
            schedule = make(p, m)
            runs(schedule, (*range(p), *range(p - 1, -1, -1)), m)
            assert (schedule.ranks, schedule.virtual) == (p, 2)


@pytest.mark.parametrize("make", [*LOOPS, *VEES])
def test_each_docstring_draws_what_is_simulated(make: Vee) -> None:
    assert docstring_picture(make.__doc__ or "") == staircase(simulate(make(4, 6), UNITS), between="")


@pytest.mark.parametrize("make", [*LOOPS, *VEES])
@pytest.mark.parametrize("wrong", [0, -1, 2.5, 2.0, "2", None])
def test_counts_are_whole_numbers_of_at_least_one(make: Callable[..., Schedule], wrong: object) -> None:
    for name, arguments in {"ranks": (wrong, 2), "micro_batches": (2, wrong), "virtual": (2, 2, wrong)}.items():
        if name != "virtual" or make in LOOPS:
            with pytest.raises(ValueError, match=f"^{name}={wrong!r}; a schedule needs a whole number of at least 1"):
                make(*arguments)


def test_with_one_stage_a_rank_they_are_gpipe_and_1f1b() -> None:
    for p in range(1, 6):
        for m in range(1, 10):
            assert breadth_first(p, m, 1).actions == gpipe(p, m).actions
            assert interleaved(p, m, 1).actions == one_f_one_b(p, m).actions


def bubble(timeline: Timeline) -> float:
    """Seconds in which the busiest rank does nothing, of the whole step."""
    return timeline.duration - timeline.busiest


def bubble_of_a_step(timeline: Timeline) -> float:
    """The seconds that a step costs beyond its work, step after step."""
    return timeline.longest_span - timeline.busiest


@given(ranks, counts, st.integers(1, 4), seconds, seconds)
def test_the_bubble_of_breadth_first_is_that_of_one_of_its_stages(p: int, m: int, v: int, f: int, b: int) -> None:
    """(p−1)(F+B)/v where m ≥ p; fewer leave a gap of p−m before each further stage. Here f and b are one stage's."""
    timeline = simulate(breadth_first(p, m, v), Costs(f, b))
    assert bubble(timeline) == bubble_of_a_step(timeline) == (p - 1 + (v - 1) * max(0, p - m)) * (f + b)
    assert breadth_first(p, m, v).peak_live == (v * m,) * p


@given(ranks, counts, st.integers(1, 4), seconds, seconds)
def test_the_bubble_of_interleaved_is_that_of_one_of_its_stages(p: int, m: int, v: int, f: int, b: int) -> None:
    """(p−1)(F+B)/v where p divides m; else never less, and at most the gaps of the last group more."""
    timeline = simulate(interleaved(p, m, v), Costs(f, b))
    gaps = (v - 1) * (-m % p)
    assert (p - 1) * (f + b) <= bubble(timeline) <= (p - 1 + gaps) * (f + b)
    if m % p == 0:
        assert bubble(timeline) == bubble_of_a_step(timeline) == (p - 1) * (f + b)


def test_interleaved_holds_what_its_warm_up_brought_in() -> None:
    """(v−1)p + 2(p−r−1) + 1 where m ≥ 2p, or where p divides m and there are so many; never more."""
    for v in (2, 3, 4):
        for p in range(1, 9):
            for m in range(1, 25):
                live = interleaved(p, m, v).peak_live
                most = [min(v * m, (v - 1) * p + 2 * (p - r - 1) + 1) for r in range(p)]
                assert all(held <= limit for held, limit in zip(live, most, strict=True))
                if m >= 2 * p or m % p == 0:
                    assert list(live) == most


def test_zb_v_has_no_bubble_from_2p_micro_batches_on() -> None:
    for p in range(1, 9):
        for m in range(1, 25):
            schedule = zb_v(p, m)
            idle = bubble_of_a_step(simulate(schedule, EVEN))
            assert idle == (0 if m >= 2 * p else 4 * p - 2 * m if m > p else 4 * p - 2 * m - 2)
            assert max(schedule.peak_held) == 2 * min(m, p)
            if m >= 2 * p:
                assert schedule.peak_held == (2 * p,) * p


def test_v_half_holds_half_of_1f1b_and_v_min_a_third() -> None:
    """Exactly 2⌊(p+2)/2⌋ and 2⌊(p+4)/3⌋ in one stage or the other, of 2p."""
    for p in range(1, 17):
        assert max(v_half(p, 20).peak_held) == 2 * ((p + 2) // 2)
        assert max(v_min(p, 20).peak_held) == 2 * ((p + 4) // 3)
    for p in range(1, 7):
        for m in range(1, 13):
            assert max(v_half(p, m).peak_held) <= 2 * ((p + 2) // 2)
            assert max(v_min(p, m).peak_held) <= 2 * ((p + 4) // 3)


def test_their_bubbles_in_units_of_one_action() -> None:
    """Of 1F1B's 6(p−1), V-half has a little over a half (7/12) and V-min two thirds, however many micro-batches."""
    for p in range(1, 13):
        for m in (2 * p, 2 * p + 5):
            half = bubble_of_a_step(simulate(v_half(p, m), EVEN))
            third = bubble_of_a_step(simulate(v_min(p, m), EVEN))
            assert half == (3.5 * (p - 1) if p % 2 else 3.5 * p - 2)
            assert third == (0 if p == 1 else 4 * p - (3 if p % 3 == 0 else 5))
            assert bubble_of_a_step(simulate(one_f_one_b(p, m), Costs(2, 4))) == 6 * (p - 1)


BlockCost = Callable[[list[Action]], float]


def fused(schedule: Schedule, cost: BlockCost) -> tuple[float, list[float]]:
    """The end of the step and each rank's work when an F and the B after it are one block.

    The block starts when the inputs of both are there and ends for both at once. Without `simulate`.
    """

    def in_blocks(row: tuple[Action, ...]) -> Iterator[list[Action]]:
        left = list(row)
        while left:
            n = 2 if [a.kind for a in left[:2]] == ["F", "B"] else 1
            yield left[:n]
            del left[:n]

    left = [list(in_blocks(row)) for row in schedule.actions]
    free, busy = [0.0] * schedule.ranks, [0.0] * schedule.ranks
    ends: dict[tuple[str, int, int], float] = {}
    moved = True
    while moved:
        moved = False
        for rank, row in enumerate(left):
            while row and all(need in ends for a in row[0] for need in needs(a, schedule.stages)):
                block = row.pop(0)
                ready = [ends[need] for a in block for need in needs(a, schedule.stages)]
                free[rank] = max([free[rank], *ready]) + cost(block)
                busy[rank] += cost(block)
                ends.update({makes(a): free[rank] for a in block})
                moved = True
    assert not any(left), "side by side they would wait for ever"
    return max(free), busy


times = st.tuples(st.integers(1, 20), st.integers(0, 20), st.integers(0, 20), st.integers(0, 20))


@given(ranks, st.integers(0, 10), times)
def test_the_bubble_of_dualpipe_v_is_the_published_one_where_an_f_and_a_b_go_side_by_side(
    p: int, more: int, drawn: tuple[int, int, int, int]
) -> None:
    """(p−1)(F&B + B − 3W), as idle time of the rank at the turn, where m ≥ 2p and neither F nor W is longer than I."""
    i = max(drawn)
    f, w = min(drawn[0], i), min(drawn[1], i)
    b = i + w
    together = max(f, b, f + b - drawn[2])
    schedule = dualpipe_v(p, 2 * p + more)
    alone = {"F": f, "B": b, "I": i, "W": w}
    end, busy = fused(schedule, lambda block: together if len(block) == 2 else alone[block[0].kind])
    assert end - busy[-1] == (p - 1) * (together + b - 3 * w)
    if together == f + b:
        assert len(set(busy)) == 1
        assert bubble(simulate(schedule, Costs(f, b, input=i, weight=w))) <= end - busy[-1], "not fused"


def test_dualpipe_v_holds_2p_plus_1_on_every_rank() -> None:
    for p in range(1, 9):
        for m in range(1, 25):
            live = dualpipe_v(p, m).peak_held
            assert max(live) <= min(2 * p + 1, 2 * m)
            if m >= 2 * p:
                assert live == (2 * p + 1,) * p


def test_dualpipe_v_splits_the_backwards_of_its_ends_only() -> None:
    """So the further micro-batches all have whole backwards."""
    for p in range(1, 7):
        for m in (2 * p, 2 * p + 1, 2 * p + 7):
            kinds = [[a.kind for a in row] for row in dualpipe_v(p, m).actions]
            split = [row.count("I") for row in kinds]
            assert split == [[a.kind for a in row].count("I") for row in dualpipe_v(p, 2 * p).actions]
            assert [row.count("B") + row.count("I") for row in kinds] == [2 * m] * p
