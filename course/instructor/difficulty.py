"""How difficult each question was for a class: of how many learners, how many points at first and at best."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from course.bundle import Bundle
from course.instructor.regrade import grade_try
from course.quiz.exam import EXAM


@dataclass(frozen=True)
class Question:
    """A question of a quiz: by how many learners it was answered, and the mean share of its points (0 to 1)."""

    quiz: str
    question: str
    learners: int
    first: float
    best: float


def difficulty(bundles: Sequence[Bundle]) -> list[Question]:
    """Every question that someone answered, the most difficult at first sight foremost.

    A learner counts once for each question, however many answers and bundles they gave. All are graded again; what
    cannot be graded is left out. In the exam, where an answer may be changed until all is handed in, only what was
    handed in counts.
    """
    shares: dict[tuple[str, str], dict[str, list[float]]] = {}
    seen: set[str] = set()
    for bundle in bundles:
        answers = [a for a in bundle.answers if a.quiz != EXAM] + [t for t in bundle.tries if t.quiz == EXAM]
        for made in answers:
            if made.uuid in seen:
                continue
            seen.add(made.uuid)
            for question, (got, of) in grade_try(made).grades.items():
                shares.setdefault((made.quiz, question), {}).setdefault(bundle.learner, []).append(got / of)
    questions = [_question(*place, list(by_learner.values())) for place, by_learner in shares.items()]
    return sorted(questions, key=lambda q: (q.first, q.best, q.quiz, q.question))


def _question(quiz: str, question: str, shares: list[list[float]]) -> Question:
    learners = len(shares)
    first = sum(of_one[0] for of_one in shares) / learners
    return Question(quiz, question, learners, first, sum(map(max, shares)) / learners)
