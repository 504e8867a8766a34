"""A sitting keeps what was answered, and takes from the log only what it can have kept."""

import time
from typing import Any

import pytest

from course.progress import Progress
from course.quiz.grade import grade
from course.quiz.perfect import perfect
from course.quiz.sitting import Sitting, Source, source
from course.quiz.widget import QuizWidget
from tests.course.quiz.samples import at_the_end, sampler, sit


def answer_all(sitting: Sitting) -> None:
    for question in sitting.attempt.questions:
        sitting.answer(question, perfect(question))


def test_time_is_kept_over_several_sittings(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    sitting = sit(seed=5)
    sitting.begin()
    now[0] += 30
    sitting.answer(sitting.attempt.questions[0], perfect(sitting.attempt.questions[0]))
    again = Sitting(sampler(), Progress())
    now[0] += 1000  # nobody sits there
    again.begin()
    now[0] += 12
    answer_all_but_first(again)
    assert Progress().events("attempt", "sampler")[-1].detail["seconds"] == 42


def answer_all_but_first(sitting: Sitting) -> None:
    for question in sitting.attempt.questions[1:]:
        sitting.answer(question, perfect(question))


def test_attempts_are_counted_and_the_best_stays() -> None:
    sitting = sit(seed=5)
    answer_all(sitting)
    sitting.retake()
    assert sitting.attempt.seed != 5
    for question in sitting.attempt.questions:
        sitting.answer(question, wrong_answer(question))
    assert (sitting.tries, sitting.best) == (2, 1.0)
    again = Sitting(sampler(), Progress())
    assert (again.tries, again.best) == (2, 1.0)
    assert again.attempt == sitting.attempt


def wrong_answer(question: Any) -> Any:
    """An answer with fewer points than the right one."""
    for other in (["F0 F1 F2 F3 B0 B1 B2 B3"] * 2, "-1", 0, 1, [0], [1], [4, 3, 2, 1, 0], [0, 0, 0], [0, 1, 2, 3, 4]):
        try:
            if other != perfect(question) and grade(question, other).points < question.points:
                return other
        except ValueError:
            continue
    raise AssertionError(question)


def test_an_answer_that_is_made_better_is_the_same_attempt_with_a_better_score() -> None:
    sitting = sit(seed=5)
    first, *rest = sitting.attempt.questions
    sitting.answer(first, wrong_answer(first))
    for question in rest:
        sitting.answer(question, perfect(question))
    assert sitting.best is not None
    assert sitting.best < 1
    sitting.answer(first, perfect(first))
    assert (sitting.tries, sitting.best) == (1, 1.0)


def test_a_quiz_that_changed_since_begins_anew() -> None:
    sitting = sit(seed=5)
    sitting.answer(sitting.attempt.questions[0], perfect(sitting.attempt.questions[0]))
    changed = sitting.quiz.model_copy(update={"pass_mark": 0.5})
    changed._sha256 = "another"
    again = Sitting(Source("sampler", lambda _seed: changed), Progress())
    assert again.answers == {}


HOSTILE: list[Any] = [
    None,
    [],
    {"seed": 5},
    {"seed": True, "quiz": "x"},
    {"seed": -1},
    {"seed": 2**60},
    {"seed": "5", "quiz": []},
    {"question": {}, "answer": {}},
    {"question": "one", "answer": {"a": 1}},
    {"question": "one", "answer": [[[]]]},
    {"question": "several", "answer": 7},
    {"question": "several", "answer": "ab"},
    {"question": "order", "answer": [0, 0, 0, 0, 0]},
    {"question": "match", "answer": [99, 0, 0]},
    {"question": "schedule", "answer": {"0": "F0"}},
    {"question": "schedule", "answer": [["F0"], ["B0"]]},
    {"question": "number", "answer": [1]},
    {"question": "number", "answer": "nan"},
    {"question": "one", "answer": 0, "seconds": "long"},
    {"question": "one", "answer": 0, "seconds": -5},
    {"question": "one", "answer": 0, "seconds": [1]},
]


@pytest.mark.parametrize("detail", HOSTILE)
def test_a_log_from_elsewhere_can_hold_anything_and_the_quiz_opens(detail: Any) -> None:
    quiz = sampler().make(0)
    if isinstance(detail, dict) and "question" in detail:
        detail = {"seed": 5, "quiz": quiz.sha256, **detail}
    Progress().record("attempt", "sampler", 1e6, detail)
    Progress().record("answer", "sampler", 1, detail)
    widget = QuizWidget(Sitting(sampler(), Progress()))
    assert set(widget.answers) <= {"one"}
    assert widget.sitting.seconds >= 0
    answer_all(widget.sitting) if not widget.answers else answer_all_but_first(widget.sitting)
    assert widget.sitting.finished


def test_two_kernels_at_one_quiz_lose_no_answer() -> None:
    one = sit(seed=5)
    first, second, *_ = one.attempt.questions
    one.answer(first, perfect(first))
    two = Sitting(sampler(), Progress())
    two.answer(second, perfect(second))
    assert set(Sitting(sampler(), Progress()).answers) == {first.id, second.id}


def test_an_exam_that_was_handed_in_stays_handed_in() -> None:
    sitting = sit(at_the_end(), seed=5)
    sitting.answer(sitting.attempt.questions[0], perfect(sitting.attempt.questions[0]))
    sitting.hand_in()
    sitting.hand_in()
    again = Sitting(at_the_end(), Progress())
    assert again.handed_in
    assert again.tries == 1
    with pytest.raises(ValueError, match="this question is done"):
        again.answer(again.attempt.questions[1], perfect(again.attempt.questions[1]))


def test_a_score_beyond_the_whole_is_not_believed() -> None:
    Progress().record("attempt", "sampler", 40.0, {"seed": 1})
    assert Sitting(sampler(), Progress()).best == 1.0


def test_the_name_exam_is_the_exam() -> None:
    assert source("exam").id == "exam"
