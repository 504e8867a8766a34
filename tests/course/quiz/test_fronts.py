"""The notebook, the terminal and the grading of an attempt as a whole: for the same answers the same score."""

from itertools import count
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from course.progress import Progress
from course.quiz.attempt import draw, grade_attempt
from course.quiz.exam import exam
from course.quiz.schema import Quiz, load
from course.quiz.sitting import Sitting, Source
from course.quiz.widget import QuizWidget
from tests.course.quiz.samples import SAMPLER, Learner, answers_to, as_typed, in_terminal

QUIZ = load(SAMPLER)
AT_THE_END = QUIZ.model_copy(update={"feedback": "at the end"})
STORES = count()
"""Numbers the stores of all examples: each learner's is new. (What Hypothesis draws may come up twice.)"""


def sit(quiz: Quiz, seed: int, path: Path) -> Sitting:
    sitting = Sitting(Source(quiz.id, lambda _seed: quiz), Progress(path), new=True)
    sitting._begin(seed)
    return sitting


def in_notebook(quiz: Quiz, seed: int, answers: dict[str, Any], path: Path) -> QuizWidget:
    widget = QuizWidget(sit(quiz, seed, path))
    for name, answer in answers.items():
        widget._handle_custom_msg({"do": "answer", "question": name, "answer": answer}, [])
        assert "notice" not in widget.grades.get(name, {})
    widget._handle_custom_msg({"do": "hand_in"}, [])
    widget._handle_custom_msg({"do": "hand_in"}, [])  # where something is left, a second time means it
    return widget


def typed(quiz: Quiz, seed: int, answers: dict[str, Any]) -> list[str]:
    """What a learner types who gives these answers, each once, and hands in."""
    lines = []
    for question in draw(quiz, seed).questions:
        if question.id in answers:
            lines += as_typed(question, answers[question.id])
            if quiz.feedback == "at once" and question.solution is None:
                grade = grade_attempt(quiz, seed, {question.id: answers[question.id]}).grades[question.id]
                lines += [] if grade.right else [""]
        else:
            lines.append("")
    return [*lines, *(["h"] if quiz.feedback == "at the end" else [])]


@pytest.mark.parametrize("quiz", [QUIZ, AT_THE_END], ids=["at once", "at the end"])
@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data(), seed=st.integers(0, 2**53 - 1))
def test_random_answers_have_the_same_score_everywhere(
    quiz: Quiz, tmp_path: Path, data: st.DataObject, seed: int
) -> None:
    questions = draw(quiz, seed).questions
    left_out = data.draw(st.sets(st.sampled_from([question.id for question in questions]), max_size=2))
    answers = {q.id: data.draw(answers_to(q)) for q in questions if q.id not in left_out}
    whole = grade_attempt(quiz, seed, answers)
    stores = [tmp_path / f"{next(STORES)}.sqlite3" for _front in range(2)]

    widget = in_notebook(quiz, seed, answers, stores[0])
    in_terminal(terminal := sit(quiz, seed, stores[1]), Learner(typed(quiz, seed, answers)))

    assert widget.sitting.result() == terminal.result() == whole
    counts = not left_out or quiz.feedback == "at the end"
    for store in stores:
        attempts = Progress(store).events("attempt", quiz.id)
        assert len(attempts) == counts
        for event in attempts:
            assert event.points == whole.share
            assert event.detail["seed"] == seed
            assert event.detail["quiz"] == quiz.sha256
            assert event.detail["seconds"] >= 0
            again = grade_attempt(quiz, event.detail["seed"], event.detail["answers"])
            assert again == whole, "graded again from what was kept"
    if counts:
        assert f"{whole.points:.3g} of {whole.possible:.3g} points" in widget.score
        assert widget.score == terminal.score()


@settings(max_examples=10, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data(), seed=st.integers(0, 2**53 - 1))
def test_the_exam_too(tmp_path: Path, data: st.DataObject, seed: int) -> None:
    quiz = exam(seed)
    answers = {q.id: data.draw(answers_to(q)) for q in draw(quiz, seed).questions}
    whole = grade_attempt(exam(seed), seed, answers)
    stores = [tmp_path / f"{next(STORES)}.sqlite3" for _front in range(2)]
    widget = in_notebook(quiz, seed, answers, stores[0])
    in_terminal(terminal := sit(quiz, seed, stores[1]), Learner(typed(quiz, seed, answers)))
    assert widget.sitting.result() == terminal.result() == whole
