from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minipar.pipeline import Action, Costs, Schedule, ScheduleError, Timeline, gpipe, naive, parse, simulate

Make = Callable[[int, int], Schedule]
EVEN = Costs(forward=1, backward=1)


def staircase(timeline: Timeline) -> list[str]:
    """A timeline of whole seconds as the papers draw it: a row for each rank, a word for each second."""
    rows = [["."] * round(timeline.end) for _ in range(timeline.ranks)]
    for rank, action, start, end in timeline.spans:
        rows[rank][round(start) : round(end)] = [f"{action.kind}{action.micro_batch}"] * round(end - start)
    return [" ".join(f"{word:>2}" for word in row).strip() for row in rows]


def picture(text: str) -> list[str]:
    return [" ".join(f"{word:>2}" for word in row.split()).strip() for row in text.strip().splitlines()]


def test_gpipe_is_the_picture_of_its_paper() -> None:
    assert staircase(simulate(gpipe(4, 6), EVEN)) == picture("""
        F0 F1 F2 F3 F4 F5  .  .  .  .  .  . B0 B1 B2 B3 B4 B5
         . F0 F1 F2 F3 F4 F5  .  .  .  . B0 B1 B2 B3 B4 B5  .
         .  . F0 F1 F2 F3 F4 F5  .  . B0 B1 B2 B3 B4 B5  .  .
         .  .  . F0 F1 F2 F3 F4 F5 B0 B1 B2 B3 B4 B5  .  .  .
    """)


def test_naive_is_the_picture_of_its_paper() -> None:
    assert staircase(simulate(naive(4), EVEN)) == picture("""
        F0  .  .  .  .  .  . B0
         . F0  .  .  .  . B0  .
         .  . F0  .  . B0  .  .
         .  .  . F0 B0  .  .  .
    """)


def test_a_backward_takes_twice_a_forward_unless_told_otherwise() -> None:
    assert staircase(simulate(gpipe(2, 2))) == picture("""
        F0 F1  .  .  . B0 B0 B1 B1
         . F0 F1 B0 B0 B1 B1  .  .
    """)


def test_a_receiver_waits_for_a_message_and_a_sender_does_not() -> None:
    assert staircase(simulate(gpipe(2, 2), Costs(1, 1, send=2))) == picture("""
        F0 F1  .  .  .  .  .  . B0 B1
         .  .  . F0 F1 B0 B1  .  .  .
    """)


def one_f_one_b(p: int, m: int) -> Schedule:
    """Each rank has at most p - rank micro-batches under way, then a backward makes room for each forward."""

    def row(rank: int) -> str:
        warm = min(p - rank, m)
        steady = (f"B{i} F{i + warm}" for i in range(m - warm))
        return " ".join([f"F{i}" for i in range(warm)] + [*steady] + [f"B{i}" for i in range(m - warm, m)])

    return parse([row(rank) for rank in range(p)])


def all_sizes() -> Iterator[tuple[int, int]]:
    return ((p, m) for p in range(1, 9) for m in range(1, 13))


@pytest.mark.parametrize("schedule", [gpipe, one_f_one_b])
def test_the_bubble_of_gpipe_and_of_1f1b_is_the_published_one(schedule: Make) -> None:
    for p, m in all_sizes():
        timeline = simulate(schedule(p, m))
        assert timeline.bubble_of_total == pytest.approx((p - 1) / (m + p - 1))
        assert timeline.bubble_over_ideal == pytest.approx((p - 1) / m)


def test_the_naive_bubble_is_the_same_for_every_number_of_micro_batches() -> None:
    for p, m in all_sizes():
        timeline = simulate(naive(p, m))
        assert timeline.bubble_of_total == pytest.approx((p - 1) / p)
        assert timeline.bubble_over_ideal == pytest.approx(p - 1)


seconds = st.floats(0.001, 1000)


@given(st.integers(1, 8), st.integers(1, 12), seconds, seconds, st.floats(0, 1000))
def test_durations_with_sends_follow_from_the_longest_path(
    p: int, m: int, forward: float, backward: float, send: float
) -> None:
    costs = Costs(forward, backward, send)
    work, ways = forward + backward, 2 * (p - 1) * send
    assert simulate(gpipe(p, m), costs).duration == pytest.approx((m + p - 1) * work + ways)
    assert simulate(naive(p, m), costs).duration == pytest.approx(m * (p * work + ways))


@given(st.sampled_from([gpipe, naive, one_f_one_b]), st.integers(1, 8), st.integers(1, 12), seconds, seconds, seconds)
def test_every_action_takes_its_time_in_its_turn_after_what_it_needs(
    make: Make, p: int, m: int, forward: float, backward: float, send: float
) -> None:
    schedule = make(p, m)
    timeline = simulate(schedule, Costs(forward, backward, send))
    for rank, actions in enumerate(schedule.actions):
        spans = [span for span in timeline.spans if span.rank == rank]
        assert tuple(span.action for span in spans) == actions
        assert all(before.end <= after.start for before, after in pairwise(spans))
    ends = {span.action: span.end for span in timeline.spans}
    for _, action, start, end in timeline.spans:
        kind, stage, i = action
        assert end - start == pytest.approx(forward if kind == "F" else backward)
        before = stage - 1 if kind == "F" else stage + 1
        if 0 <= before < p:
            assert start >= ends[Action(kind, before, i)] + send
        assert kind == "F" or start >= ends[Action("F", stage, i)]
    assert timeline.busy == pytest.approx(p * m * (forward + backward))
    assert -1e-12 < timeline.bubble_of_total < 1


@given(st.integers(1, 4), st.integers(1, 4), st.sampled_from([Costs(0, 0), Costs(0, 1), Costs(1, 0), Costs(0, 0, 1)]))
def test_what_takes_no_time_leaves_shares_between_zero_and_one(p: int, m: int, costs: Costs) -> None:
    timeline = simulate(gpipe(p, m), costs)
    assert 0 <= timeline.bubble_of_total <= 1
    assert timeline.bubble_over_ideal >= 0


def test_stages_on_one_rank_hand_over_without_a_send() -> None:
    rows = (
        (Action("F", 0, 0), Action("F", 1, 0), Action("B", 1, 0), Action("B", 0, 0)),
        (Action("F", 2, 0), Action("B", 2, 0)),
    )
    timeline = simulate(Schedule("two and one", rows, holder=(0, 0, 1)), Costs(1, 1, send=5))
    assert [(span.start, span.end) for span in timeline.spans if span.rank == 1] == [(7, 8), (8, 9)]
    assert timeline.duration == 16


def test_a_schedule_that_never_finishes_is_refused() -> None:
    with pytest.raises(ScheduleError, match="rank 0 waits for B0 of stage 1 before B0 of stage 0"):
        simulate(parse(["F0 B0 F1 B1", "F0 F1 B0 B1"]))


def test_a_timeline_without_spans_is_all_zeros() -> None:
    empty = Timeline((), ranks=2)
    assert (empty.duration, empty.busy, empty.bubble_of_total, empty.bubble_over_ideal) == (0, 0, 0, 0)
