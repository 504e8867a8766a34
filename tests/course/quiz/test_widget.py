import json
from pathlib import Path
from typing import Any

import pytest

from course.lessons import find
from course.progress import Progress
from course.quiz import QuizWidget, quiz
from course.quiz.asked import Choose, GiveNumber, WriteSchedule
from course.quiz.check import headings
from course.quiz.perfect import perfect
from course.quiz.schema import Quiz, load
from course.quiz.sitting import Sitting, Source
from tests.course.quiz.samples import SAMPLER, at_the_end, sampler, sit

SHOWN = ["questions", "words", "score", "grades", "answers", "closed", "buttons", "at_the_end"]


def first(widget: QuizWidget) -> Choose:
    question = widget.sitting.attempt.questions[0]
    assert isinstance(question, Choose)
    return question


def tell(widget: QuizWidget, name: str, answer: object) -> dict[str, Any]:
    """Answer a question as the page does; returns what the page then shows."""
    widget._handle_custom_msg({"do": "answer", "question": name, "answer": answer}, [])
    return widget.grades.get(name, {})


def of_sampler(seed: int = 3) -> QuizWidget:
    return QuizWidget(sit(sampler(), seed))


def state(widget: QuizWidget) -> str:
    return json.dumps(widget.get_state(SHOWN), sort_keys=True, ensure_ascii=False)


def test_the_page_gets_every_choice_but_no_feedback() -> None:
    widget = quiz("00")
    page = json.loads(state(widget))
    texts = json.dumps(page["questions"], ensure_ascii=False)
    for question in load(find("00").quiz).questions:
        for choice in getattr(question, "choices", ()):
            assert choice.feedback["en"] not in texts
            assert "code" in json.dumps(choice.text) or choice.text["en"].split("`")[0] in texts
    assert "right" not in texts


def other_keys(quiz: Quiz) -> Quiz:
    """The same questions with other keys, feedback, solutions and tolerances."""
    document = json.loads(quiz.model_dump_json())
    for question in document["questions"]:
        for name in ("right", "wrong", "solution"):
            if isinstance(question.get(name), dict):
                question[name] = {"en": "another"}
        choices = question.get("choices", [])
        rights = [choice["right"] for choice in choices]
        for choice, right in zip(choices, rights[1:] + rights[:1], strict=True):
            choice.update(right=right, feedback={"en": "another"})
        for part in (*question.get("items", []), *question.get("pairs", [])):
            part["feedback"] = {"en": "another"}
        if question["kind"] == "number":
            question.update(tolerance=0.1, mistakes=[])
            question["key"] |= {"stages": 7}
        if question["kind"] == "schedule":
            question.update(as_good_as="gpipe", targets={"live": {"en": "another"}})
    document["questions"] = [
        q | ({} if q["kind"] == "generated" else {"points": q["points"]}) for q in document["questions"]
    ]
    return Quiz.model_validate(document)


def test_nothing_on_the_page_depends_on_what_is_right() -> None:
    mine = load(SAMPLER)
    other = other_keys(mine)
    states = []
    for one in (mine, other):
        sitting = Sitting(Source("x", lambda _seed, one=one: one), Progress(), new=True)  # type: ignore[misc]
        sitting._begin(5)
        states.append(state(QuizWidget(sitting)))
    assert states[0] == states[1]


def test_a_wrong_then_a_right_answer_each_get_their_feedback() -> None:
    widget = quiz("00")
    options = first(widget).options
    right = next(i for i, option in enumerate(options) if option.right)
    wrong = next(i for i, option in enumerate(options) if not option.right)
    shown = tell(widget, first(widget).id, wrong)
    assert [(r["place"], r["right"]) for r in shown["remarks"]] == [(wrong, False)]
    assert "".join(map(str, shown["remarks"][0]["text"])) == options[wrong].feedback
    assert shown["read_again"] == first(widget).read_again
    assert "0 of 10" in widget.score
    shown = tell(widget, first(widget).id, right)
    assert shown["remarks"][0]["right"]
    assert shown["read_again"] is None
    assert "1 of 10" in widget.score


def test_a_new_widget_finds_the_attempt_where_it_was() -> None:
    widget = quiz("00")
    right = next(i for i, option in enumerate(first(widget).options) if option.right)
    tell(widget, first(widget).id, right)
    again = quiz("00")
    assert again.answers == {first(widget).id: right}
    assert "1 of 10 points" in again.score
    assert state(again) == state(widget), "the same questions in the same order, the same grades"


