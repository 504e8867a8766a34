from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minipar.pipeline import Action, Schedule, ScheduleError, by_name, check, gpipe, naive, parse
from minipar.pipeline.names import NAMES
from minipar.pipeline.schedule import Result, feeds, in_order, makes, needs

ONE_F_ONE_B = [
    "F0 F1 F2 F3 B0 F4 B1 F5 B2 B3 B4 B5",
    "F0 F1 F2 B0 F3 B1 F4 B2 F5 B3 B4 B5",
    "F0 F1 B0 F2 B1 F3 B2 F4 B3 F5 B4 B5",
    "F0 B0 F1 B1 F2 B2 F3 B3 F4 B4 F5 B5",
]
WEIGHTS_LATE = ["F0 F1 I0 I1 W0 W1", "F0 I0 F1 I1 W0 W1"]
THERE_AND_BACK = ["F0 F0@3 B0@3 B0", "F0 F0@2 B0@2 B0"]


def refused(rows: list[str], memory_limit: float | None = None) -> str:
    """Why `check` refuses these rows."""
    with pytest.raises(ScheduleError) as error:
        check(parse(rows), memory_limit)
    return str(error.value)


def test_a_row_for_each_rank_is_a_schedule() -> None:
    schedule = parse(["F0 F1  B0 B1", "F0 B0 F1 B1"], name="mine")
    F0, B0 = Action("F", 1, 0), Action("B", 1, 0)  # noqa: N806
    assert schedule.actions[1] == (F0, B0, Action("F", 1, 1), Action("B", 1, 1))
    assert (schedule.name, schedule.ranks, schedule.stages, schedule.micro_batches) == ("mine", 2, 2, 2)
    assert (schedule.holder, schedule.virtual) == ((0, 1), 1)


def test_a_word_can_name_its_stage() -> None:
    schedule = check(parse(THERE_AND_BACK))
    assert schedule.actions[0] == (Action("F", 0, 0), Action("F", 3, 0), Action("B", 3, 0), Action("B", 0, 0))
    assert (schedule.ranks, schedule.stages, schedule.virtual) == (2, 4, 2)
    assert schedule.holder == (0, 1, 1, 0)


def test_a_stage_is_held_by_the_rank_that_first_names_it() -> None:
    assert parse(["F0@1 B0@1", "F0@0 B0@0"]).holder == (1, 0)
    assert check(parse(["F0@1 B0@1", "F0@0 B0@0"])).ranks == 2
    assert "rank 1 does F0 of stage 0, but rank 0 holds that stage" in refused(["F0 B0", "F0@0 F0 B0"])


def test_a_stage_for_which_nobody_does_anything_is_named() -> None:
    with pytest.raises(ScheduleError, match="has stage 2, but nobody does anything for stage 1"):
        parse(["F0 F0@2 B0@2 B0"])
    with pytest.raises(ScheduleError, match="has stage 999999999, but nobody does anything for stage 1"):
        parse(["F0 F0@999999999 B0"])


def test_gpipe_is_its_staircase() -> None:
    rows = ["F0 F1 F2 F3 F4 F5 B0 B1 B2 B3 B4 B5"] * 4
    assert gpipe(4, 6).actions == parse(rows).actions


def test_naive_is_its_staircase() -> None:
    assert naive(3, 2).actions == parse(["F0 B0 F1 B1"] * 3).actions
    assert naive(4).actions == parse(["F0 B0"] * 4).actions


def test_a_learners_1f1b_passes() -> None:
    assert check(parse(ONE_F_ONE_B)).micro_batches == 6


def test_a_backward_can_be_split() -> None:
    assert check(parse(WEIGHTS_LATE)).micro_batches == 2


@pytest.mark.parametrize(
    "rows",
    [
        ["F0 B0", "F0 I0 W0"],  # whole on one stage, split on another
        ["F0 I0 W0", "F0 B0"],
        ["F0 B0 F1 I1 W1", "F0 I0 W0 F1 B1"],  # and by micro-batch
        ["F0 F1 B0 I1 W1"],
    ],
)
def test_whole_and_split_backwards_mix_in_one_schedule(rows: list[str]) -> None:
    assert check(parse(rows))


