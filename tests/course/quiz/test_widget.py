import json
from pathlib import Path

import pytest

from course.lessons import find
from course.progress import Progress
from course.quiz import QuizWidget, quiz
from course.quiz.schema import OneChoice


def first(widget: QuizWidget) -> OneChoice:
    question = widget._quiz.questions[0]
    assert isinstance(question, OneChoice)
    return question


def tell(widget: QuizWidget, answer: object) -> dict[str, object]:
    """Answer the first question as the page does; returns what the page then shows."""
    question = first(widget)
    widget._handle_custom_msg({"question": question.id, "answer": answer}, [])
    shown: dict[str, object] = widget.grades[question.id]
    return shown


def test_no_key_reaches_the_page() -> None:
    page = json.dumps(quiz("00").get_state(["questions", "words", "score", "grades"]))
    for question in quiz("00")._quiz.questions:
        for choice in getattr(question, "choices", ()):
            assert choice.text["en"] in page
            assert choice.feedback["en"] not in page
    assert "right" not in page


def test_a_wrong_then_a_right_answer_each_get_their_feedback_and_the_best_counts() -> None:
    widget = quiz("00")
    choices = first(widget).choices
    right = next(i for i, choice in enumerate(choices) if choice.right)
    wrong = next(i for i, choice in enumerate(choices) if not choice.right)
    shown = tell(widget, wrong)
    assert shown["remarks"] == [{"choice": wrong, "right": False, "text": choices[wrong].feedback["en"]}]
    assert shown["read_again"] == first(widget).read_again
    assert "0 of 6" in widget.score
    shown = tell(widget, right)
    assert shown["remarks"] == [{"choice": right, "right": True, "text": choices[right].feedback["en"]}]
    tell(widget, wrong)
    assert "1 of 6" in widget.score
    assert "1 of 6" in quiz("00").score, "a new widget (a restarted kernel) finds the score"


def test_an_answer_that_is_none_costs_nothing() -> None:
    widget = quiz("00")
    assert tell(widget, None)["notice"] == "pick a choice first"
    assert Progress().events("answer", f"00-start/{first(widget).id}") == []


def test_all_right_answers_pass() -> None:
    widget = quiz("00")
    for question in widget._quiz.questions:
        choices = [i for i, choice in enumerate(getattr(question, "choices", ())) if choice.right]
        answer = {"one": choices[:1] and choices[0], "several": choices}.get(question.kind)
        widget.answer(question, question.key.value if question.kind == "number" else answer)
    assert widget.score == "Your best so far: 6 of 6 points. Passed."


def test_where_progress_cannot_be_kept_the_quiz_says_so_and_goes_on(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("COURSE_DATA", str(tmp_path / "file" / "data"))
    widget = quiz("00")
    assert "cannot be kept" in widget.score
    shown = tell(widget, 0)
    assert shown["remarks"]
    assert "cannot be kept" in str(shown["notice"])


def test_an_unknown_lesson_is_named_with_those_that_there_are() -> None:
    with pytest.raises(ValueError, match="there is no lesson '77'; there are: 00-start"):
        quiz("77")


def test_every_section_to_read_again_is_a_heading_of_the_lesson() -> None:
    notebook = json.loads(find("00").notebook.read_text(encoding="utf-8"))
    lines = [line.strip() for cell in notebook["cells"] if cell["cell_type"] == "markdown" for line in cell["source"]]
    headings = {line.lstrip("# ") for line in lines if line.startswith("#")}
    assert {question.read_again for question in quiz("00")._quiz.questions} <= headings
