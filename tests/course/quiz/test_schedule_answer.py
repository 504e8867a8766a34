from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from course.quiz.asked import WriteSchedule
from course.quiz.grade import grade
from course.quiz.schedule_answer import DoesNotRun, check_runs
from minipar.pipeline import Schedule, ScheduleError, check, gpipe, interleaved, naive, one_f_one_b, parse, zb_h1


def question(known: Schedule, *targets: str) -> WriteSchedule:
    named = {target: f"{target} missed" for target in targets or ("bubble", "live")}
    return WriteSchedule(id="s", text="?", points=2, read_again="There", known=known, targets=named, right="well done")


ASKED = question(one_f_one_b(2, 4))
GOOD = ["F0 F1 B0 F2 B1 F3 B2 B3", "F0 B0 F1 B1 F2 B2 F3 B3"]


@pytest.mark.parametrize(
    ("rows", "points", "says"),
    [
        (GOOD, 2, ["20.0 %; at most 20.0 %", "at most: 2; at most 2", "well done"]),
        (["F0 F1 F2 F3 B0 B1 B2 B3"] * 2, 1, ["20.0 %; at most 20.0 %", "at most: 4; at most 2", "live missed"]),
        (["F0 B0 F1 B1 F2 B2 F3 B3"] * 2, 1, ["50.0 %; at most 20.0 %", "at most: 1; at most 2", "bubble missed"]),
        (["F0 B0", "F0 B0"], 0, ["stage 0 never does the forward of micro-batch 1"]),
        (["F0 F1 F2 F3 B0 B1 B2", GOOD[1]], 0, ["stage 0 never does the backward of micro-batch 3"]),
        (["F0 F0 F1 B0 F2 B1 F3 B2 B3", GOOD[1]], 0, ["rank 0 does `F0@0` 2 times"]),
        (["B0 F0 F1 F2 F3 B1 B2 B3", GOOD[1]], 0, ["never finishes", "rank 0 at `B0@0`", "rank 1 at `F0@1`"]),
        (["F0 F1 F2 F3 F4 B0 B1 B2 B3 B4", GOOD[1]], 0, ["`F4@0`; stages go to 1 and micro-batches to 3"]),
        ([GOOD[0] + " I3", GOOD[1]], 0, ["a backward is either B, or I and W"]),
        ([GOOD[0] + " W3", GOOD[1]], 0, ["a backward is either B, or I and W"]),
        ([GOOD[0] + " F0@1", GOOD[1]], 0, ["rank 1 does `F0@1`, but rank 0 holds that stage"]),
    ],
)
def test_a_schedule_is_worth_the_targets_that_it_meets(rows: list[str], points: float, says: list[str]) -> None:
    result = grade(ASKED, rows)
    assert result.points == points
    texts = " ".join(remark.text for remark in result.remarks)
    for part in says:
        assert part in texts
    assert result.right == (points == 2) == all(remark.right for remark in result.remarks)


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        ([], "write a line for each rank first"),
        (["", " "], "write a line for each rank first"),
        (["F0 B0"], "write 2 lines, one for each rank; there are 1"),
        (["F0", "F0", "F0"], "write 2 lines, one for each rank; there are 3"),
        (["F0 X1", "F0"], "rank 0: `X1` is not an action"),
        (["F0", "F0 B"], "rank 1: `B` is not an action"),
        (["F0", "F-1"], "rank 1: `F-1` is not an action"),
        (["F0@9", "F0@7"], "there are only 2 stages"),
        (["F0@999999999999999", "F0"], "there are only 2 stages"),
        (["F0 " * 3000, "F0"], "too long"),
        (["F" + "0" * 3990, "F0"], "is not an action"),
        (7, "write a line for each rank first"),
        ([1, 2], "write a line for each rank first"),
        ({"a": "F0"}, "write a line for each rank first"),
    ],
)
def test_what_is_no_schedule_is_asked_for_again(answer: Any, says: str) -> None:
    with pytest.raises(ValueError, match=says.replace("`", "`")):
        grade(ASKED, answer)


def test_small_letters_commas_and_one_text_for_all_lines_are_understood() -> None:
    assert grade(ASKED, "\n".join(GOOD).lower().replace(" ", ", ") + "\n\n").right


def test_a_number_of_a_micro_batch_that_is_huge_costs_nothing() -> None:
    assert grade(ASKED, ["F999999999999999", "F0"]).points == 0


def test_split_backwards_and_several_stages_a_rank_are_understood() -> None:
    for known in (zb_h1(3, 4), interleaved(2, 4, 2), naive(3, 2), gpipe(4, 4)):
        rows = [" ".join(f"{a.kind}{a.micro_batch}@{a.stage}" for a in row) for row in known.actions]
        assert grade(question(known), rows).right


@st.composite
def rows(draw: st.DrawFn) -> list[str]:
    """Nearly a schedule of 2 ranks and 2 micro-batches: a good one with a few words moved, doubled or lost."""
    kinds = draw(st.sampled_from([["F", "B"], ["F", "I", "W"]]))
    lines = []
    for _ in range(2):
        words = [f"{kind}{i}" for kind in kinds for i in range(2)]
        for _ in range(draw(st.integers(0, 2))):
            word = draw(st.sampled_from([*words, "B0", "W1", "F1", "I0"]))
            if word in words and draw(st.booleans()):
                words.remove(word)
            if draw(st.integers(0, 3)):
                words.insert(draw(st.integers(0, len(words))), word)
        lines.append(" ".join(words))
    return lines


@given(rows())
def test_it_runs_for_the_quiz_exactly_where_the_library_proves_it_runs(lines: list[str]) -> None:
    schedule = parse(lines)
    try:
        check(schedule)
        runs = schedule.micro_batches == 2
    except ScheduleError:
        runs = False
    if runs:
        check_runs(schedule, gpipe(2, 2))
    else:
        with pytest.raises(DoesNotRun):
            check_runs(schedule, gpipe(2, 2))