def test_live_micro_batches_are_those_between_their_forward_and_backward() -> None:
    assert gpipe(4, 6).peak_live == (6, 6, 6, 6)
    assert naive(4, 6).peak_live == (1, 1, 1, 1)
    assert parse(ONE_F_ONE_B).peak_live == (4, 3, 2, 1)
    assert parse(THERE_AND_BACK).peak_live == (2, 2)


def test_a_split_backward_is_live_until_its_i_and_then_waits_for_its_w() -> None:
    late = parse(["F0 F1 I0 I1 W0 W1", "F0 I0 F1 I1 W0 W1"])
    assert (late.peak_live, late.peak_backlog, late.peak_held) == ((2, 1), (2, 2), (2, 2))
    soon = parse(["F0 F1 I0 W0 I1 W1", "F0 I0 W0 F1 I1 W1"])
    assert (soon.peak_live, soon.peak_backlog, soon.peak_held) == ((2, 1), (1, 1), (2, 1))
    assert parse(ONE_F_ONE_B).peak_backlog == (0, 0, 0, 0)


WRONG_WORDS = ["F", "B", "0", "X0", "f0", "F-1", "F1.5", "F0,", "FB", "w0", "F²", "F٣", "FF0"]
WRONG_STAGES = ["F0@", "@1", "F@1", "F0@-1", "F0@1.5", "F0@x", "F0@1@2", "F0@²", "I0W0"]


@pytest.mark.parametrize("word", WRONG_WORDS + WRONG_STAGES)
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
        (["F0 I0"], "W0 of stage 0 is missing on rank 0 (1 missing in all)"),
        (["F0 W0"], "I0 of stage 0 is missing on rank 0 (1 missing in all)"),
        (["F0 I0 W0", "I0 W0"], "F0 of stage 1 is missing on rank 1 (1 missing in all)"),
        (["F0 I0 W0 F1 I1 W1", "F0 B0 I1 W1"], "F1 of stage 1 is missing on rank 1 (1 missing in all)"),
        (["F0 I0 W0 W0"], "rank 0 does W0 of stage 0 2 times"),
        (["F0 F0@2 B0", "F0 B0", ""], "B0 of stage 2 is missing on rank 0 (1 missing in all)"),
    ],
)
def test_an_incomplete_schedule_is_refused_by_the_name_of_an_action(rows: list[str], message: str) -> None:
    assert message in refused(rows)


@pytest.mark.parametrize("backward", ["B0 I0", "I0 B0", "B0 W0", "B0 I0 W0", "I0 W0 B0", "I0 B0 W0"])
def test_a_backward_that_is_both_whole_and_split_is_refused(backward: str) -> None:
    assert refused(["F0 B0", f"F0 {backward}"]) == (
        "rank 1 does B0 of stage 1, and an I or W of it too: a backward is whole or split"
    )


def test_work_on_another_ranks_stage_is_refused() -> None:
    swapped = Schedule("swapped", gpipe(2, 1).actions, holder=(1, 0))
    with pytest.raises(ScheduleError, match="rank 0 does F0 of stage 0, but rank 1 holds that stage"):
        check(swapped)


@pytest.mark.parametrize("action", [Action("F", 2, 0), Action("F", -1, 0), Action("F", 0, -1), Action("X", 0, 0)])  # type: ignore[arg-type]
def test_an_action_that_cannot_be_is_refused(action: Action) -> None:
    beyond = Schedule("beyond", ((Action("F", 0, 0), Action("B", 0, 0), action),), holder=(0,))
    with pytest.raises(ScheduleError) as error:
        check(beyond)
    assert f"rank 0 does {action}, but there are 1 stages and 1 micro-batches" in str(error.value)


def test_a_backward_before_its_forward_never_finishes() -> None:
    assert "never finishes: rank 0 waits for F0 of stage 0 before B0 of stage 0" in refused(["B0 F0"])


def test_a_w_before_its_i_never_finishes() -> None:
    assert "never finishes: rank 0 waits for I0 of stage 0 before W0 of stage 0" in refused(["F0 W0 I0"])


