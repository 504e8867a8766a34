"""What a learner meets: `check`, `hint`, `solution`, for every exercise that there is."""

from pathlib import Path
from typing import Any

import pytest
import torch

from course.exercises import NotTried, Status, check, hint, solution
from course.exercises.check import EXERCISES
from course.exercises.exercise import Exercise, Target, Verdict
from course.exercises.submission import capture, regrade
from course.judge.server import judge, sha256
from course.progress import Progress
from minipar import comm

COLUMN_LINEAR = EXERCISES["column-linear"]


def stub(*_arguments: object) -> None:
    raise NotTried


def test_a_stub_is_not_tried_and_the_solution_passes_and_is_kept_with_its_source() -> None:
    exercise = COLUMN_LINEAR
    assert check(exercise.name, stub).status is Status.NOT_TRIED
    assert Progress().events("exercise", exercise.item) == []
    verdict = check(exercise.name, exercise.solution)
    assert verdict.status is Status.PASSED
    assert verdict.next_step == ""
    (event,) = Progress().events("exercise", exercise.item)
    source = event.detail["source"]
    assert event.points == 1.0
    assert event.detail == {"status": "passed", "source": source, "sha256": sha256(source)}
    assert source == capture(exercise.solution)
    assert regrade(exercise.name, source) == verdict
    assert len(Progress().log()) == 1, "to judge again keeps nothing"


@pytest.mark.parametrize("exercise", EXERCISES.values(), ids=lambda exercise: exercise.name)
def test_every_exercise_has_hints_and_wrong_answers_of_its_own(exercise: Exercise) -> None:
    assert len(exercise.hints) >= 2
    assert len(set(exercise.hints)) == len(exercise.hints)
    assert len(exercise.wrong) >= 3
    assert not {w.status for w in exercise.wrong} & {Status.PASSED, Status.RAISED, Status.NOT_TRIED}


def test_a_wrong_answer_is_kept_with_no_points_and_the_next_step_is_a_hint() -> None:
    verdict = check("column-linear", lambda x, w_columns, tp: x)
    assert 'hint("column-linear")' in verdict.next_step
    (event,) = Progress().log("exercise")
    assert (event.points, event.detail["status"]) == (0.0, "wrong shape")


def test_the_targets_are_a_table_of_yours_target_and_best_known() -> None:
    (wrong,) = [w for w in EXERCISES["column-linear"].wrong if w.answer.__name__ == "_weight_joined_first"]
    verdict = check("column-linear", wrong.answer)
    assert verdict.targets == (
        Target("bytes that each rank sends, 2 ranks", "8000", "at most 96", "96"),
        Target("bytes that each rank sends, 4 ranks", "20160", "at most 144", "144"),
    )
    assert "2 ranks: yours 8000, target at most 96, best known 96" in repr(verdict)
    page = verdict._repr_html_()
    assert all(f"<th scope='col' style='text-align:left'>{head}</th>" in page for head in ("yours", "target"))
    assert "<td>8000</td><td>at most 96</td><td>96</td>" in page


def test_an_error_in_the_answer_shows_the_learners_own_line_and_none_of_the_judges() -> None:
    def mistaken(x, w_columns, tp):  # type: ignore[no-untyped-def]
        return x @ w_columns.T.reshape(1, 2, 3)

    verdict = check("column-linear", mistaken)
    assert verdict.status is Status.RAISED
    assert "return x @ w_columns.T.reshape(1, 2, 3)" in verdict.message
    assert "inside.py" not in verdict.message


def test_ranks_that_wait_for_each_other_are_ended_and_told_so() -> None:
    def one_alone(x, w_columns, tp):  # type: ignore[no-untyped-def]
        return comm.all_gather(x @ w_columns, tp, dim=1) if tp.rank == 0 else x

    verdict = judge(EXERCISES["column-linear"], capture(one_alone), seconds=2.0)
    assert verdict.status is Status.RAISED
    assert "waited for each other for 2 s" in verdict.message
    assert "return comm.all_gather(x @ w_columns, tp, dim=1) if tp.rank == 0 else x" in verdict.message


@pytest.mark.parametrize("value", [None, 3, "text", [1.0]])
def test_what_is_no_tensor_is_a_wrong_shape(value: object) -> None:
    verdict = check("column-linear", lambda x, w, tp: value)
    assert verdict.status is Status.WRONG_SHAPE
    assert type(value).__name__ in verdict.message


@pytest.mark.parametrize("entry", [float("nan"), float("inf"), 1j])
def test_entries_that_no_product_has_are_a_wrong_value(entry: Any) -> None:
    def filled(x, w, tp):  # type: ignore[no-untyped-def]
        return torch.full((len(x), w.shape[1] * tp.size), entry)

    assert check("column-linear", filled).status is Status.WRONG_VALUE


def test_a_product_in_single_precision_is_a_wrong_value() -> None:
    def rounded(x, w, tp):  # type: ignore[no-untyped-def]
        return comm.all_gather(x.float() @ w.float(), tp, dim=1)

    assert check("column-linear", rounded).status is Status.WRONG_VALUE


def test_what_ranks_print_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    def talkative(x, w, tp):  # type: ignore[no-untyped-def]
        print("width", w.shape[1])
        return x

    check("column-linear", talkative)
    assert "[rank 0] width 4\n" in capsys.readouterr().out


def test_hints_come_one_after_the_other_and_begin_again() -> None:
    hints = EXERCISES["column-linear"].hints
    given = [hint("column-linear") for _ in range(len(hints) + 1)]
    assert [text.partition(": ")[2].splitlines()[0] for text in given] == [*hints, hints[0]]
    assert 'solution("column-linear")' in given[len(hints) - 1]
    assert len(Progress().events("hint", "00-start/column-linear")) == len(given)


def test_hints_go_on_where_progress_cannot_be_kept(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("COURSE_DATA", str(tmp_path / "file" / "data"))
    with pytest.warns(UserWarning, match="cannot be kept"):
        assert hint("column-linear") != hint("column-linear")


def test_the_solution_is_shown_and_that_it_was_is_kept() -> None:
    assert "comm.all_gather(y_columns, tp, dim=1)" in solution("column-linear")
    assert len(Progress().events("solution", "00-start/column-linear")) == 1


def test_an_unknown_exercise_is_named_with_those_that_there_are() -> None:
    for call in (
        lambda: check("colum", print),
        lambda: hint("colum"),
        lambda: solution("colum"),
        lambda: regrade("colum", ""),
    ):
        with pytest.raises(ValueError, match="there is no exercise 'colum'; there are: column-linear"):
            call()


def test_where_progress_cannot_be_kept_the_check_still_judges(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("COURSE_DATA", str(tmp_path / "file" / "data"))
    with pytest.warns(UserWarning, match="cannot be kept"):
        assert check("column-linear", EXERCISES["column-linear"].solution).status is Status.PASSED


def test_a_verdict_cannot_put_markup_into_the_page() -> None:
    verdict = Verdict(Status.RAISED, "<script>alert(1)</script>", (Target("<b>", "<i>", "<u>", "<s>"),), "<img>")
    page = verdict._repr_html_()
    assert not any(tag in page for tag in ("<script", "<img", "<i>", "<u>", "<s>"))


def test_a_verdict_comes_through_json_as_it_was() -> None:
    verdict = Verdict(Status.OUTSIDE_TARGET, "a", (Target("b", "c", "d", "e"),), "f", "g")
    assert Verdict.from_json(verdict.to_json()) == verdict
