"""The answer that gets all points: what the checks of quizzes and the tests of fronts need."""

from __future__ import annotations

from typing import Any

from course.quiz.asked import Asked, Choose, FindPartners, GiveNumber, PutInOrder, WriteSchedule


def perfect(question: Asked) -> Any:
    """The right answer, as JSON has it."""
    if isinstance(question, GiveNumber):
        return repr(question.key)
    if isinstance(question, PutInOrder):
        return sorted(range(len(question.items)), key=lambda i: question.items[i].place)
    if isinstance(question, FindPartners):
        return [left.partner for left in question.lefts]
    if isinstance(question, WriteSchedule):
        return [" ".join(f"{a.kind}{a.micro_batch}@{a.stage}" for a in row) for row in question.known.actions]
    assert isinstance(question, Choose)
    right = [i for i, option in enumerate(question.options) if option.right]
    return right if question.several else right[0]