def test_a_deadlock_names_what_each_rank_waits_for() -> None:
    message = refused(["F0 B0 F1 B1", "F0 F1 B0 B1"])
    assert "rank 0 waits for B0 of stage 1 before B0 of stage 0" in message
    assert "rank 1 waits for F1 of stage 0 before F1 of stage 1" in message


def test_a_deadlock_names_the_i_that_a_b_waits_for() -> None:
    message = refused(["F0 B0 F1 B1", "F0 F1 I0 W0 B1"])
    assert "rank 0 waits for I0 of stage 1 before B0 of stage 0" in message


def test_two_ranks_that_wait_for_one_action_are_both_named() -> None:
    message = refused(["F0 B0", "F0 W0 I0"])
    assert "rank 0 waits for I0 of stage 1 before B0 of stage 0" in message
    assert "rank 1 waits for I0 of stage 1 before W0 of stage 1" in message


def test_of_two_things_that_are_missing_the_one_from_the_other_rank_is_named() -> None:
    assert "rank 0 waits for B0 of stage 1 before B0 of stage 0" in refused(["B0 F0", "F0 B0"])


def drawn(message: str) -> str:
    """The picture in the error of a schedule that never finishes."""
    return message.partition("It stops at the bars:\n")[2]


def test_the_error_draws_where_each_rank_stops() -> None:
    assert drawn(refused(["F0 B0 F1 B1", "F0 F1 B0 B1", "F0 F1 B0 B1"])) == (
        "  rank 0  F0 | B0 F1 B1\n"  # what is done, a bar, what is left
        "  rank 1  F0 | F1 B0 B1\n"
        "  rank 2  F0 | F1 B0 B1"
    )


def test_a_rank_that_is_done_is_drawn_without_a_bar() -> None:
    assert drawn(refused(["F0 W0 I0", "F0 B0"])) == (
        "  rank 0  F0 | W0 I0\n"  #
        "  rank 1  F0 B0"
    )


def test_stages_are_drawn_where_a_rank_holds_several() -> None:
    assert drawn(refused(["F0 F0@3 B0 B0@3", "F0 F0@2 B0@2 B0"])) == (
        "  rank 0  F0@0 F0@3 | B0@0 B0@3\n"  #
        "  rank 1  F0@1 F0@2 | B0@2 B0@1"
    )
    assert drawn(refused(["F0 F0@1 B0 B0@1"])) == "  rank 0  F0@0 F0@1 | B0@0 B0@1"


def test_of_long_rows_the_picture_shows_eight_on_each_side_of_the_bar() -> None:
    forwards, backwards = " ".join(f"F{i}" for i in range(10)), " ".join(f"B{i}" for i in range(10))
    assert drawn(refused([f"{forwards} {backwards}", f"{forwards} W0 I0 {backwards[3:]}"])) == (
        "  rank 0  … F2 F3 F4 F5 F6 F7 F8 F9 | B0 B1 B2 B3 B4 B5 B6 B7 …\n"
        "  rank 1  … F2 F3 F4 F5 F6 F7 F8 F9 | W0 I0 B1 B2 B3 B4 B5 B6 …"
    )


@pytest.mark.parametrize(
    ("rows", "limit", "message"),
    [
        (["F0 F1 B0 B1"], 1, "rank 0 would hold 2 live micro-batches at F1 of stage 0; its room is for 1"),
        (["F0 F1 I0 I1 W0 W1"], 1.5, "rank 0 would hold 2 live micro-batches at F1 of stage 0; its room is for 1.5"),
        (ONE_F_ONE_B, 3, "rank 0 would hold 4 live micro-batches at F3 of stage 0; its room is for 3"),
        (
            ["F0 B0 F1 B1", "F0 I0 F1 I1 W0 W1"],
            1,
            "rank 1 would hold 1 live micro-batches, and 1 waiting for W that take 0.5 each at F1 of stage 1; "
            "its room is for 1",
        ),
        (
            ["F0 F0@3 F1 F1@3 B0@3 B0 B1@3 B1", "F0 F0@2 F1 F1@2 B0@2 B0 B1@2 B1"],
            1,
            "rank 0 would hold 3 live micro-batches of one of its 2 stages each at F1 of stage 0; its room is for 2",
        ),
    ],
)
def test_a_schedule_beyond_its_memory_is_refused_by_the_action(rows: list[str], limit: float, message: str) -> None:
    assert message in refused(rows, limit)
    assert check(parse(rows)), "without a limit it passes"


