"""Files that somebody else made: their size, encoding and depth are looked at before anything in them is believed."""

from __future__ import annotations

import json
import math
import unicodedata
from pathlib import Path
from typing import Any

from minipar.words import _

DEEP = 20  # levels of lists and objects in a JSON document; the course's own have fewer than ten
MOST_DIGITS = 40  # of an integer; a longer one is no seed and no count
MOST_NAME = 100  # characters of a person's name

# Characters that turn the direction of what follows: with them one name can look like another (Unicode TR 36).
TURNING = {chr(c) for c in (*range(0x202A, 0x202F), *range(0x2066, 0x206A))}


def read_bytes(path: Path, most: int) -> bytes:
    """A file's bytes; `ValueError` where it is no file, cannot be read, or has more than `most` bytes."""
    try:
        if not path.is_file():  # a folder, a pipe, a device: none of them has an end that is sure to come
            words = _("{path} is not a file") if path.exists() else _("there is no file {path}")
            raise ValueError(words.format(path=path))
        with path.open("rb") as file:
            data = file.read(most + 1)
    except OSError as error:
        reason = error.strerror or str(error)
        raise ValueError(_("{path} cannot be read: {reason}").format(path=path, reason=reason)) from None
    if len(data) > most:
        raise ValueError(_("{path} is larger than {most} bytes").format(path=path, most=most))
    return data


def parse_json(data: bytes) -> Any:
    """What a JSON document says. Stricter than `json.loads`, as `ValueError` with a sentence says:

    UTF-8 without surrogates, no name twice in one object, finite numbers, at most `DEEP` levels.
    """
    try:
        document = json.loads(
            data.decode("utf-8"),
            object_pairs_hook=_once,
            parse_constant=_no_constant,
            parse_float=_finite,
            parse_int=_short_integer,
        )
    except UnicodeDecodeError:
        raise ValueError(_("it is not in UTF-8")) from None
    except json.JSONDecodeError as error:
        raise ValueError(
            _("it is no JSON (line {line}, column {column})").format(line=error.lineno, column=error.colno)
        ) from None
    except RecursionError:
        raise ValueError(_("it is nested too deeply")) from None
    _check(document, 0)
    return document


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _value in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(_("it has {name} twice in one object").format(name=shown(twice)))
    return found


def _no_constant(name: str) -> float:
    raise ValueError(_("{name} is no number in JSON").format(name=name))


def _finite(text: str) -> float:
    if not math.isfinite(value := float(text)):
        raise ValueError(_("{text} is too large a number").format(text=shown(text)))
    return value


def _short_integer(text: str) -> int:
    if len(text) > MOST_DIGITS:
        raise ValueError(_("{text} is too large a number").format(text=shown(text)))
    return int(text)


def _check(value: Any, depth: int) -> None:
    if depth > DEEP:
        raise ValueError(_("it is nested too deeply"))
    if isinstance(value, str):
        if any("\ud800" <= c <= "\udfff" for c in value):
            raise ValueError(_("it has half a character (a lone surrogate)"))
    elif isinstance(value, list):
        for item in value:
            _check(item, depth + 1)
    elif isinstance(value, dict):
        for name, item in value.items():
            _check(name, depth + 1)
            _check(item, depth + 1)


def shown(value: Any) -> str:
    """A value in a message: its beginning, in ASCII, so that no document can flood or garble a terminal."""
    text = ascii(value) if isinstance(value, (str, int, float, bool, type(None))) else type(value).__name__
    return text if len(text) <= 60 else text[:57] + "..."


def person_name(text: str) -> str:
    """A person's name in normal form (NFC, single spaces); `ValueError` for one that could not be shown honestly."""
    name = unicodedata.normalize("NFC", " ".join(text.split()))
    if not name:
        raise ValueError(_("a name is needed"))
    if len(name) > MOST_NAME:
        raise ValueError(
            _("a name has at most {most} characters; this one has {count}").format(most=MOST_NAME, count=len(name))
        )
    for character in name:
        if character in TURNING or unicodedata.category(character) in ("Cc", "Cs", "Co", "Cn", "Zl", "Zp"):
            code = f"U+{ord(character):04X}"
            raise ValueError(_("a name cannot have the character {code}").format(code=code))
    if not any(unicodedata.category(character).startswith("L") for character in name):
        raise ValueError(_("a name needs at least one letter"))
    return name
