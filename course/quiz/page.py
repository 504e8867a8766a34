"""What the page of a notebook may know of a quiz: texts as trees of elements, and no key."""

from __future__ import annotations

from typing import Any

from course.quiz.asked import Asked, Choose, FindPartners, GiveNumber, PutInOrder, WriteSchedule
from course.quiz.grade import Grade
from course.quiz.node import for_page
from course.quiz.prose import for_terminal, inline, parse


def question(asked: Asked) -> dict[str, Any]:
    """A question as the page shows it."""
    page: dict[str, Any] = {"id": asked.id, "text": for_page(parse(asked.text))}
    if isinstance(asked, GiveNumber):
        return page | {"kind": "number", "unit": asked.unit}
    if isinstance(asked, PutInOrder):
        return page | {"kind": "order", "items": [_named(item.text) for item in asked.items]}
    if isinstance(asked, FindPartners):
        lefts = [_line(left.text) for left in asked.lefts]
        rights = [for_terminal(right).plain for right in asked.rights]  # an option takes text alone
        return page | {"kind": "match", "lefts": lefts, "rights": rights}
    if isinstance(asked, WriteSchedule):
        return page | {"kind": "schedule", "ranks": asked.known.ranks}
    assert isinstance(asked, Choose)
    kind = "several" if asked.several else "one"
    return page | {"kind": kind, "choices": [_line(option.text) for option in asked.options]}


def _named(text: str) -> dict[str, Any]:
    """A text, and its plain form for the names of buttons."""
    return {"text": _line(text), "plain": for_terminal(text).plain}


def _line(text: str) -> list[Any]:
    return for_page(inline(text))


def grade(grade: Grade) -> dict[str, Any]:
    """A grade as the page shows it."""
    return {
        "remarks": [{"place": r.place, "right": r.right, "text": _line(r.text)} for r in grade.remarks],
        "read_again": grade.read_again,
        "solution": None if grade.solution is None else for_page(parse(grade.solution)),
    }
