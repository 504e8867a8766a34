"""Grading a bundle again from raw answers and sources alone. Run as a module it does so in a process of its own.

The process knows no key and starts with an empty data folder. Answers are graded by the pure function that graded
them before; a learner's code runs only on fresh ranks below this process, each time with a timeout. That keeps one
bundle from touching the next one's grading. It is no jail: the code runs as whoever started it, and can read and
write what they can.
"""

from __future__ import annotations

import functools
import hashlib
import json
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from course.bundle import Bundle, Solution, Try, unpack
from course.certificate.work import Score, Work, quizzes, required
from course.exercises.exercise import Status
from course.exercises.submission import regrade as regrade_source
from course.lessons import find, lessons
from course.quiz.attempt import grade_attempt
from course.quiz.exam import EXAM, exam
from course.quiz.schema import Quiz, load
from minipar.words import _

TRIES = 3  # solutions of one exercise that are run, the latest first, until one passes
SAME = 1e-9  # shares closer than this are one score


@dataclass(frozen=True)
class GradedTry:
    """An attempt graded again: share of the points, points got and possible by question; or the problem with it.

    `file` is the SHA-256 of the quiz that it was graded by; `other_file` says that it was answered on another one.
    """

    quiz: str
    claimed: float
    share: float
    grades: Mapping[str, tuple[float, float]]
    file: str
    other_file: bool = False
    problem: str = ""

    @property
    def differs(self) -> bool:
        """Whether the claimed score is another one."""
        return bool(self.problem) or abs(self.claimed - self.share) > SAME


@dataclass(frozen=True)
class GradedSolution:
    """A solution that was run again: whether it passed, the SHA-256 of its source, and the verdict in words."""

    item: str
    passed: bool
    sha256: str
    verdict: str


@dataclass(frozen=True)
class Graded:
    """A bundle graded again."""

    tries: tuple[GradedTry, ...]
    solutions: tuple[GradedSolution, ...]

    def work(self) -> Work:
        """What counts: of each quiz the best attempt, of each exercise the solution that passed."""
        scores: dict[str, Score] = {}
        for graded in self.tries:
            if not graded.problem and (graded.quiz not in scores or graded.share > scores[graded.quiz].share):
                scores[graded.quiz] = Score(graded.share, graded.file)
        passed = {graded.item: graded.sha256 for graded in self.solutions if graded.passed}
        return Work(scores, {item: passed[item] for item in required() if item in passed})


def grade_bundle(bundle: Bundle) -> Graded:
    """Grade every attempt of a bundle, and run the solutions that are claimed to pass."""
    return Graded(tuple(map(grade_try, bundle.tries)), tuple(_run_solutions(bundle)))


def grade_try(made: Try) -> GradedTry:
    """Grade one attempt; nothing of the learner's is executed."""
    try:
        quiz = _quiz(made)
        result = grade_attempt(quiz, made.seed, made.answers)
    except ValueError as error:
        return GradedTry(made.quiz, made.claimed, 0.0, {}, made.file, problem=str(error))
    grades = {question: (grade.points, grade.possible) for question, grade in result.grades.items()}
    return GradedTry(made.quiz, made.claimed, result.share, grades, quiz.sha256, quiz.sha256 != made.file)


def _quiz(made: Try) -> Quiz:
    """The quiz of an attempt, as it is here; `ValueError` where there is none."""
    if made.quiz not in quizzes():
        raise ValueError(_("there is no quiz {name}").format(name=made.quiz))
    if made.quiz == EXAM:
        return exam(made.seed, [_of_lesson(lesson.name) for lesson in lessons()])
    return _of_lesson(made.quiz)


@functools.cache
def _of_lesson(name: str) -> Quiz:
    return load(find(name).quiz)


def _run_solutions(bundle: Bundle) -> list[GradedSolution]:
    graded = []
    for item in required():
        claimed = [s for s in bundle.solutions if s.item == item and s.claimed]
        for solution in [*reversed(claimed)][:TRIES]:
            graded.append(_run_solution(solution))
            if graded[-1].passed:
                break
    return graded


def _run_solution(solution: Solution) -> GradedSolution:
    sha256 = hashlib.sha256(solution.source.encode()).hexdigest()
    try:
        verdict = regrade_source(solution.item.partition("/")[2], solution.source)
    except ValueError as error:
        return GradedSolution(solution.item, False, sha256, str(error))
    return GradedSolution(solution.item, verdict.status is Status.PASSED, sha256, verdict.title)


def to_json(graded: Graded) -> str:
    """A graded bundle as JSON."""
    return json.dumps(asdict(graded))


def from_json(text: str) -> Graded:
    """A graded bundle from the JSON of `to_json`."""
    document: dict[str, Any] = json.loads(text)
    tries = [
        GradedTry(**{**made, "grades": {question: (got, of) for question, (got, of) in made["grades"].items()}})
        for made in document["tries"]
    ]
    return Graded(tuple(tries), tuple(GradedSolution(**solution) for solution in document["solutions"]))


if __name__ == "__main__":
    source, target = map(Path, sys.argv[1:])
    target.write_text(to_json(grade_bundle(unpack(source.read_bytes()))), encoding="utf-8")