def test_an_answer_that_is_none_costs_nothing() -> None:
    widget = quiz("00")
    assert tell(widget, first(widget).id, None)["notice"] == "pick a choice first"
    assert Progress().events("answer", "00-start") == []
    assert "Nothing answered yet" in widget.score


@pytest.mark.parametrize(
    "message", [{}, {"do": "x"}, {"do": "answer"}, {"do": "answer", "question": ["a"]},
                {"do": "answer", "question": "no"}, {"do": "retake"}, {"do": "hand_in"}, {"do": None}]
)  # fmt: skip
def test_a_message_that_makes_no_sense_changes_nothing(message: dict[str, Any]) -> None:
    widget = quiz("00")
    before = state(widget)
    widget._handle_custom_msg(message, [])
    assert state(widget) == before


def test_all_right_answers_pass_and_the_attempt_is_kept() -> None:
    widget = of_sampler()
    for question in widget.sitting.attempt.questions:
        shown = tell(widget, question.id, perfect(question))
        assert all(remark["right"] for remark in shown["remarks"])
    assert widget.score == "13 of 13 points. Passed. Best so far: 100 % (1 attempt)."
    assert widget.buttons == ["retake"]
    (event,) = Progress().events("attempt", "sampler")
    assert (event.points, set(event.detail)) == (1.0, {"seed", "quiz", "seconds", "answers"})


def test_a_question_whose_solution_was_shown_takes_no_further_answer() -> None:
    widget = of_sampler()
    number = next(q for q in widget.sitting.attempt.questions if isinstance(q, GiveNumber))
    shown = tell(widget, number.id, "1")
    assert shown["solution"]
    assert number.id in widget.closed
    assert "this question is done" in tell(widget, number.id, repr(number.key))["notice"]
    assert widget.sitting.result().points == 0


def test_a_retake_draws_other_numbers_and_the_best_stays() -> None:
    widget = of_sampler()
    before = widget.questions
    for question in widget.sitting.attempt.questions:
        tell(widget, question.id, perfect(question))
    widget._handle_custom_msg({"do": "retake"}, [])
    assert widget.questions != before
    assert (widget.answers, widget.grades, widget.closed, widget.buttons) == ({}, {}, [], [])
    assert widget.score == "Nothing answered yet. 80 % of the points pass. Best so far: 100 % (1 attempt)."


def test_where_grades_come_at_the_end_the_page_learns_nothing_before() -> None:
    sitting = sit(at_the_end(), seed=4)
    widget = QuizWidget(sitting)
    schedule = next(q for q in sitting.attempt.questions if isinstance(q, WriteSchedule))
    tell(widget, schedule.id, perfect(schedule))
    tell(widget, first(widget).id, 0)
    assert widget.grades == {}
    assert "points." not in widget.score
    tell(widget, first(widget).id, 1)
    assert widget.answers[first(widget).id] == 1, "an answer can be changed"
    widget._handle_custom_msg({"do": "hand_in"}, [])
    assert "6 questions have no answer yet. Hand in again, if you mean it." in widget.score
    assert not sitting.handed_in
    widget._handle_custom_msg({"do": "hand_in"}, [])
    assert set(widget.grades) == {schedule.id, first(widget).id}
    assert len(widget.closed) == len(widget.questions)
    assert "It took 1 minute." in widget.score
    assert widget.buttons == ["retake"]
    assert all(event.points == 0 for event in Progress().events("answer", "sampler-exam")), "no grade is kept before"


def test_where_progress_cannot_be_kept_the_quiz_says_so_and_goes_on(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("COURSE_DATA", str(tmp_path / "file" / "data"))
    widget = quiz("00")
    assert "cannot be kept" in widget.score
    shown = tell(widget, first(widget).id, 0)
    assert shown["remarks"]
    assert "cannot be kept" in widget.score


def test_an_unknown_lesson_is_named_with_those_that_there_are() -> None:
    with pytest.raises(ValueError, match="there is no lesson '77'; there are: 00-start"):
        quiz("77")


def test_every_section_to_read_again_is_a_heading_of_the_lesson() -> None:
    known = headings(find("00").notebook)
    assert {question.read_again for question in load(find("00").quiz).questions} <= set(known)
