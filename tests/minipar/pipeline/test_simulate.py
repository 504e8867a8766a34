from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from time import process_time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minipar.pipeline import Action, Costs, Schedule, ScheduleError, gpipe, naive, one_f_one_b, parse, simulate
from tests.minipar.pipeline.pictures import staircase
from tests.minipar.pipeline.test_schedule import valid

Make = Callable[[int, int], Schedule]
EVEN = Costs(forward=1, backward=1)
SPLIT = ["F0 F1 I0 W0 I1 W1", "F0 I0 F1 I1 W0 W1"]


def picture(text: str) -> list[str]:
    return [" ".join(f"{word:>2}" for word in row.split()) for row in text.strip().splitlines()]


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


def test_each_half_of_a_backward_takes_as_long_as_a_forward_unless_told_otherwise() -> None:
    assert staircase(simulate(parse(SPLIT))) == picture("""
        F0 F1  . I0 W0 I1 W1
         . F0 I0 F1 I1 W0 W1
    """)


def test_only_an_i_keeps_the_stage_before_waiting() -> None:
    assert staircase(simulate(parse(SPLIT), Costs(1, input=1, weight=3))) == picture("""
        F0 F1  . I0 W0 W0 W0 I1 W1 W1 W1
         . F0 I0 F1 I1 W0 W0 W0 W1 W1 W1
    """)
    assert staircase(simulate(parse(SPLIT), Costs(1, input=2, weight=1))) == picture("""
        F0 F1  .  . I0 I0 W0 I1 I1 W1
         . F0 I0 I0 F1 I1 I1 W0 W1  .
    """)


def test_a_receiver_waits_for_a_message_and_a_sender_does_not() -> None:
    assert staircase(simulate(gpipe(2, 2), Costs(1, 1, send=2))) == picture("""
        F0 F1  .  .  .  .  .  . B0 B1
         .  .  . F0 F1 B0 B1  .  .  .
    """)


def test_links_can_differ() -> None:
    slow_back = Costs(1, 1, send=lambda source, to: 3 if source > to else 1)
    assert staircase(simulate(gpipe(2, 2), slow_back)) == picture("""
        F0 F1  .  .  .  .  .  . B0 B1
         .  . F0 F1 B0 B1  .  .  .  .
    """)


def test_stages_can_differ() -> None:
    assert staircase(simulate(gpipe(2, 2), Costs([2, 1], [1, 3]))) == picture("""
        F0 F0 F1 F1  .  .  .  . B0  .  . B1
         .  . F0  . F1 B0 B0 B0 B1 B1 B1  .
    """)


def test_a_cost_can_be_a_function_of_the_action() -> None:
    slow_first = Costs(forward=lambda action: 3 if action.micro_batch == 0 else 1, backward=1)
    assert staircase(simulate(gpipe(2, 2), slow_first)) == picture("""
        F0 F0 F0 F1  .  .  .  . B0 B1
         .  .  . F0 F0 F0 F1 B0 B1  .
    """)


def test_stages_on_one_rank_hand_over_without_a_send() -> None:
    schedule = parse(["F0@0 F0@1 B0@1 B0@0", "F0@2 B0@2"])
    timeline = simulate(schedule, Costs(1, 1, send=5))
    assert [(span.start, span.end) for span in timeline.rows[1]] == [(7, 8), (8, 9)]
    assert timeline.duration == 16


F, B, I, W = (Action(kind, 1, 0) for kind in "FBIW")  # type: ignore[arg-type] # noqa: E741


@pytest.mark.parametrize(
    ("costs", "seconds"),
    [
        (Costs(), (1, 2, 1, 1)),
        (Costs(3), (3, 2, 1, 1)),
        (Costs(backward=4), (1, 4, 2, 2)),
        (Costs(input=3), (1, 4, 3, 1)),
        (Costs(weight=3), (1, 4, 1, 3)),
        (Costs(input=2, weight=3), (1, 5, 2, 3)),
        (Costs(backward=4, input=1), (1, 4, 1, 2)),  # what is given counts: 4 need not be 1 + 2
        (Costs(backward=[2, 6]), (1, 6, 3, 3)),
        (Costs(input=[1, 2], weight=5), (1, 7, 2, 5)),
        (Costs(input=[1, 2], weight=(3, 4)), (1, 6, 2, 4)),
        (Costs(input=[1, 2], weight=lambda a: 10 * a.stage), (1, 12, 2, 10)),
        (Costs(backward=lambda a: 8 * a.stage), (1, 8, 4, 4)),
    ],
)
def test_what_is_left_out_follows_from_the_rest(costs: Costs, seconds: tuple[float, ...]) -> None:
    assert tuple(map(costs.of, (F, B, I, W))) == seconds
    assert tuple(map(costs.times(3).of, (F, B, I, W))) == tuple(3 * s for s in seconds)