def test_the_smallest_room_that_a_schedule_passes_in_is_its_peak() -> None:
    for schedule in (gpipe(3, 5), naive(3, 5), parse(ONE_F_ONE_B), parse(WEIGHTS_LATE), parse(THERE_AND_BACK)):
        for kept, peak in ((0, max(schedule.peak_live)), (1, max(schedule.peak_held))):
            room = peak / schedule.virtual
            assert check(schedule, room, kept) is schedule
            with pytest.raises(ScheduleError, match=f"its room is for {peak - 0.25 * schedule.virtual:g}"):
                check(schedule, room - 0.25, kept)


def test_what_can_never_run_is_said_before_what_does_not_fit() -> None:
    assert "never finishes" in refused(["F0 F1 W0 I0 I1 W1"], memory_limit=1)


sizes = st.tuples(st.integers(1, 4), st.integers(1, 3))


def every_action(stage: int, micro_batches: int) -> list[Action]:
    return [Action(kind, stage, i) for kind in ("F", "B") for i in range(micro_batches)]


@st.composite
def sets(draw: st.DrawFn, sizes: st.SearchStrategy[tuple[int, int]] = sizes) -> tuple[tuple[int, ...], list[Action]]:
    """Which rank holds each stage, and everything that is to do, each backward whole or split."""
    p, m = draw(sizes)
    ranks = draw(st.integers(1, p))
    holder = tuple(draw(st.permutations([stage % ranks for stage in range(p)])))
    split = draw(st.sets(st.tuples(st.integers(0, p - 1), st.integers(0, m - 1))))
    kinds = {at: "FIW" if at in split else "FB" for at in ((s, i) for s in range(p) for i in range(m))}
    return holder, [Action(kind, *at) for at, word in kinds.items() for kind in word]  # type: ignore[arg-type]


def rows_of(holder: tuple[int, ...], order: list[Action]) -> tuple[tuple[Action, ...], ...]:
    return tuple(tuple(a for a in order if holder[a.stage] == rank) for rank in range(max(holder) + 1))


def can_go(action: Action, done: set[Action], stages: int) -> bool:
    """Whether all that `action` needs is done: written out, without `needs`."""
    kind, stage, i = action
    if kind == "F":
        return stage == 0 or Action("F", stage - 1, i) in done
    if kind == "W":
        return Action("I", stage, i) in done
    after = {Action("B", stage + 1, i), Action("I", stage + 1, i)}
    return Action("F", stage, i) in done and (stage == stages - 1 or bool(after & done))


def runs(schedule: Schedule) -> bool:
    """Whether it finishes when, again and again, any rank that can goes on: tried out, without `in_order`."""
    done: set[Action] = set()
    left = [list(actions) for actions in schedule.actions]
    moved = True
    while moved:
        moved = False
        for actions in left:
            if actions and can_go(actions[0], done, schedule.stages):
                done.add(actions.pop(0))
                moved = True
    return not any(left)


def same_verdict(schedule: Schedule) -> None:
    if runs(schedule):
        assert check(schedule) is schedule
    else:
        with pytest.raises(ScheduleError, match="never finishes"):
            check(schedule)


@given(st.data(), sets(st.tuples(st.integers(1, 3), st.integers(1, 2))))
def test_any_order_either_passes_or_is_refused_and_never_hangs(
    data: st.DataObject, todo: tuple[tuple[int, ...], list[Action]]
) -> None:
    holder, actions = todo
    same_verdict(Schedule("shuffled", rows_of(holder, data.draw(st.permutations(actions))), holder))


@st.composite
def valid(draw: st.DrawFn) -> Schedule:
    """A schedule that was played through while it was drawn, on ranks that may hold several stages."""
    holder, left = draw(sets())
    order: list[Action] = []
    while left:
        ready = [a for a in left if can_go(a, set(order), len(holder))]
        order.append(draw(st.sampled_from(ready)))
        left.remove(order[-1])
    return Schedule("drawn", rows_of(holder, order), holder)


