"""An attempt at a quiz: drawn from a seed, and graded as a whole by one pure function that every front shares."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from course.quiz.asked import Asked
from course.quiz.drawing import ask
from course.quiz.grade import Grade, grade
from course.quiz.schema import Quiz

MOST_SEEDS = 2**53
"""Seeds are whole numbers below this: JSON keeps them exactly, whoever reads it."""


@dataclass(frozen=True)
class Attempt:
    """A quiz as one learner gets it once: the questions as they are asked."""

    seed: int
    questions: tuple[Asked, ...]

    @property
    def possible(self) -> float:
        """The points of all questions."""
        return sum(question.points for question in self.questions)


@dataclass(frozen=True)
class Result:
    """What an attempt is worth. `grades` has the questions that were answered, by their ids; `share` is from 0 to 1."""

    points: float
    possible: float
    passed: bool
    grades: dict[str, Grade]

    @property
    def share(self) -> float:
        """Points got of those possible."""
        return self.points / self.possible


def draw(quiz: Quiz, seed: int) -> Attempt:
    """The attempt with this seed: choices shuffled, numbers drawn. The same on every machine and in every Python.

    Raises `ValueError` for a seed that is not a whole number from 0 to 2⁵³ − 1.
    """
    if type(seed) is not int or not 0 <= seed < MOST_SEEDS:
        raise ValueError(f"seed={seed!r}; it must be a whole number from 0 to 2⁵³ − 1")
    return Attempt(seed, tuple(ask(question, seed) for question in quiz.questions))


def grade_attempt(quiz: Quiz, seed: int, answers: Mapping[str, Any]) -> Result:
    """Grade the answers, by question id, to the attempt with this seed.

    A question without an answer, or with one that is none, has no points; answers to questions that there are not do
    not count. Raises `ValueError` for what is no seed or no mapping.
    """
    if not isinstance(answers, Mapping):
        raise ValueError(f"answers are {type(answers).__name__}; they must be a mapping from question ids")
    attempt = draw(quiz, seed)
    grades = {}
    for question in attempt.questions:
        if question.id in answers:
            try:
                grades[question.id] = grade(question, answers[question.id])
            except ValueError:
                continue
    points = sum(grade.points for grade in grades.values())
    return Result(points, attempt.possible, passes(points, attempt.possible, quiz.pass_mark), grades)


def passes(points: float, possible: float, mark: float) -> bool:
    """Whether so many points pass; rounding does not decide."""
    return points >= mark * possible - 1e-9