def test_larger_micro_batches_do_not_make_messages_slower() -> None:
    assert Costs(send=5).times(3).between(0, 1) == 5
    assert Costs(send=lambda a, b: a - b).times(3).between(2, 1) == 1


@pytest.mark.parametrize("name", ["forward", "backward", "input", "weight"])
def test_costs_that_do_not_fit_are_refused_by_their_name(name: str) -> None:
    with pytest.raises(ValueError, match=f"{name} has 3 costs, but there are 2 stages"):
        simulate(gpipe(2, 1), Costs(**{name: [1, 2, 3]}))
    for wrong in (-1, float("nan"), float("inf"), [1, -1], [1, float("nan")]):
        with pytest.raises(ValueError, match=f"{name}=.*a cost is a number of seconds, at least 0"):
            simulate(gpipe(2, 1), Costs(**{name: wrong}))  # type: ignore[arg-type]


def test_a_message_takes_no_negative_time() -> None:
    with pytest.raises(ValueError, match="send=-1; a cost is a number of seconds, at least 0"):
        simulate(gpipe(2, 1), Costs(send=-1))


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
    for row, actions in zip(timeline.rows, schedule.actions, strict=True):
        assert tuple(span.action for span in row) == actions
        assert all(before.end <= after.start for before, after in pairwise(row))
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


def earliest(schedule: Schedule, costs: Costs) -> dict[Action, tuple[int, int]]:
    """When every action starts and ends: put off again and again by what it waits for, until nothing moves."""
    times = {a: (0, costs.of(a)) for row in schedule.actions for a in row}

    def ready(action: Action) -> float:
        kind, stage, i = action
        here = schedule.holder[stage]
        ends = [0.0]
        sources = [(kind, stage - 1)] if kind == "F" else [("I", stage)] if kind == "W" else [("F", stage)]
        sources += [(k, stage + 1) for k in ("B", "I")] if kind in ("B", "I") else []
        for name, at in sources:
            made = times.get(Action(name, at, i))  # type: ignore[arg-type]
            if made is not None:
                there = schedule.holder[at]
                ends.append(made[1] + (0 if there == here else costs.between(there, here)))
        return max(ends)

    while True:
        before = dict(times)
        for row in schedule.actions:
            free = 0.0
            for action in row:
                start = max(free, ready(action))
                free = start + costs.of(action)
                times[action] = (start, free)  # type: ignore[assignment]
        if times == before:
            return times  # type: ignore[return-value]


@given(valid(), st.lists(st.integers(0, 9), min_size=4, max_size=4), st.integers(0, 9), st.integers(0, 3))
def test_every_action_starts_as_soon_as_it_can(schedule: Schedule, of: list[int], send: int, uneven: int) -> None:
    by_kind = [[seconds + uneven * stage for stage in range(schedule.stages)] for seconds in of]
    costs = Costs(by_kind[0], by_kind[1], lambda source, to: send * (1 + source) + to, by_kind[2], by_kind[3])
    spans = simulate(schedule, costs).spans
    assert {span.action: (span.start, span.end) for span in spans} == earliest(schedule, costs)
    assert all(span.rank == schedule.holder[span.action.stage] for span in spans)


@given(valid(), st.integers(0, 9))
def test_a_cost_given_as_number_list_or_function_gives_the_same_timeline(schedule: Schedule, w: int) -> None:
    number = simulate(schedule, Costs(2, input=3, weight=w))
    listed = simulate(schedule, Costs([2] * schedule.stages, input=[3] * schedule.stages, weight=w))
    called = simulate(schedule, Costs(lambda _: 2, input=lambda _: 3, weight=lambda _: w, send=lambda *_: 0))
    assert number.spans == listed.spans == called.spans


@given(st.integers(1, 4), st.integers(1, 4), st.sampled_from([Costs(0, 0), Costs(0, 1), Costs(1, 0), Costs(0, 0, 1)]))
def test_what_takes_no_time_leaves_shares_between_zero_and_one(p: int, m: int, costs: Costs) -> None:
    timeline = simulate(gpipe(p, m), costs)
    assert 0 <= timeline.bubble_of_total <= 1
    assert timeline.bubble_over_ideal >= 0


def test_a_schedule_that_never_finishes_is_refused() -> None:
    with pytest.raises(ScheduleError, match="rank 0 waits for B0 of stage 1 before B0 of stage 0"):
        simulate(parse(["F0 B0 F1 B1", "F0 F1 B0 B1"]))


def test_a_hundred_thousand_actions_are_simulated_in_seconds() -> None:
    schedule = one_f_one_b(50, 1000)
    start = process_time()
    spans = simulate(schedule, Costs(send=0.1)).spans
    took = process_time() - start
    print(f"{len(spans)} actions simulated in {took:.2f} s")
    assert len(spans) == 100_000
    assert took < 5
