"""What a learner has done, as a certificate says it: a score for each quiz, and the hash of each solution."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import Any

from course.events import Event
from course.exercises.check import EXERCISES
from course.lessons import lessons
from course.quiz.attempt import passes
from course.quiz.exam import EXAM, PASS_MARK
from minipar.words import _

NEVER = datetime.min.replace(tzinfo=timezone.utc)


@dataclass(frozen=True)
class Score:
    """The best attempt at a quiz: the share of its points (0 to 1), and the SHA-256 (hex) of the quiz's file."""

    share: float
    quiz: str


@dataclass(frozen=True)
class Work:
    """Scores by quiz ("00-start", "exam"), and solutions: the SHA-256 (hex) of the source by "lesson/exercise".

    `since` is when the last of what counts here was done.
    """

    scores: Mapping[str, Score] = field(default_factory=dict)
    solutions: Mapping[str, str] = field(default_factory=dict)
    since: datetime = NEVER


def required() -> list[str]:
    """Every exercise of every lesson, as "lesson/exercise", in the order of the course."""
    return [
        f"{lesson.name}/{exercise.name}"
        for lesson in lessons()
        for exercise in EXERCISES.values()
        if exercise.lesson == lesson.name
    ]


def quizzes() -> list[str]:
    """Every quiz that a certificate lists: one a lesson, then the exam."""
    return [*(lesson.name for lesson in lessons()), EXAM]


def work_of(events: Iterable[Event]) -> Work:
    """What counts among events: of each quiz the best attempt, of each exercise the latest solution that passed."""
    scores: dict[str, tuple[Score, datetime]] = {}
    solutions: dict[str, tuple[str, datetime]] = {}
    for event in events:
        detail: Mapping[str, Any] = event.detail if isinstance(event.detail, Mapping) else {}
        if event.kind == "attempt" and event.item in quizzes() and isinstance(detail.get("quiz"), str):
            if event.item not in scores or event.points > scores[event.item][0].share:
                scores[event.item] = Score(min(event.points, 1.0), detail["quiz"]), event.at
        elif event.kind == "exercise" and event.points >= 1 and isinstance(detail.get("sha256"), str):
            solutions[event.item] = detail["sha256"], event.at
    times = [at for _what, at in (*scores.values(), *solutions.values())]
    return Work(
        {item: score for item, (score, _at) in scores.items()},
        {item: solutions[item][0] for item in required() if item in solutions},
        max(times, default=NEVER),
    )


def missing(work: Work) -> list[str]:
    """A sentence for each thing that is not yet passed; empty where the certificate is earned."""
    sentences = [
        _("exercise {name}: not passed yet (course check {lesson})").format(name=item, lesson=item[:2])
        for item in required()
        if item not in work.solutions
    ]
    score = work.scores.get(EXAM)
    if score is None:
        sentences.append(_("the final exam: not taken yet (course quiz exam)"))
    elif not passes(score.share, 1.0, PASS_MARK):
        words = _("the final exam: {got:.0f} % at best, {needed:.0f} % are needed (course quiz exam)")
        sentences.append(words.format(got=100 * score.share, needed=100 * PASS_MARK))
    return sentences
