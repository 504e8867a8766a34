"""A language that nobody speaks: each letter of a sentence is another one, so that English that is left stands out.

Code, formulas and the holes for values stay as they are, as a translator would leave them.
"""

import gettext
import json
import re
from collections.abc import Iterable
from string import ascii_letters
from typing import Any

import pytest

from course.quiz.schema import Quiz

LANGUAGE = "xx"
LETTERS = str.maketrans(ascii_letters, "".join(chr(0x0561 + i % 26) for i in range(52)))  # Armenian
STAYS = re.compile(r"(\{[^{}]*\}|`[^`]*`|\$[^$]*\$|```.*?```)", re.DOTALL)
HOLE = re.compile(r"\{\w+\}")
WORD = re.compile(r"[A-Za-z]{2,}")


class Pseudo:
    """The language; `code` is what stood in code and formulas of all that was translated."""

    def __init__(self) -> None:
        self.code: set[str] = set()

    def translated(self, text: str) -> str:
        """The text in this language."""
        parts = STAYS.split(text)
        self.code |= {word for part in parts[1::2] if part[0] != "{" for word in WORD.findall(part)}
        return "".join(part if i % 2 else part.translate(LETTERS) for i, part in enumerate(parts))

    def quiz(self, quiz: Quiz) -> Quiz:
        """The quiz with every text in this language beside the English one."""
        return Quiz.model_validate(self._with_language(json.loads(quiz.model_dump_json())))

    def _with_language(self, part: Any) -> Any:
        if isinstance(part, list):
            return [self._with_language(one) for one in part]
        if not isinstance(part, dict):
            return part
        if isinstance(part.get("en"), str):
            return part | {LANGUAGE: self.translated(part["en"])}
        return {name: self._with_language(value) for name, value in part.items()}

    def english(self, texts: Iterable[str], names: Iterable[str] = ()) -> set[str]:
        """The words in the texts that are not of this language, and neither code nor one of the names."""
        allowed = self.code | {word for name in names for word in WORD.findall(name)}
        return {word for text in texts for word in WORD.findall(HOLE.sub(" ", text))} - allowed


def switch_on(patch: pytest.MonkeyPatch) -> Pseudo:
    """From here on every sentence is asked for in this language."""
    language = Pseudo()
    patch.setenv("LANGUAGE", LANGUAGE)
    patch.setattr(gettext, "dgettext", lambda _domain, text: language.translated(text))
    patch.setattr(
        gettext, "dngettext", lambda _domain, one, many, count: language.translated(one if count == 1 else many)
    )
    return language
