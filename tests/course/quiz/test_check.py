"""`course quiz --check`: what is wrong with a quiz file that can be loaded, each named with its line."""

import json
from pathlib import Path

import pytest

from course.lessons import ROOT
from course.quiz import check
from course.quiz.check import check_quiz, headings, quiz_files
from course.quiz.document import QuizError
from course.quiz.perfect import perfect
from tests.course.quiz.test_schema import GOOD

WITH_LESSON = GOOD.replace("questions:\n", "lesson: 07-there\nquestions:\n", 1)


@pytest.fixture
def notebooks(tmp_path: Path) -> Path:
    cells = [
        {
            "cell_type": "markdown",
            "source": ["# The lesson\n", "```\n", "# A comment\n", "```\n", "## A heading\n"],
        },
        {"cell_type": "code", "source": ["# Code\n"]},
        {"cell_type": "markdown", "source": ["#no heading\n", "### The `w` matrix"]},
    ]
    folder = tmp_path / "notebooks"
    folder.mkdir()
    (folder / "07-there.ipynb").write_text(json.dumps({"cells": cells}), encoding="utf-8")
    return folder


def quiz(folder: Path, text: str, name: str = "sample") -> Path:
    (folder / f"{name}.yaml").write_text(text, encoding="utf-8")
    return folder / f"{name}.yaml"


@pytest.mark.parametrize("path", quiz_files(), ids=lambda path: path.stem)
def test_every_quiz_of_the_course_is_right(path: Path) -> None:
    assert check_quiz(path).id == path.stem


def test_there_is_a_file_for_every_quiz() -> None:
    assert {path.parent for path in quiz_files()} == {ROOT / "quizzes"}
    assert len(quiz_files()) >= 2


def test_headings_are_those_of_markdown_outside_code(notebooks: Path) -> None:
    assert headings(notebooks / "07-there.ipynb") == ["The lesson", "A heading", "The `w` matrix"]


def test_a_good_file_is_right(tmp_path: Path, notebooks: Path) -> None:
    assert check_quiz(quiz(tmp_path, WITH_LESSON), notebooks).id == "sample"


def test_an_id_that_is_not_the_files_name_is_told(tmp_path: Path, notebooks: Path) -> None:
    with pytest.raises(QuizError, match=r"other.yaml, line 1: id: 'sample'; the file's name says 'other'"):
        check_quiz(quiz(tmp_path, WITH_LESSON, "other"), notebooks)


def test_a_section_that_there_is_not_is_told_with_those_there_are(tmp_path: Path, notebooks: Path) -> None:
    wrong = WITH_LESSON.replace("read_again: A heading", "read_again: A comment", 1)
    with pytest.raises(QuizError, match=r"line 7.*no heading 'A comment'; it has: The lesson; A heading; The `w`"):
        check_quiz(quiz(tmp_path, wrong), notebooks)


def test_a_lesson_that_there_is_not_is_told(tmp_path: Path, notebooks: Path) -> None:
    with pytest.raises(QuizError, match="line 3: lesson: there is no notebook '08-none'"):
        check_quiz(quiz(tmp_path, WITH_LESSON.replace("07-there", "08-none")), notebooks)
    with pytest.raises(QuizError, match="there is no notebook 'sample'"):
        check_quiz(quiz(tmp_path, GOOD), notebooks)


def test_a_lessons_question_without_a_section_is_told(tmp_path: Path) -> None:
    text = (ROOT / "quizzes" / "00-start.yaml").read_text(encoding="utf-8")
    lines = text.splitlines(keepends=True)
    gone = next(i for i, line in enumerate(lines) if "read_again" in line)
    with pytest.raises(QuizError, match="names the section to read again"):
        check_quiz(quiz(tmp_path, "".join([*lines[:gone], *lines[gone + 1 :]]), "00-start"))


def test_a_key_that_is_graded_wrong_is_told(tmp_path: Path, notebooks: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(check, "perfect", lambda q: "99" if q.id in ("second", "sixth") else perfect(q))
    with pytest.raises(QuizError) as error:
        check_quiz(quiz(tmp_path, WITH_LESSON), notebooks)
    said = str(error.value)
    assert "line 15: questions.1: the right answer is not graded right (seed 0)" in said
    assert "questions.5" in said
    assert "questions.0" not in said


def test_every_fault_is_named_at_once(tmp_path: Path, notebooks: Path) -> None:
    wrong = WITH_LESSON.replace("read_again: A heading", "read_again: None")
    with pytest.raises(QuizError) as error:
        check_quiz(quiz(tmp_path, wrong, "other"), notebooks)
    assert len(str(error.value).splitlines()) == 3
