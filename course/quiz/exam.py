"""The final exam: questions of every lesson's quiz and generated ones, drawn for each attempt from its seed."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence

from course.language import localized
from course.lessons import lessons
from course.quiz.dice import Dice
from course.quiz.generated import GENERATED
from course.quiz.schema import AnyQuestion, Generated, Quiz, load
from course.quiz.texts import same
from minipar.words import _

EXAM = "exam"
PASS_MARK = 0.8
FROM_EACH = 2  # questions of each lesson
GENERATED_QUESTIONS = 8


def exam(seed: int, quizzes: Sequence[Quiz] | None = None) -> Quiz:
    """The exam with this seed. Every question is worth one point; feedback comes when all are handed in.

    quizzes: of all lessons, in their order, where they are loaded already. Raises `QuizError` as `load` does.
    """
    quizzes = [load(lesson.quiz) for lesson in lessons()] if quizzes is None else quizzes
    dice = Dice(seed, EXAM)
    questions = [question for quiz in quizzes for question in _of_lesson(quiz, dice)]
    asked = {question.function for question in questions if isinstance(question, Generated)}
    fresh = dice.shuffled([name for name in GENERATED if name not in asked])
    questions += [_generated(name) for name in fresh[:GENERATED_QUESTIONS]]
    title = same(_("Final exam"))
    drawn = Quiz(id=EXAM, title=title, pass_mark=PASS_MARK, feedback="at the end", questions=tuple(questions))
    drawn._sha256 = hashlib.sha256("".join(quiz.sha256 for quiz in quizzes).encode()).hexdigest()
    return drawn


def _of_lesson(quiz: Quiz, dice: Dice) -> Iterator[AnyQuestion]:
    for question in dice.shuffled(quiz.questions)[:FROM_EACH]:
        where = question.read_again and f"{localized(quiz.title)}: {question.read_again}"
        yield question.model_copy(update={"id": f"{quiz.id}-{question.id}", "points": 1.0, "read_again": where})


def _generated(name: str) -> Generated:
    return Generated(id=f"generated-{name}", kind="generated", function=name)
