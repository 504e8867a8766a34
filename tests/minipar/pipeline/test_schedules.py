from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minipar.pipeline import Costs, Schedule, Timeline, check, gpipe, naive, one_f_one_b, parse, simulate, zb_h1, zb_h2
from tests.minipar.pipeline.pictures import docstring_picture, staircase

Make = Callable[[int, int], Schedule]
ALL: tuple[Make, ...] = (naive, gpipe, one_f_one_b, zb_h1, zb_h2)
SIZES = [(p, m) for p in range(1, 9) for m in range(1, 25)]
UNITS = Costs(1, 1, input=1, weight=1)

sizes = st.tuples(st.integers(1, 8), st.integers(1, 24))
seconds = st.integers(1, 60)  # whole numbers, so that sums are exact


@pytest.mark.parametrize("make", ALL)
def test_every_size_runs_and_does_everything_once(make: Make) -> None:
    for p, m in SIZES:
        schedule = make(p, m)
        assert check(schedule) is schedule
        assert (schedule.ranks, schedule.stages, schedule.micro_batches) == (p, p, m)
        assert (schedule.holder, schedule.virtual) == (tuple(range(p)), 1)
        timeline = simulate(schedule)
        assert timeline.busy == 3 * p * m
        assert timeline.duration >= timeline.longest_span >= timeline.busiest == 3 * m


@pytest.mark.parametrize("make", ALL)
def test_each_docstring_draws_what_is_simulated(make: Make) -> None:
    schedule = naive(4) if make is naive else make(4, 6)
    drawn = staircase(simulate(schedule, UNITS))
    assert [row.split() for row in docstring_picture(make.__doc__ or "")] == [row.split() for row in drawn]
    if make is not naive:
        assert docstring_picture(make.__doc__ or "") == drawn, "in columns"


@pytest.mark.parametrize("make", ALL)
@pytest.mark.parametrize("wrong", [0, -1, 2.5, 2.0, "2", None])
def test_counts_are_whole_numbers_of_at_least_one(make: Make, wrong: object) -> None:
    with pytest.raises(ValueError, match=f"micro_batches={wrong!r}; a schedule needs a whole number of at least 1"):
        make(2, wrong)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=f"stages={wrong!r}; a schedule needs a whole number of at least 1"):
        make(wrong, 2)  # type: ignore[arg-type]


def test_1f1b_is_its_staircase() -> None:
    assert one_f_one_b(4, 6).actions == (
        parse(
            [
                "F0 F1 F2 F3 B0 F4 B1 F5 B2 B3 B4 B5",
                "F0 F1 F2 B0 F3 B1 F4 B2 F5 B3 B4 B5",
                "F0 F1 B0 F2 B1 F3 B2 F4 B3 F5 B4 B5",
                "F0 B0 F1 B1 F2 B2 F3 B3 F4 B4 F5 B5",
            ]
        ).actions
    )


def test_with_as_many_micro_batches_as_stages_or_fewer_rank_0_of_1f1b_is_gpipes() -> None:
    for p, m in SIZES:
        assert (one_f_one_b(p, m).actions[0] == gpipe(p, m).actions[0]) == (m <= p)


def bubble(timeline: Timeline) -> float:
    """Seconds in which the busiest rank does nothing, from its first action to the end of the step."""
    return timeline.duration - timeline.busiest


def bubble_of_a_step(timeline: Timeline) -> float:
    """The seconds that a step costs beyond its work, step after step: of a rank's own first to its own last action."""
    return timeline.longest_span - timeline.busiest


@given(sizes, seconds, seconds)
def test_naive_works_on_one_rank_at_a_time(size: tuple[int, int], forward: int, backward: int) -> None:
    p, m = size
    timeline = simulate(naive(p, m), Costs(forward, backward))
    assert timeline.duration == timeline.busy
    assert timeline.bubble_of_total == pytest.approx((p - 1) / p)
    assert naive(p, m).peak_live == (1,) * p


@given(sizes, seconds, seconds)
def test_the_bubble_of_gpipe_and_of_1f1b_is_p_minus_1_times_f_plus_b(
    size: tuple[int, int], forward: int, backward: int
) -> None:
    p, m = size
    for make in (gpipe, one_f_one_b):
        timeline = simulate(make(p, m), Costs(forward, backward))
        assert bubble(timeline) == bubble_of_a_step(timeline) == (p - 1) * (forward + backward)
        assert timeline.bubble_of_total == pytest.approx((p - 1) / (m + p - 1))
        assert timeline.bubble_over_ideal == pytest.approx((p - 1) / m)


def test_gpipe_holds_every_micro_batch_and_1f1b_those_on_their_way() -> None:
    for p, m in SIZES:
        assert gpipe(p, m).peak_live == (m,) * p
        assert one_f_one_b(p, m).peak_live == tuple(min(m, p - r) for r in range(p))


@given(sizes, seconds, seconds, st.integers(0, 60))
def test_the_bubble_of_zb_h1(size: tuple[int, int], f: int, i: int, w: int) -> None:
    """(p−1)(F+I−W) where W ≤ F and m ≥ p; a longer W does not fill more, nor do fewer micro-batches."""
    p, m = size
    got = bubble_of_a_step(simulate(zb_h1(p, m), Costs(f, input=i, weight=w)))
    if m >= p:
        assert got == (p - 1) * (f + i - min(w, f))
    elif w <= f:
        assert got == (p - 1) * (f + i) - (m - 1) * w


@given(sizes, seconds, seconds, st.integers(0, 60))
def test_the_bubble_of_zb_h2(size: tuple[int, int], f: int, i: int, w: int) -> None:
    """(p−1)(F+I−2W), if not negative, where W ≤ F (or I ≤ F) and m ≥ 2p−1; a longer W does not fill more."""
    p, m = size
    got = bubble_of_a_step(simulate(zb_h2(p, m), Costs(f, input=i, weight=w)))
    if m >= 2 * p - 1:
        assert got == (p - 1) * max(0, f + i - 2 * min(w, f))
        if w <= f or i <= f:
            assert got == (p - 1) * max(0, f + i - 2 * w)


@pytest.mark.parametrize("make", [zb_h1, zb_h2])
def test_whole_backwards_are_never_faster_than_split_ones(make: Make) -> None:
    for p, m in SIZES:
        split, whole = simulate(make(p, m)), simulate(one_f_one_b(p, m))
        assert split.longest_span <= whole.longest_span


@pytest.mark.parametrize(("make", "most", "late"), [(zb_h1, lambda p: p, 1), (zb_h2, lambda p: 2 * p - 1, 2)])
def test_zero_bubble_holds_the_same_on_every_rank_later_ranks_more_of_it_for_their_weights(
    make: Make, most: Callable[[int], int], late: int
) -> None:
    for p, m in SIZES:
        schedule = make(p, m)
        assert schedule.peak_held == (min(m, most(p)),) * p
        for rank, row in enumerate(schedule.actions):
            upto = [[a.kind for a in row[:n]] for n, a in enumerate(row, 1) if a.kind == "F"]
            waiting = max(done.count("I") - done.count("W") for done in upto)
            assert waiting == min(late * rank, max(0, m - most(p) + late * rank)), "during a forward"
            assert schedule.peak_backlog[rank] == min(m, late * rank + 1), "between an I and a W"


def test_a_split_schedule_does_i_and_w_and_the_others_b() -> None:
    for make in ALL:
        kinds = {a.kind for row in make(3, 4).actions for a in row}
        assert kinds == (set("FIW") if make in (zb_h1, zb_h2) else set("FB"))
