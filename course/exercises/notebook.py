"""The answers in a notebook's file, as submissions: its exercise cells and what they need, without running the rest."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from IPython.core.inputtransformer2 import TransformerManager

from course.events import read_json
from course.exercises.catalogue import EXERCISES
from course.exercises.exercise import Exercise
from course.exercises.names import bound, narrowed, needed, statements
from course.exercises.submission import ANSWER
from minipar.words import _

TAG = "exercise"


@dataclass(frozen=True)
class Cell:
    """A code cell: its source as Python (magics translated), and whether it is tagged as an exercise."""

    source: str
    tagged: bool


@dataclass(frozen=True)
class Found:
    """What a notebook has for an exercise: a submission, or None where it has nothing."""

    exercise: Exercise
    source: str | None


def answers(path: Path, lesson: str | None = None) -> list[Found]:
    """The answers to the exercises of a lesson, or, without one, to those that the notebook checks.

    What is judged is what the notebook's ``check(name, …)`` names; without such a call, what has the solution's name.
    Names are resolved as if the cells ran from top to bottom: the outermost statements that bind a name (assignment,
    import, def, class, with, for) are taken, in order, and those that bind what they use, up to the cell with the
    check. No other statement is taken, so what only changes an object (``table.append(…)``) has no effect here.
    Raises `ValueError` for a file that is no notebook.
    """
    cells = read_cells(path)
    calls = {name: (place, answer) for place, cell in enumerate(cells) for name, answer in _checks(cell.source)}
    wanted = [e for e in EXERCISES.values() if e.lesson == lesson or (lesson is None and e.name in calls)]
    return [Found(exercise, _source(cells, exercise, *calls.get(exercise.name, (None, None)))) for exercise in wanted]


def read_cells(path: Path) -> list[Cell]:
    """The code cells of a notebook's file; `ValueError` for one that is none."""
    notebook = read_json(path)
    cells = notebook.get("cells") if isinstance(notebook, dict) else None
    if not isinstance(cells, list) or not all(isinstance(cell, dict) for cell in cells):
        raise ValueError(_("{path} is no notebook: it has no list of cells").format(path=path))
    return [_cell(cell) for cell in cells if cell.get("cell_type") == "code"]


def _cell(cell: dict[str, Any]) -> Cell:
    source, metadata = cell.get("source"), cell.get("metadata")
    text = "".join(map(str, source)) if isinstance(source, list) else str(source or "")
    tags = metadata.get("tags") if isinstance(metadata, dict) else None
    python = TransformerManager().transform_cell(text)  # type: ignore[no-untyped-call]
    return Cell(python, isinstance(tags, list) and TAG in tags)


def _checks(source: str) -> Iterator[tuple[str, str]]:
    """The calls of ``check(name, answer)`` in a cell: the exercise's name, and the answer's expression."""
    try:
        tree = ast.parse(source)
    except SyntaxError:
        return
    for node in ast.walk(tree):
        match node:
            case ast.Call(
                func=ast.Name(id="check") | ast.Attribute(attr="check"), args=[ast.Constant(value=name), answer]
            ):
                if name in EXERCISES:
                    yield str(name), ast.unparse(answer)


def _source(cells: Sequence[Cell], exercise: Exercise, place: int | None, answer: str | None) -> str | None:
    expression = answer or exercise.solution.__name__
    seen = cells if place is None else cells[: place + 1]
    broken = [cell.source for cell in seen if cell.tagged and not _reads(cell.source)]
    if broken:
        return broken[-1]  # the judge says what is wrong with it
    texts = [text for cell in seen if _reads(cell.source) for text in statements(cell.source)]
    last = f"{ANSWER} = {expression}\n"
    taken, missing = _closure(texts, needed(last))
    return None if missing & needed(last) else "\n".join([*taken, last])


def _closure(texts: Sequence[str], names: set[str]) -> tuple[list[str], set[str]]:
    """The statements that bind `names`, and what these need in turn, in order; and the names that nobody binds."""
    binds = [bound(text) for text in texts]
    wanted, left = set(names), set(names)
    while left:
        left = {
            n for text, b in zip(texts, binds, strict=True) if b & left for n in needed_by(text, b & wanted)
        } - wanted
        wanted |= left
    taken = [narrowed(text, wanted) for text, b in zip(texts, binds, strict=True) if b & wanted or "import *" in text]
    return taken, wanted - set().union(*binds)


def needed_by(text: str, names: set[str]) -> set[str]:
    """What a statement needs where it binds `names`; an augmented assignment needs what it changes."""
    found = needed(text)
    node = ast.parse(text).body[0]
    return found | names if isinstance(node, ast.AugAssign) else found


def _reads(source: str) -> bool:
    try:
        ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return True
