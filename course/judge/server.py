"""The judge's process: it takes requests from a kernel, has the answer played on fresh ranks, and says the verdict."""

from __future__ import annotations

import ctypes
import hashlib
import json
import os
import secrets
import select
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from course.exercises.catalogue import find
from course.exercises.exercise import Exercise, Refused, Status, Verdict
from course.judge.ranks import SECONDS, Case, NoResult, Played, play
from course.progress import Progress, ProgressError
from minipar.words import _

IDLE = 1200.0  # seconds without a request, after which the judge ends and gives back its memory
PR_SET_DUMPABLE = 4  # Linux


def judge(exercise: Exercise, source: str, seconds: float = SECONDS) -> Verdict:
    """Judge the learner's `source` on fresh ranks, each case within `seconds`. This process runs none of it."""
    printed: list[str] = []

    def play_case(case: Case) -> Played:
        played = play(source, case, seconds)
        printed.append(played.printed)
        return played

    try:
        verdict = exercise.examine(play_case)
    except Refused as refused:
        verdict = refused.verdict
    except NoResult as nothing:
        printed.append(nothing.printed)
        if nothing.tried:
            verdict = Verdict(Status.RAISED, nothing.story)
        else:
            message = _("Write the function's body in place of the line that raises NotTried.")
            verdict = Verdict(Status.NOT_TRIED, message)
    return replace(verdict, printed="".join(printed))


def keep(exercise: Exercise, source: str, verdict: Verdict, file: Path) -> str:
    """Keep the event with its source; returns why it could not be kept, or an empty text."""
    detail = {"status": verdict.status.value, "source": source, "sha256": sha256(source)}
    try:
        Progress(file).record("exercise", exercise.item, float(verdict.status is Status.PASSED), detail)
    except ProgressError as error:
        return str(error)
    return ""


def sha256(source: str) -> str:
    """The hash that names a source."""
    return hashlib.sha256(source.encode("utf-8", "surrogatepass")).hexdigest()


def serve(requests: int, replies: int) -> None:
    """Answer the requests, a line of JSON each, until the kernel is gone or has been silent for long.

    The first line is a key, which only the kernel knows: what else is written into the pipe is not listened to.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)  # no other process of this user may look inside
    lines = _lines(requests)
    key = next(lines, b"")
    with open(replies, "wb") as mouth:
        for line in lines:
            if (request := _request(line, key)) is not None:
                mouth.write(json.dumps(answer(request)).encode() + b"\n")
                mouth.flush()


def _lines(ears: int) -> Iterator[bytes]:
    """The lines that come in, until the pipe ends or is silent for long."""
    heard = b""
    while select.select([ears], [], [], IDLE)[0] and (data := os.read(ears, 1 << 16)):
        *lines, heard = (heard + data).split(b"\n")
        yield from lines


def _request(line: bytes, key: bytes) -> dict[str, Any] | None:
    """The request of a line, if it is the kernel's."""
    try:
        request = json.loads(line)
        known = isinstance(request, dict) and secrets.compare_digest(str(request["key"]).encode(), key)
    except (ValueError, KeyError, RecursionError):
        return None
    return request if known else None


def answer(request: dict[str, Any]) -> dict[str, Any]:
    """The reply to a request: the request's own secret, the verdict, and why it could not be kept, if so."""
    exercise, source = find(request["exercise"]), request["source"]
    verdict, notice = judge(exercise, source), ""
    if request["file"] is not None and verdict.status is not Status.NOT_TRIED:
        notice = keep(exercise, source, verdict, Path(request["file"]))
    return {"secret": request["secret"], "verdict": verdict.to_json(), "notice": notice}