@given(valid())
def test_what_can_be_played_through_passes(schedule: Schedule) -> None:
    assert runs(schedule)
    assert check(schedule) is schedule


@given(valid(), st.data())
def test_with_two_actions_of_a_rank_swapped_it_passes_or_is_refused(schedule: Schedule, data: st.DataObject) -> None:
    rows = [list(actions) for actions in schedule.actions]
    row = data.draw(st.sampled_from(rows))
    a, b = (data.draw(st.integers(0, len(row) - 1)) for _ in range(2))
    row[a], row[b] = row[b], row[a]
    same_verdict(Schedule("swapped", tuple(map(tuple, rows)), schedule.holder))


@given(valid())
def test_the_order_keeps_what_every_rank_does_and_every_need(schedule: Schedule) -> None:
    order = list(in_order(schedule))
    for rank, actions in enumerate(schedule.actions):
        assert tuple(action for r, action, _ in order if r == rank) == actions
    done: set[Action] = set()
    for _, action, wanted in order:
        assert wanted == needs(action, schedule.stages)
        assert can_go(action, done, schedule.stages)
        done.add(action)


@given(valid(), st.data())
def test_one_action_dropped_or_done_twice_is_refused(schedule: Schedule, data: st.DataObject) -> None:
    rank = data.draw(st.sampled_from(range(schedule.ranks)))
    actions = list(schedule.actions[rank])
    at = data.draw(st.integers(0, len(actions) - 1))
    changed = actions[:at] + data.draw(st.sampled_from([[], [actions[at]] * 2])) + actions[at + 1 :]
    rows = (*schedule.actions[:rank], tuple(changed), *schedule.actions[rank + 1 :])
    with pytest.raises(ScheduleError):
        check(Schedule("broken", rows, schedule.holder))


@given(valid())
def test_the_peaks_are_those_of_counting_after_every_action(schedule: Schedule) -> None:
    for rank, actions in enumerate(schedule.actions):
        upto = [Counter(a.kind for a in actions[:n]) for n in range(len(actions) + 1)]
        assert schedule.peak_live[rank] == max(done["F"] - done["B"] - done["I"] for done in upto)
        assert schedule.peak_held[rank] == max(done["F"] - done["B"] - done["W"] for done in upto)
        assert schedule.peak_backlog[rank] == max(done["I"] - done["W"] for done in upto)


def test_what_an_action_needs_is_listed_with_its_neighbours_first() -> None:
    assert needs(Action("F", 0, 5), 3) == ()
    assert needs(Action("F", 1, 5), 3) == (("F", 0, 5),)
    assert needs(Action("B", 1, 5), 3) == needs(Action("I", 1, 5), 3) == (("I", 2, 5), ("F", 1, 5))
    assert needs(Action("B", 2, 5), 3) == needs(Action("I", 2, 5), 3) == (("F", 2, 5),)
    assert needs(Action("W", 1, 5), 3) == (("I", 1, 5),)


def test_a_whole_backward_makes_what_an_i_makes() -> None:
    assert makes(Action("B", 1, 5)) == makes(Action("I", 1, 5)) == ("I", 1, 5)
    assert (makes(Action("F", 1, 5)), makes(Action("W", 1, 5))) == (("F", 1, 5), ("W", 1, 5))


@given(sets())
def test_the_stage_that_an_action_feeds_is_the_one_that_needs_what_it_makes(
    todo: tuple[tuple[int, ...], list[Action]],
) -> None:
    holder, actions = todo
    stages = len(holder)
    fed: set[tuple[Result, int]] = set()
    for a in actions:
        to = feeds(a, stages)
        if to is not None:
            fed.add((makes(a), to))
    assert fed == {(need, a.stage) for a in actions for need in needs(a, stages) if need[1] != a.stage}


def test_room_is_the_least_memory_limit_with_which_a_schedule_is_taken() -> None:
    for name in NAMES:
        schedule = by_name(name, 4, 6)
        check(schedule, memory_limit=schedule.room)
        with pytest.raises(ScheduleError, match="would hold"):
            check(schedule, memory_limit=schedule.room - 0.01)
