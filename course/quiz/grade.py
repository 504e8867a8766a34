"""Grading: a pure function from a question and an answer to points and feedback, shared by every front."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from course.language import localized
from course.number import read_number
from course.quiz.schema import AnyQuestion, Number, OneChoice, SeveralChoices
from minipar.words import _


@dataclass(frozen=True)
class Remark:
    """What to say about one choice (or the whole answer, where `choice` is None), and whether it was right."""

    choice: int | None
    right: bool
    text: str


@dataclass(frozen=True)
class Grade:
    """Points got of those possible, what to say, and where to read again after a wrong answer."""

    points: float
    possible: float
    remarks: tuple[Remark, ...]
    read_again: str | None

    @property
    def right(self) -> bool:
        """Whether the answer was wholly right."""
        return self.points == self.possible


def grade(question: AnyQuestion, answer: Any) -> Grade:
    """Grade `answer`: the index of a choice (one), a list of indices (several), or a number or its text (number).

    Raises `ValueError`, with a sentence for the learner, for an answer that is none.
    """
    if isinstance(question, Number):
        share, remarks = _grade_number(question, answer)
    elif isinstance(question, OneChoice):
        share, remarks = _grade_choices(question, [answer])
    else:
        share, remarks = _grade_choices(question, answer)
    return Grade(share * question.points, question.points, remarks, None if share == 1 else question.read_again)


def _grade_choices(question: OneChoice | SeveralChoices, picked: Any) -> tuple[float, tuple[Remark, ...]]:
    """The share of the right choices that were picked, less one for each wrong one; and a remark for each pick."""
    valid = isinstance(picked, Sequence) and picked and all(type(i) is int for i in picked)
    if not valid or not all(0 <= i < len(question.choices) for i in picked):
        raise ValueError(_("pick a choice first"))
    chosen = [question.choices[i] for i in sorted(set(picked))]
    remarks = [
        Remark(i, choice.right, localized(choice.feedback))
        for i, choice in zip(sorted(set(picked)), chosen, strict=True)
    ]
    good, bad = sum(c.right for c in chosen), sum(not c.right for c in chosen)
    wanted = sum(c.right for c in question.choices)
    if bad == 0 and good < wanted:
        remarks.append(Remark(None, False, _("Right so far, but there is more to pick.")))
    return max(0.0, (good - bad) / wanted), tuple(remarks)


def _grade_number(question: Number, answer: Any) -> tuple[float, tuple[Remark, ...]]:
    value = read_number(answer, question.unit)

    def is_near(key: float) -> bool:
        # A hair's breadth more, so that a tolerance of 0.5 admits exactly half away.
        return abs(value - key) <= question.tolerance + 1e-9

    if is_near(question.key.value):
        return 1.0, (Remark(None, True, localized(question.right)),)
    known = next((m.feedback for m in question.mistakes if is_near(m.key.value)), question.wrong)
    return 0.0, (Remark(None, False, localized(known)),)
