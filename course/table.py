"""The table of a learner's progress, as rows of texts: the terminal and the notebook show the same."""

from __future__ import annotations

from typing import NamedTuple

from course.standing import Course, next_step
from minipar.words import _, plural


class Table(NamedTuple):
    """Heads, one row of texts a lesson (the first names it), the exam's row last, and the sentences below.

    notebooks: each row's notebook, as a name beside the one that shows the table; empty for the exam.
    """

    title: str
    heads: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    notebooks: tuple[str, ...]
    sentences: tuple[str, ...]


def table(course: Course) -> Table:
    """The progress in words."""
    heads = (_("lesson"), _("quiz, best"), _("exercises passed"), _("minutes spent"), _("minutes left"), _("done"))
    rows = [
        (
            f"{one.lesson.id}  {one.lesson.title}",
            _score(one.score, one.quiz_passed),
            _("{passed} of {all}").format(passed=len(one.passed), all=len(one.exercises)),
            f"{one.minutes:.0f}",
            f"{one.minutes_left:.0f}",
            _yes(one.done),
        )
        for one in course.lessons
    ]
    exam = _score(course.exam, course.exam_passed)
    rows.append((_("Final exam"), exam, "", f"{course.exam_minutes:.0f}", "", _yes(course.exam_passed)))
    notebooks = (*(one.lesson.notebook.name for one in course.lessons), "")
    return Table(_("Your progress"), heads, tuple(rows), notebooks, _sentences(course))


def _score(share: float | None, passed: bool) -> str:
    if share is None:
        return _("not taken")
    words = _("{percent:.0f} %, passed") if passed else _("{percent:.0f} %, not passed yet")
    return words.format(percent=100 * share)


def _yes(done: bool) -> str:
    return _("yes") if done else _("no")


def _sentences(course: Course) -> tuple[str, ...]:
    step, left = next_step(course), round(course.minutes_left)
    rest = plural("About {count} minute of lessons is left.", "About {count} minutes of lessons are left.", left)
    return (
        _("Next: {what}").format(what=step.sentence),
        _("In a terminal: {command}").format(command=step.command),
        rest if left else _("No lesson is left."),
    )
