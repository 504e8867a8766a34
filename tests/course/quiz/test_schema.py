from pathlib import Path

import pytest

from course.lessons import lessons
from course.quiz.schema import QuizError, load

GOOD = """\
id: sample
title: {en: Sample}
questions:
  - id: first
    kind: one
    read_again: A heading
    text: {en: Which?}
    choices:
      - text: {en: This}
        right: true
        feedback: {en: Yes.}
      - text: {en: That}
        feedback: {en: No.}
  - id: second
    kind: number
    read_again: A heading
    text: {en: How many percent?}
    key: {formula: gpipe_bubble_percent, stages: 4, micro_batches: 1}
    tolerance: 0.5
    unit: "%"
    right: {en: Yes.}
    wrong: {en: No.}
"""


def quiz_file(folder: Path, text: str) -> Path:
    path = folder / "sample.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def test_a_good_file_loads(tmp_path: Path) -> None:
    quiz = load(quiz_file(tmp_path, GOOD))
    assert [question.kind for question in quiz.questions] == ["one", "number"]


@pytest.mark.parametrize(
    ("old", "new", "line", "says"),
    [
        ("        feedback: {en: No.}\n  - id: s", "  - id: s", 12, "choices.1.feedback: Field required"),
        ("right: true", "right: perhaps", 10, "choices.0.right: Input should be a valid boolean"),
        ("        right: true\n", "", 4, "exactly one choice with 'right: true'"),
        ("kind: one", "kind: guess", 4, "'guess' found using 'kind' does not match"),
        ("text: {en: Which?}", "text: {bn: কোনটি?}", 7, "needs an English sentence"),
        ("text: {en: Which?}", "text: {en: ' '}", 7, "needs an English sentence"),
        ("gpipe_bubble_percent", "bubbles", 18, "there is no formula 'bubbles'; there are: gpipe_bubble_percent"),
        ("stages: 4", "stages: 0", 18, "key.stages: Input should be greater than or equal to 1"),
        ("tolerance: 0.5", "tolerance: -1", 19, "tolerance"),
        ("id: second", "id: first", 3, "two questions have the id 'first'"),
        ("id: second", "id: Not Good!", 14, "id: String should match"),
        ("    unit", "    unti", 20, "unti: Extra inputs are not permitted"),
        ("questions:", "questions: [", 4, "expected the node content"),
        ("title: {en: Sample}", "title: {en: Sample}\ntitle: {en: Twice}", 3, "duplicate key"),
        ("id: sample\n", "", 1, "id: Field required"),
    ],
)
def test_a_malformed_file_is_refused_with_its_line(tmp_path: Path, old: str, new: str, line: int, says: str) -> None:
    assert old in GOOD
    with pytest.raises(QuizError, match=rf"sample\.yaml, line {line}: ") as error:
        load(quiz_file(tmp_path, GOOD.replace(old, new, 1)))
    assert says in str(error.value)


@pytest.mark.parametrize("text", ["", "- a list", "just words", "questions: 3", "\x00"])
def test_a_file_that_is_no_quiz_is_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(QuizError, match=r"sample\.yaml"):
        load(quiz_file(tmp_path, text))


def test_a_file_in_another_encoding_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "sample.yaml"
    path.write_bytes(GOOD.encode("utf-16"))
    with pytest.raises(QuizError, match="UTF-8"):
        load(path)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(QuizError, match=r"none\.yaml cannot be read"):
        load(tmp_path / "none.yaml")


@pytest.mark.parametrize("lesson", lessons(), ids=lambda lesson: lesson.name)
def test_every_lesson_has_a_quiz_of_its_name(lesson) -> None:  # type: ignore[no-untyped-def]
    assert load(lesson.quiz).id == lesson.name
