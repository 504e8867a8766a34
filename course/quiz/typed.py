"""What a learner types in the terminal, as an answer: letters for choices, numbers, lines."""

from __future__ import annotations

import re
from collections.abc import Sequence
from string import ascii_lowercase
from typing import Any

from course.quiz.asked import Asked, Choose, FindPartners, GiveNumber, PutInOrder, WriteSchedule
from minipar.words import _


def letters(count: int) -> str:
    """The letters that stand for so many things."""
    return ascii_lowercase[:count]


def how(question: Asked) -> str:
    """How to answer a question of this kind, in a sentence."""
    if isinstance(question, GiveNumber):
        return _("Type a number (in {unit}).").format(unit=question.unit) if question.unit else _("Type a number.")
    if isinstance(question, PutInOrder):
        return _("Type the letters in the right order, such as `b a c`.")
    if isinstance(question, FindPartners):
        return _("Type the letter of each partner in turn, 1 first, such as `b a c`.")
    if isinstance(question, WriteSchedule):
        return _("Type one line for each rank, rank 0 first, such as `F0 F1 B0 B1`.")
    if question.several:
        return _("Type the letters of all that are true, such as `a c`.")
    return _("Type the letter of your choice.")


def lines_of(question: Asked) -> int:
    """How many lines an answer has."""
    return question.known.ranks if isinstance(question, WriteSchedule) else 1


def read(question: Asked, lines: Sequence[str]) -> Any:
    """The answer that was typed; `ValueError`, with a sentence for the learner, for what is none.

    Grading it may still refuse it: here only letters become places.
    """
    if isinstance(question, WriteSchedule):
        return list(lines)
    text = lines[0].strip()
    if isinstance(question, GiveNumber):
        return text
    if isinstance(question, PutInOrder):
        return _places(text, len(question.items))
    if isinstance(question, FindPartners):
        return _places(text, len(question.rights))
    assert isinstance(question, Choose)
    places = _places(text, len(question.options))
    if question.several:
        return places
    if len(places) != 1:
        raise ValueError(_("type one letter"))
    return places[0]


def _places(text: str, count: int) -> list[int]:
    known = letters(count)
    typed = re.sub(r"[\s,;.]+", "", text.lower())
    if len(typed) > 100:
        raise ValueError(_("that is too long"))
    for letter in typed:
        if letter not in known:
            raise ValueError(_("there is no {letter} here; type letters from {first} to {last}").format(
                letter=letter if letter.isprintable() else "?", first=known[0], last=known[-1]
            ))  # fmt: skip
    return [known.index(letter) for letter in typed]
