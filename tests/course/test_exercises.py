from pathlib import Path

import pytest

from course.exercises import NotTried, Status, check, hint, solution
from course.exercises.check import EXERCISES
from course.exercises.exercise import Exercise, Verdict, WrongAnswer
from course.progress import Progress
from minipar import comm

WRONG = [(e, wrong) for e in EXERCISES.values() for wrong in e.wrong]


@pytest.mark.parametrize(
    ("exercise", "wrong"), WRONG, ids=lambda x: getattr(getattr(x, "answer", None), "__name__", "")
)
def test_each_known_wrong_answer_is_refused_for_its_own_reason(exercise: Exercise, wrong: WrongAnswer) -> None:
    assert wrong.status not in (Status.PASSED, Status.RAISED, Status.NOT_TRIED)
    assert exercise.examine(wrong.answer).status is wrong.status


@pytest.mark.parametrize("name", EXERCISES)
def test_the_solution_passes_and_a_stub_is_not_tried(name: str) -> None:
    def stub(*_: object) -> None:
        raise NotTried

    assert check(name, stub).status is Status.NOT_TRIED
    assert Progress().events("exercise", f"00-start/{name}") == []
    assert check(name, EXERCISES[name].solution).status is Status.PASSED
    assert Progress().best("exercise", f"00-start/{name}") == 1.0


def test_an_error_in_the_answer_shows_the_learners_own_line() -> None:
    def mistaken(x, w_columns, tp):  # type: ignore[no-untyped-def]
        return x @ w_columns.T.reshape(1, 2, 3)

    verdict = check("column-linear", mistaken)
    assert verdict.status is Status.RAISED
    assert "return x @ w_columns.T.reshape(1, 2, 3)" in verdict.message


def test_ranks_that_wait_for_each_other_are_ended_and_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("course.exercises.on_ranks.SECONDS", 2.0)

    def one_alone(x, w_columns, tp):  # type: ignore[no-untyped-def]
        return comm.all_gather(x @ w_columns, tp, dim=1) if tp.rank == 0 else x

    verdict = check("column-linear", one_alone)
    assert verdict.status is Status.RAISED
    assert "waited for each other" in verdict.message


@pytest.mark.parametrize("value", [None, 3, "text", [1.0]])
def test_what_is_no_tensor_is_a_wrong_shape(value: object) -> None:
    verdict = check("column-linear", lambda x, w, tp: value)
    assert verdict.status is Status.WRONG_SHAPE
    assert type(value).__name__ in verdict.message


def test_a_result_that_is_not_a_number_is_a_wrong_value() -> None:
    verdict = check("column-linear", lambda x, w, tp: x.new_full((len(x), w.shape[1] * tp.size), float("nan")))
    assert verdict.status is Status.WRONG_VALUE


def test_hints_come_one_after_the_other_and_begin_again() -> None:
    hints = EXERCISES["column-linear"].hints
    given = [hint("column-linear") for _ in range(len(hints) + 1)]
    assert [text.partition(": ")[2].splitlines()[0] for text in given] == [*hints, hints[0]]
    assert 'solution("column-linear")' in given[len(hints) - 1]


def test_hints_go_on_where_progress_cannot_be_kept(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("COURSE_DATA", str(tmp_path / "file" / "data"))
    with pytest.warns(UserWarning, match="cannot be kept"):
        assert hint("column-linear") != hint("column-linear")


def test_the_solution_is_shown_and_that_it_was_is_kept() -> None:
    assert "comm.all_gather(y_columns, tp, dim=1)" in solution("column-linear")
    assert len(Progress().events("solution", "00-start/column-linear")) == 1


def test_an_unknown_exercise_is_named_with_those_that_there_are() -> None:
    for call in (lambda: check("colum", print), lambda: hint("colum"), lambda: solution("colum")):
        with pytest.raises(ValueError, match="there is no exercise 'colum'; there are: column-linear"):
            call()


def test_where_progress_cannot_be_kept_the_check_still_judges(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("COURSE_DATA", str(tmp_path / "file" / "data"))
    with pytest.warns(UserWarning, match="cannot be kept"):
        assert check("column-linear", EXERCISES["column-linear"].solution).status is Status.PASSED


def test_a_verdict_cannot_put_markup_into_the_page() -> None:
    verdict = Verdict(Status.RAISED, "<script>alert(1)</script>", (("<b>", "<i>", "<u>"),), "<img>")
    page = verdict._repr_html_()
    assert not any(tag in page for tag in ("<script", "<img", "<i>", "<u>"))
