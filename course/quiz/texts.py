"""A text of a quiz file: a mapping from language to Markdown; English is required."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import AfterValidator, Field

from course.quiz.document import strange
from course.quiz.prose import parse

LONGEST = 4000
LANGUAGE = re.compile(r"[a-z]{2,3}")


def _checked(texts: dict[str, str]) -> dict[str, str]:
    if not texts.get("en", "").strip():
        raise ValueError("a text needs an English sentence under 'en'")
    for language, text in texts.items():
        if not LANGUAGE.fullmatch(language):
            raise ValueError(f"{language!r} is not the code of a language, such as 'en' or 'bn'")
        if not text.strip():
            raise ValueError(f"the text in language {language!r} is empty")
        if len(text) > LONGEST:
            raise ValueError(f"a text has at most {LONGEST} characters, not {len(text)}")
        if (odd := strange(text)) is not None:
            raise ValueError(f"the character U+{ord(odd):04X} cannot be shown")
        parse(text)
    return texts


Text = Annotated[dict[str, Annotated[str, Field(strict=True)]], AfterValidator(_checked)]
"""Markdown (emphasis, lists, code) with formulas between dollar signs, by language."""


def same(text: str) -> dict[str, str]:
    """A text that was translated already, such as one of the library's."""
    return {"en": text}
