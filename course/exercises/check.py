"""What a learner calls: `check` an answer, ask for a `hint`, look at the `solution`."""

from __future__ import annotations

import inspect
import warnings
from collections import Counter
from dataclasses import replace
from typing import Any

from course.exercises.exercise import Answer, Exercise, Status, Verdict
from course.exercises.lesson00 import COLUMN_LINEAR
from course.progress import Kind, Progress, ProgressError
from minipar.words import _

_unkept: Counter[tuple[str, str]] = Counter()  # what was done while progress could not be kept

EXERCISES = {exercise.name: exercise for exercise in (COLUMN_LINEAR,)}


class Note(str):
    """A text that a notebook shows as it is, without quotes."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


def find(name: str) -> Exercise:
    """The exercise with this name; `ValueError` that names those there are."""
    if name not in EXERCISES:
        known = ", ".join(EXERCISES)
        raise ValueError(_("there is no exercise {name!r}; there are: {known}").format(name=name, known=known))
    return EXERCISES[name]


def check(name: str, answer: Answer) -> Verdict:
    """Judge `answer` on fresh ranks, keep the result, and say what to do next."""
    exercise = find(name)
    verdict = exercise.examine(answer)
    if verdict.status is not Status.NOT_TRIED:
        _keep("exercise", exercise, float(verdict.status is Status.PASSED), verdict.status.value)
    if verdict.status is Status.PASSED:
        return verdict
    return replace(verdict, next_step=_('Stuck? hint("{name}") gives the next hint.').format(name=name))


def hint(name: str) -> Note:
    """The next hint; after the last one, all of them again, from the first."""
    exercise = find(name)
    given = _keep("hint", exercise)
    number = (given - 1) % len(exercise.hints)
    label = _("Hint {number} of {count}: ").format(number=number + 1, count=len(exercise.hints))
    last = number + 1 == len(exercise.hints)
    after = _('\nStill stuck? solution("{name}") shows one way; it costs nothing.').format(name=name) if last else ""
    return Note(label + exercise.hints[number] + after)


def solution(name: str) -> Note:
    """The solution's source. That it was looked at is kept; it costs nothing."""
    exercise = find(name)
    _keep("solution", exercise)
    return Note(inspect.getsource(exercise.solution))


def _keep(kind: Kind, exercise: Exercise, points: float = 0.0, detail: Any = None) -> int:
    """Record what was done; returns how often it was, this time included. Says so where it cannot be kept."""
    item = f"{exercise.lesson}/{exercise.name}"
    try:
        progress = Progress()
        progress.record(kind, item, points, detail)
        return len(progress.events(kind, item))
    except ProgressError as error:
        warnings.warn(str(error), stacklevel=3)
        _unkept[kind, item] += 1
        return _unkept[kind, item]
