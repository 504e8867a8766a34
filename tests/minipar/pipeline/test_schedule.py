from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minipar.pipeline import Action, Schedule, ScheduleError, check, gpipe, naive, parse
from minipar.pipeline.schedule import feeds, in_order, needs

ONE_F_ONE_B = [
    "F0 F1 F2 F3 B0 F4 B1 F5 B2 B3 B4 B5",
    "F0 F1 F2 B0 F3 B1 F4 B2 F5 B3 B4 B5",
    "F0 F1 B0 F2 B1 F3 B2 F4 B3 F5 B4 B5",
    "F0 B0 F1 B1 F2 B2 F3 B3 F4 B4 F5 B5",
]


def test_a_row_for_each_rank_is_a_schedule() -> None:
    schedule = parse(["F0 F1  B0 B1", "F0 B0 F1 B1"], name="mine")
    F0, B0 = Action("F", 1, 0), Action("B", 1, 0)  # noqa: N806
    assert schedule.actions[1] == (F0, B0, Action("F", 1, 1), Action("B", 1, 1))
    assert (schedule.name, schedule.ranks, schedule.stages, schedule.micro_batches) == ("mine", 2, 2, 2)
    assert schedule.holder == (0, 1)


def test_gpipe_is_its_staircase() -> None:
    rows = ["F0 F1 F2 F3 F4 F5 B0 B1 B2 B3 B4 B5"] * 4
    assert gpipe(4, 6).actions == parse(rows).actions


def test_naive_is_its_staircase() -> None:
    assert naive(3, 2).actions == parse(["F0 B0 F1 B1"] * 3).actions
    assert naive(4).actions == parse(["F0 B0"] * 4).actions


@pytest.mark.parametrize("stages", range(1, 9))
def test_published_schedules_pass_for_every_number_of_micro_batches(stages: int) -> None:
    for micro_batches in range(1, 25):
        for schedule in (gpipe(stages, micro_batches), naive(stages, micro_batches)):
            assert check(schedule) is schedule
            assert (schedule.stages, schedule.micro_batches) == (stages, micro_batches)


def test_a_learners_1f1b_passes() -> None:
    assert check(parse(ONE_F_ONE_B)).micro_batches == 6


def test_live_micro_batches_are_those_between_their_forward_and_backward() -> None:
    assert gpipe(4, 6).peak_live == (6, 6, 6, 6)
    assert naive(4, 6).peak_live == (1, 1, 1, 1)
    assert parse(ONE_F_ONE_B).peak_live == (4, 3, 2, 1)


@pytest.mark.parametrize("word", ["F", "B", "0", "X0", "f0", "F-1", "F1.5", "F0,", "FB", "W0", "F²", "F٣", "FF0"])
def test_a_word_that_is_no_action_is_named_with_its_rank(word: str) -> None:
    with pytest.raises(ScheduleError) as error:
        parse(["F0 B0", f"F0 {word} B0"])
    assert f"rank 1: {word!r} is not an action" in str(error.value)


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([], "does nothing"),
        (["", ""], "does nothing"),
        (["F0 B0", ""], "F0 of stage 1 is missing on rank 1 (2 missing in all)"),
        (["F0 F1 B0 B1", "F0 B0 F1"], "B1 of stage 1 is missing on rank 1 (1 missing in all)"),
        (["F0 B0 F2 B2"], "F1 of stage 0 is missing on rank 0 (2 missing in all)"),
        (["F0 B0", "F0 B0 B0"], "rank 1 does B0 of stage 1 2 times"),
        (["F0 B0 F987654321"], "F1 of stage 0 is missing on rank 0 (1975308641 missing in all)"),
    ],
)
def test_an_incomplete_schedule_is_refused_by_the_name_of_an_action(rows: list[str], message: str) -> None:
    with pytest.raises(ScheduleError) as error:
        check(parse(rows))
    assert message in str(error.value)


def test_work_on_another_ranks_stage_is_refused() -> None:
    swapped = Schedule("swapped", gpipe(2, 1).actions, holder=(1, 0))
    with pytest.raises(ScheduleError, match="rank 0 does F0 of stage 0, but rank 1 holds that stage"):
        check(swapped)


def test_a_stage_that_is_not_there_is_refused() -> None:
    with pytest.raises(ScheduleError, match="rank 0 does F0 of stage 2, but there are 1 stages"):
        check(Schedule("beyond", ((Action("F", 2, 0),),), holder=(0,)))


def test_a_backward_before_its_forward_never_finishes() -> None:
    with pytest.raises(ScheduleError, match="never finishes: rank 0 waits for F0 of stage 0 before B0 of stage 0"):
        check(parse(["B0 F0"]))


def test_a_deadlock_names_what_each_rank_waits_for() -> None:
    with pytest.raises(ScheduleError) as error:
        check(parse(["F0 B0 F1 B1", "F0 F1 B0 B1"]))
    assert "rank 0 waits for B0 of stage 1 before B0 of stage 0" in str(error.value)
    assert "rank 1 waits for F1 of stage 0 before F1 of stage 1" in str(error.value)


