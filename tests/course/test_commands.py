"""`course progress`, `course quiz` and `course lessons` as they are typed."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from course.cli import app
from course.commands import quiz as quiz_module
from course.lessons import lessons
from course.progress import Progress
from course.quiz.attempt import draw
from course.quiz.perfect import perfect
from course.quiz.schema import load
from tests.course.quiz.samples import SAMPLER, as_typed


def course(*arguments: str, typed: str = "", code: int = 0) -> Result:
    result = CliRunner().invoke(app, arguments, input=typed, env={"COLUMNS": "120"})
    assert result.exit_code == code, result.output
    return result


def test_lessons_are_listed_with_their_minutes() -> None:
    said = course("lessons").output
    for lesson in lessons():
        assert lesson.id in said
        assert lesson.title in said
        assert str(lesson.minutes) in said
    (row,) = [line.split() for line in said.splitlines() if line.strip().startswith("08")]
    assert row[-2:] == ["04,", "06"]


def test_progress_of_one_who_did_nothing_says_what_is_next() -> None:
    said = course("progress").output
    assert "not taken" in said
    assert "Next: Lesson 00, Start here." in said
    assert "In a terminal: course start 00" in said
    minutes = sum(lesson.minutes for lesson in lessons())
    assert f"About {minutes} minutes of lessons are left." in said


def test_progress_goes_to_another_machine_and_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Progress().record("attempt", "00-start", 0.8, {"seed": 1})
    Progress().record("hint", "00-start/x")
    file = tmp_path / "mine.json"
    assert (
        "2 events were written. On the other machine: course progress --import mine.json"
        in course("progress", "--export", str(file)).output
    )
    here = Progress().log()
    monkeypatch.setenv("COURSE_DATA", str(tmp_path / "there"))
    assert "2 events were added." in course("progress", "--import", str(file)).output
    assert "0 events were added." in course("progress", "--import", str(file)).output
    assert Progress().log() == here
    assert json.loads(course("progress", "--json").stdout)["lessons"][0]["score"] == 0.8


def test_an_export_overwrites_nothing(tmp_path: Path) -> None:
    file = tmp_path / "mine.json"
    file.write_text("mine")
    assert "is there already" in course("progress", "--export", str(file), code=1).stderr
    assert file.read_text() == "mine"


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--import", "none.json"], "cannot be read: No such file"),
        (["--import", "."], "cannot be read: Is a directory"),
        (["--export", "none/x.json"], "cannot be written"),
        (["--export", "x.json", "--json"], "three different things"),
    ],
)
def test_what_cannot_be_done_is_a_sentence(
    arguments: list[str], says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    result = course("progress", *arguments, code=1)
    assert says in result.stderr
    assert "Traceback" not in result.output
    assert list(tmp_path.glob("*.json")) == []


def test_a_folder_that_cannot_be_written_is_a_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("COURSE_DATA", str(tmp_path / "file" / "data"))
    assert "cannot be kept in" in course("progress", code=1).stderr


def test_without_a_name_every_quiz_is_listed_with_its_best() -> None:
    Progress().record("attempt", "00-start", 0.6, {"seed": 3})
    said = course("quiz").output
    assert "60 %" in said
    assert "Final exam" in said
    assert "80 %" in said


def test_a_quiz_is_taken_from_its_first_question_to_its_score(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("course.quiz.sitting.secrets.randbelow", lambda _most: 11)
    questions = draw(load(SAMPLER), 11).questions
    typed = "".join(line + "\n" for question in questions for line in as_typed(question, perfect(question)))
    said = course("quiz", str(SAMPLER), typed=typed).output
    assert "13 of 13 points. Passed." in said
    assert Progress().best("attempt", "sampler") == 1.0


def test_an_end_of_input_ends_it_with_what_is_kept() -> None:
    said = course("quiz", "00", typed="a\n", code=130).output
    assert "Your answer to 1 question is kept." in said
    assert "You go on where you were" in course("quiz", "00", code=130).output
    assert "You go on where you were" not in course("quiz", "00", "--new", code=130).output


@pytest.mark.parametrize(("name", "says"), [("77", "there is no lesson '77'"), ("none.yaml", "cannot be read")])
def test_a_quiz_that_there_is_not_is_a_sentence(name: str, says: str) -> None:
    assert says in course("quiz", name, code=1).stderr


def test_check_names_every_file_and_fails_where_one_is_wrong(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said = course("quiz", "--check").output
    assert "sampler.yaml: 8 questions, nothing wrong" in said
    wrong = tmp_path / "wrong.yaml"
    wrong.write_text("id: wrong\n")
    monkeypatch.setattr(quiz_module, "quiz_files", lambda: [wrong, SAMPLER])
    result = course("quiz", "--check", code=1)
    assert "wrong.yaml, line 1: title: Field required" in result.stderr
    assert "sampler.yaml: 8 questions, nothing wrong" in result.output


def test_bytes_that_are_no_text_are_no_crash() -> None:
    result = CliRunner().invoke(app, ["quiz", "00"], input=b"\xff\xfe\na\n")
    assert result.exit_code == 130, result.output
    assert "Your answer to 1 question is kept." in result.output
