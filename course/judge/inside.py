"""The inside of a rank that runs a learner's code: it is given a source and inputs, and gives bytes back."""

from __future__ import annotations

import importlib.abc
import linecache
import os
import sys
import types
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import Any

import torch.distributed as dist

import minipar.comm
import minipar.ledger
from course.judge import wires
from course.judge.plain import Part, decode, encode
from minipar import Mesh, report
from minipar.words import _

FILE = "your code"  # what a traceback calls the learner's source
WATCHED = (minipar.comm, minipar.ledger.Ledger, minipar.ledger.Traffic, dist)  # what the counting of bytes relies on


class NotTried(NotImplementedError):
    """Raised by the stub of an exercise, inside its function, so that running all cells never stops there."""


class NoCourse(importlib.abc.MetaPathFinder):
    """Where a learner's code runs there is the library, but no course: no solution, no progress, no judge."""

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: types.ModuleType | None = None
    ) -> ModuleSpec | None:
        """Refuse every module of the course; know nothing of others."""
        if name.partition(".")[0] == "course":
            raise ImportError(_("{name} is not there where your function runs; minipar is").format(name=name))
        return None


def perform(source: str, folder: str, degrees: tuple[int, int, int], count: bool) -> bytes:
    """On a rank: run a learner's `source`, call its `answer` with this rank's inputs, and encode what came of it.

    folder: holds the inputs of each rank, in a file of its own, which the rank removes.
    degrees: dp, pp, tp. count: report first what this rank's sockets have sent so far (see `wires`).
    Returns the encoding of (tried, value, rows of the ledger, whether the code that counts is as it was).
    """
    dp, pp, tp = degrees
    mesh = Mesh(dp=dp, pp=pp, tp=tp)
    file = Path(folder, f"{mesh.rank}")
    arguments = [_in_place(value, mesh) for value in decode(file.read_bytes())]
    file.unlink()
    dist.barrier()  # from here on nobody's inputs but one's own are there to be read
    _leave_the_course()
    before = _identity(mesh.ledger)
    if count:
        sent = wires.sent_by_me()
        report((os.getpid(), sorted(wires.sockets()), list(sent.items())))
    try:
        tried, value = True, _call(source, arguments)
    except NotTried:
        tried, value = False, None
    rows = [(row.operation, row.axis, row.ranks, row.calls, row.bytes, float(row.sent)) for row in mesh.ledger.rows()]
    return encode((tried, value, rows, _identity(mesh.ledger) == before))


def _call(source: str, arguments: list[Any]) -> Any:
    linecache.cache[FILE] = (len(source), None, source.splitlines(keepends=True), FILE)
    module = types.ModuleType("__main__")
    sys.modules["__main__"] = module  # where a notebook's own functions live, and what they would be pickled by
    exec(compile(source, FILE, "exec", dont_inherit=True), module.__dict__)
    if "answer" not in module.__dict__:
        raise NameError(_("the source does not say what `answer` is"))
    answer = module.__dict__["answer"]
    return answer(*arguments) if callable(answer) else answer


def _in_place(value: Any, mesh: Mesh) -> Any:
    """The argument that `value` stands for on this rank."""
    if isinstance(value, Part):
        return mesh if value.name == "mesh" else getattr(mesh, value.name)
    return value


def _leave_the_course() -> None:
    """From here on the course cannot be imported; only `NotTried` is found where stubs look for it."""
    exercises = types.ModuleType("course.exercises")
    exercises.__dict__["NotTried"] = NotTried
    sys.modules["course.exercises"] = exercises
    sys.meta_path.insert(0, NoCourse())


def _identity(ledger: minipar.ledger.Ledger) -> dict[str, Any]:
    """Which functions do the counting, down to their code."""
    found: dict[str, Any] = {"ledger": (type(ledger), sorted(vars(ledger)))}
    for owner in WATCHED:
        for name, value in list(vars(owner).items()):
            inner = value.fget if type(value) is property else value
            if type(inner) in (types.FunctionType, types.ModuleType):
                code = getattr(inner, "__code__", None), getattr(inner, "__defaults__", None)
                found[f"{owner.__name__}.{name}"] = id(value), *code
    return found