def test_two_ranks_that_wait_for_one_action_are_both_named() -> None:
    with pytest.raises(ScheduleError) as error:
        check(parse(["B0 F0", "F0 B0"]))
    assert "rank 0 waits for F0 of stage 0 before B0 of stage 0" in str(error.value)
    assert "rank 1 waits for F0 of stage 0 before F0 of stage 1" in str(error.value)


@pytest.mark.parametrize("wrong", [0, -1, 2.5, "2", None])
def test_counts_are_whole_numbers_of_at_least_one(wrong: object) -> None:
    for make in (gpipe, naive):
        with pytest.raises(ValueError, match="micro_batches="):
            make(2, wrong)
        with pytest.raises(ValueError, match="stages="):
            make(wrong, 2)


sizes = st.tuples(st.integers(1, 4), st.integers(1, 4))


def every_action(stage: int, micro_batches: int) -> list[Action]:
    return [Action(kind, stage, i) for kind in ("F", "B") for i in range(micro_batches)]


def runs(schedule: Schedule) -> bool:
    """Whether it finishes when, again and again, any rank that can goes on: tried out, without `in_order`."""
    done: set[Action] = set()
    left = [list(actions) for actions in schedule.actions]
    last = schedule.stages - 1
    moved = True
    while moved:
        moved = False
        for actions in left:
            if not actions:
                continue
            kind, stage, i = actions[0]
            if kind == "F":
                ready = stage == 0 or Action("F", stage - 1, i) in done
            else:
                ready = Action("F", stage, i) in done and (stage == last or Action("B", stage + 1, i) in done)
            if ready:
                done.add(actions.pop(0))
                moved = True
    return not any(left)


@given(sizes, st.data())
def test_any_order_either_passes_or_is_refused_and_never_hangs(size: tuple[int, int], data: st.DataObject) -> None:
    p, m = size
    rows = [data.draw(st.permutations(every_action(stage, m))) for stage in range(p)]
    schedule = Schedule("shuffled", tuple(map(tuple, rows)), tuple(range(p)))
    if runs(schedule):
        assert check(schedule) is schedule
    else:
        with pytest.raises(ScheduleError, match="never finishes"):
            check(schedule)


@st.composite
def valid(draw: st.DrawFn) -> Schedule:
    """A schedule that was played through while it was drawn, on ranks that may hold several stages."""
    p, m = draw(sizes)
    ranks = draw(st.integers(1, p))
    holder = tuple(draw(st.permutations([stage % ranks for stage in range(p)])))
    rows: list[list[Action]] = [[] for _ in range(ranks)]
    left, done = {a for stage in range(p) for a in every_action(stage, m)}, set()
    while left:
        ready = [a for a in sorted(left) if needs(a, p) in done | {None} and (a[0] == "F" or ("F", *a[1:]) in done)]
        action = draw(st.sampled_from(ready))
        rows[holder[action.stage]].append(action)
        left.remove(action)
        done.add(action)
    return Schedule("drawn", tuple(map(tuple, rows)), holder)


@given(valid())
def test_what_can_be_played_through_passes(schedule: Schedule) -> None:
    assert check(schedule) is schedule


@given(valid())
def test_the_order_keeps_what_every_rank_does_and_every_need(schedule: Schedule) -> None:
    order = list(in_order(schedule))
    for rank, actions in enumerate(schedule.actions):
        assert tuple(action for r, action in order if r == rank) == actions
    at = {action: i for i, (_, action) in enumerate(order)}
    for action in at:
        need = needs(action, schedule.stages)
        assert need is None or at[need] < at[action]
        assert action.kind == "F" or at[Action("F", *action[1:])] < at[action]


@given(valid(), st.data())
def test_one_action_dropped_or_done_twice_is_refused(schedule: Schedule, data: st.DataObject) -> None:
    rank = data.draw(st.sampled_from([r for r, actions in enumerate(schedule.actions) if actions]))
    actions = list(schedule.actions[rank])
    at = data.draw(st.integers(0, len(actions) - 1))
    changed = actions[:at] + data.draw(st.sampled_from([[], [actions[at]] * 2])) + actions[at + 1 :]
    rows = (*schedule.actions[:rank], tuple(changed), *schedule.actions[rank + 1 :])
    with pytest.raises(ScheduleError):
        check(Schedule("broken", rows, schedule.holder))


@given(sizes)
def test_what_feeds_an_action_on_another_stage_is_what_it_needs(size: tuple[int, int]) -> None:
    p, m = size
    actions = [a for stage in range(p) for a in every_action(stage, m)]
    links = Counter((a, feeds(a, p)) for a in actions if feeds(a, p))
    assert links == Counter((needs(a, p), a) for a in actions if needs(a, p) and needs(a, p).stage != a.stage)
