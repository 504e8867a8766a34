"""What a learner calls: `check` an answer, ask for a `hint`, look at the `solution`."""

from __future__ import annotations

import inspect
import warnings
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

from course.exercises.catalogue import EXERCISES, find
from course.exercises.exercise import Answer, Exercise, Status, Verdict
from course.exercises.submission import capture
from course.judge import client
from course.progress import Kind, Progress, ProgressError
from minipar.words import _

__all__ = ["EXERCISES", "Note", "ask", "check", "find", "hint", "solution"]

_unkept: Counter[tuple[str, str]] = Counter()  # what was done while progress could not be kept


class Note(str):
    """A text that a notebook shows as it is, without quotes."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


def check(name: str, answer: Answer) -> Verdict:
    """Judge `answer` on fresh ranks, keep the result with its source, and say what to do next.

    Raises `ValueError` for an unknown exercise, and for an answer whose source cannot be captured.
    """
    find(name)
    verdict, notice = ask(name, capture(answer), Progress().path)
    if verdict.printed:
        print(verdict.printed, end="")
    if notice:
        warnings.warn(notice, stacklevel=2)
    if verdict.status is Status.PASSED:
        return verdict
    return replace(verdict, next_step=_('Stuck? hint("{name}") gives the next hint.').format(name=name))


def ask(name: str, source: str, file: Path | None) -> tuple[Verdict, str]:
    """The judge's verdict on a source, and why it could not be kept in `file`, if it should be and could not."""
    find(name)
    try:
        reply = client.ask(name, source, file)
    except client.JudgeGone as error:
        message = _("The process that judges ended while your function ran. {reason}").format(reason=error)
        return Verdict(Status.RAISED, message), ""
    return Verdict.from_json(reply["verdict"]), reply["notice"]


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
    try:
        progress = Progress()
        progress.record(kind, exercise.item, points, detail)
        return len(progress.events(kind, exercise.item))
    except ProgressError as error:
        warnings.warn(str(error), stacklevel=3)
        _unkept[kind, exercise.item] += 1
        return _unkept[kind, exercise.item]
