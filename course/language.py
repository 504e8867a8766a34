"""The reader's language: which text of a quiz to show, chosen as `gettext` chooses (see `minipar.words`)."""

from __future__ import annotations

import os
from collections.abc import Mapping


def languages() -> list[str]:
    """The languages that the reader asked for, best first, such as ``["bn", "en"]``."""
    asked = next((os.environ[v] for v in ("LANGUAGE", "LC_ALL", "LC_MESSAGES", "LANG") if os.environ.get(v)), "")
    codes = [code.split(".")[0].split("_")[0] for code in asked.split(":")]
    return [*(code for code in codes if code not in ("", "C", "POSIX")), "en"]


def localized(texts: Mapping[str, str]) -> str:
    """The text in the reader's language, from one that carries a language key; English if there is none."""
    return next((texts[code] for code in languages() if code in texts), texts["en"])
