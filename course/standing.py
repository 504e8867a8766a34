"""Where a learner stands: what is passed in each lesson, the time it took, what comes next, and what is left."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from course.events import Event
from course.exercises.catalogue import EXERCISES
from course.lessons import Lesson, lessons
from course.quiz.attempt import passes
from course.quiz.exam import EXAM, PASS_MARK
from course.quiz.schema import load
from minipar.words import _

PAUSE = 900.0  # seconds; who does nothing for longer was elsewhere


@dataclass(frozen=True)
class Standing:
    """One lesson: the best score of its quiz (0 to 1, None if not taken), its exercises, and minutes spent on it."""

    lesson: Lesson
    score: float | None
    quiz_passed: bool
    passed: tuple[str, ...]
    exercises: tuple[str, ...]
    minutes: float

    @property
    def done(self) -> bool:
        """Whether the quiz and every exercise are passed."""
        return self.quiz_passed and len(self.passed) == len(self.exercises)

    @property
    def minutes_left(self) -> float:
        """Minutes that the rest will take: the lesson's, in proportion to what is not passed of quiz and exercises."""
        parts = 1 + len(self.exercises)
        return self.lesson.minutes * (parts - self.quiz_passed - len(self.passed)) / parts


@dataclass(frozen=True)
class Course:
    """All lessons and the exam: its best score (0 to 1, None if not taken), and minutes spent on it."""

    lessons: tuple[Standing, ...]
    exam: float | None
    exam_minutes: float

    @property
    def exam_passed(self) -> bool:
        """Whether the exam is passed."""
        return self.exam is not None and passes(self.exam, 1.0, PASS_MARK)

    @property
    def minutes(self) -> float:
        """Minutes spent on everything."""
        return sum(one.minutes for one in self.lessons) + self.exam_minutes

    @property
    def minutes_left(self) -> float:
        """Minutes that the lessons will still take."""
        return sum(one.minutes_left for one in self.lessons)


@dataclass(frozen=True)
class Step:
    """What to do next, as a sentence, and the command that does it."""

    sentence: str
    command: str


def standing(events: Sequence[Event]) -> Course:
    """Where the learner stands whose log this is, oldest event first. Raises `QuizError` for a quiz that is broken."""
    spent = minutes_by_item(events)
    return Course(
        tuple(_lesson(lesson, events, spent) for lesson in lessons()), _best(events, EXAM), spent.get(EXAM, 0.0)
    )


def _lesson(lesson: Lesson, events: Sequence[Event], spent: dict[str, float]) -> Standing:
    score = _best(events, lesson.name)
    known = [exercise for exercise in EXERCISES.values() if exercise.lesson == lesson.name]
    passed = {event.item for event in events if event.kind == "exercise" and event.points >= 1}
    return Standing(
        lesson,
        score,
        score is not None and passes(score, 1.0, load(lesson.quiz).pass_mark),
        tuple(exercise.name for exercise in known if exercise.item in passed),
        tuple(exercise.name for exercise in known),
        spent.get(lesson.name, 0.0),
    )


def _best(events: Sequence[Event], quiz: str) -> float | None:
    shares = [min(event.points, 1.0) for event in events if event.kind == "attempt" and event.item == quiz]
    return max(shares, default=None)


def minutes_by_item(events: Sequence[Event]) -> dict[str, float]:
    """Minutes spent, by lesson (and "exam"): the time before each event since the one before, pauses left out.

    It is a lower bound: what came before the first event of a sitting is not known.
    """
    spent: dict[str, float] = {}
    for before, event in itertools.pairwise(events):
        seconds = (event.at - before.at).total_seconds()
        if 0 <= seconds <= PAUSE:
            name = event.item.partition("/")[0]
            spent[name] = spent.get(name, 0.0) + seconds / 60
    return spent


def next_step(course: Course) -> Step:
    """What to do next."""
    for one in course.lessons:
        if one.done:
            continue
        lesson = one.lesson
        title = _("Lesson {id}, {title}").format(id=lesson.id, title=lesson.title)
        missing = [name for name in one.exercises if name not in one.passed]
        if one.score is None and not one.passed:
            return Step(_("{title}.").format(title=title), f"course start {lesson.id}")
        if missing:
            words = _("{title}: the exercise {name}.")
            return Step(words.format(title=title, name=missing[0]), f"course start {lesson.id}")
        return Step(_("{title}: the quiz.").format(title=title), f"course quiz {lesson.id}")
    if not course.exam_passed:
        return Step(_("The final exam."), "course quiz exam")
    return Step(_("Everything is passed. Your certificate is waiting."), 'course certificate --name "…"')


def facts(course: Course) -> dict[str, Any]:
    """All of it as JSON; times are in minutes, scores are shares."""
    step = next_step(course)
    return {
        "lessons": [
            {
                "lesson": one.lesson.name,
                "title": one.lesson.title,
                "score": one.score,
                "quiz_passed": one.quiz_passed,
                "exercises_passed": list(one.passed),
                "exercises": list(one.exercises),
                "minutes_spent": round(one.minutes, 1),
                "minutes_left": round(one.minutes_left, 1),
                "done": one.done,
            }
            for one in course.lessons
        ],
        "exam": {"score": course.exam, "passed": course.exam_passed, "minutes_spent": round(course.exam_minutes, 1)},
        "minutes_spent": round(course.minutes, 1),
        "minutes_left": round(course.minutes_left, 1),
        "next": {"what": step.sentence, "command": step.command},
    }
