"""A quiz file before it is understood: read within limits, and asked on which line a field stands.

A quiz file may come from anyone. What it has no need of is refused before anything is built from it: tags, which can
make objects, and anchors, with which a file of ten lines can fill the memory.
"""

from __future__ import annotations

import io
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedMap, CommentedSeq
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.events import AliasEvent, DocumentStartEvent, MappingStartEvent, ScalarEvent, SequenceStartEvent

MOST_BYTES = 256 * 1024
DEEPEST = 12
MOST_PARTS = 20_000


class QuizError(ValueError):
    """A quiz file that cannot be used; the message names the file, the line and the field."""


@dataclass(frozen=True)
class Document:
    """The file's content as plain lists, dicts and scalars, and the positions of its parts."""

    path: Path
    bytes: bytes
    content: Any
    positions: Any

    def error(self, location: Sequence[str | int], message: str) -> str:
        """A sentence about the field at `location`, with its file and line."""
        line, known = _locate(self.positions, location)
        field = ".".join(map(str, known))
        return f"{self.path.name}, line {line}: {f'{field}: ' if field else ''}{message}"


def read(path: Path) -> Document:
    """Read a YAML file; raises `QuizError` for one that is too large, not UTF-8, not YAML, or has tags or anchors."""
    try:
        with path.open("rb") as file:
            data = file.read(MOST_BYTES + 1)
    except OSError as error:
        raise QuizError(f"the quiz {path} cannot be read: {error.strerror}") from None
    if len(data) > MOST_BYTES:
        raise QuizError(f"{path.name} is too large; a quiz has at most {MOST_BYTES // 1024} KiB")
    try:
        text = data.decode("utf-8-sig")
        _check_events(path, text)
        positions = YAML(typ="rt").load(text)
        return Document(path, data, _plain(positions), positions)
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        raise QuizError(f"{path.name}, line {mark.line + 1 if mark else 1}: {error.problem or error.context}") from None
    except UnicodeDecodeError as error:
        raise QuizError(f"{path.name} is not a text in UTF-8: {error.reason} at byte {error.start}") from None
    except QuizError as error:
        raise QuizError(f"{path.name}, {error}") from None
    except (YAMLError, ValueError, RecursionError) as error:
        first = str(error).partition("\n")[0]
        raise QuizError(f"{path.name}: this is not a YAML file that can be read: {first}") from None


def _check_events(path: Path, text: str) -> None:
    """Refuse what would be dear or dangerous to build; nothing is built here."""
    depth, parts = 0, 0
    for event in YAML(typ="rt").parse(io.StringIO(text)):
        where = f"line {event.start_mark.line + 1}"
        if isinstance(event, AliasEvent) or getattr(event, "anchor", None) is not None:
            raise QuizError(f"{where}: anchors (&) and aliases (*) have no place in a quiz; put such a text in quotes")
        if isinstance(event, DocumentStartEvent) and (event.tags or event.version):
            raise QuizError(f"{where}: a quiz has no YAML directives (%)")
        if isinstance(event, ScalarEvent | SequenceStartEvent | MappingStartEvent):
            if event.ctag is not None:
                raise QuizError(f"{where}: tags (!) have no place in a quiz; put such a text in quotes")
            parts += 1
        if isinstance(event, SequenceStartEvent | MappingStartEvent):
            depth += 1
        elif type(event).__name__ in ("SequenceEndEvent", "MappingEndEvent"):
            depth -= 1
        if depth > DEEPEST:
            raise QuizError(f"{where}: more than {DEEPEST} levels in each other")
        if parts > MOST_PARTS:
            raise QuizError(f"{where}: more than {MOST_PARTS} parts")


def _plain(part: Any) -> Any:
    """Dicts, lists and scalars of Python's own types; a key that is no text becomes one, for the schema to refuse."""
    if isinstance(part, dict):
        return {str(key): _plain(value) for key, value in part.items()}
    if isinstance(part, list):
        return [_plain(value) for value in part]
    for kind in (bool, str, int, float):
        if isinstance(part, kind):
            return kind(part)
    return part


def strange(text: str) -> str | None:
    """The first character that no text needs and that a terminal may obey, such as an escape; None if there is none."""
    return next((c for c in text if unicodedata.category(c) in ("Cc", "Cs", "Co") and c not in "\n\t"), None)


def _locate(positions: Any, location: Sequence[str | int]) -> tuple[int, list[str | int]]:
    """The line of the innermost part of `location` that the file has, and the location as the file spells it.

    The names of kinds, which the schema puts into a location, are left out; a missing field is kept.
    """
    line, known = 1, []
    for found, part in _path(positions, location):
        line = found or line
        if found or part is location[-1]:
            known.append(part)
    return line, known


def _path(at: Any, location: Sequence[str | int]) -> Iterator[tuple[int | None, str | int]]:
    for part in location:
        if isinstance(at, CommentedMap) and part in at:
            line, at = at.lc.key(part)[0] + 1, at[part]
            yield line, part
        elif isinstance(at, CommentedSeq) and isinstance(part, int) and part < len(at):
            line, at = at.lc.item(part)[0] + 1, at[part]
            yield line, part
        else:
            yield None, part
