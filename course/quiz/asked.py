"""A question as it is asked: in one language, its choices shuffled, its numbers drawn.

Everything a front shows and everything that grading needs; made from the file's question by `course.quiz.drawing`.
Places in an answer count from 0, in the order in which things are shown.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from minipar.pipeline import Schedule


@dataclass(frozen=True, kw_only=True)
class Question:
    """What all kinds have. `solution` is shown with the grade; then the question takes no further answer."""

    id: str
    text: str
    points: float
    read_again: str | None = None
    solution: str | None = None


@dataclass(frozen=True)
class Option:
    """A choice, and what to say about it when it was picked."""

    text: str
    feedback: str
    right: bool


@dataclass(frozen=True, kw_only=True)
class Choose(Question):
    """Pick one of `options`, or with `several` all that are right. Answer: a place, or a list of places."""

    options: tuple[Option, ...]
    several: bool


@dataclass(frozen=True)
class KnownMistake:
    """A number that a mistake leads to, and what to say about it."""

    value: float
    feedback: str


@dataclass(frozen=True, kw_only=True)
class GiveNumber(Question):
    """Give a number within `tolerance` of `key`. Answer: a number, or its text, with or without the unit."""

    key: float
    tolerance: float
    unit: str
    right: str
    wrong: str
    mistakes: tuple[KnownMistake, ...]


@dataclass(frozen=True)
class Movable:
    """A thing to put in its place, counted from 0; `feedback` is for when it stands too early."""

    text: str
    feedback: str
    place: int


@dataclass(frozen=True, kw_only=True)
class PutInOrder(Question):
    """Put `items`, shown in another order, in theirs. Answer: the list of their shown places, first things first."""

    items: tuple[Movable, ...]
    right: str


@dataclass(frozen=True)
class Left:
    """A left side, where its partner is shown among the right sides, and what to say where it was not found."""

    text: str
    feedback: str
    partner: int


@dataclass(frozen=True, kw_only=True)
class FindPartners(Question):
    """Find the right side of each left one. Answer: for each left side the place of a right side."""

    lefts: tuple[Left, ...]
    rights: tuple[str, ...]
    right: str


@dataclass(frozen=True, kw_only=True)
class WriteSchedule(Question):
    """Write a schedule, one line a rank, as good as `known` in each of `targets` (``bubble``, ``live``).

    Answer: the list of lines, or one text with line breaks.
    """

    known: Schedule
    targets: dict[str, str]
    right: str


Asked: TypeAlias = Choose | GiveNumber | PutInOrder | FindPartners | WriteSchedule
