"""A bundle: what a learner hands in, as one JSON file. Answers and sources are raw, so that all can be graded again.

It is untrusted input. Reading one executes nothing: no pickle, no import, no path from it is opened. Its size, depth,
encoding and every type are checked first; what it claims to have scored is kept only to be compared.
"""

from __future__ import annotations

import importlib.metadata
import json
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from course.events import Event, from_document
from course.progress import Progress
from course.quiz.attempt import MOST_SEEDS
from course.untrusted import parse_json, person_name, read_bytes, shown
from minipar.words import _

FORMAT, VERSION = "minipar-course-submission", 1
FIELDS = {"format", "version", "course", "learner", "progress"}
MOST_BYTES = 32 << 20  # of a bundle
MOST_SOURCE = 200_000  # characters of a solution
MOST_TRIES = 2_000  # attempts at quizzes, and as many solutions
MOST_ANSWERS = 50_000
MOST_QUESTIONS = 500  # of a quiz
KEY_URI = re.compile(r"urn:ietf:params:oauth:jwk-thumbprint:sha-256:[A-Za-z0-9_-]{43}")
ITEM = re.compile(r"[a-z0-9][a-z0-9-]{0,60}")
HASH = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True)
class Try:
    """One attempt at a quiz: the seed that drew it, the raw answers by question, and the share that was claimed."""

    uuid: str
    quiz: str
    seed: int
    answers: Mapping[str, Any]
    file: str
    claimed: float


@dataclass(frozen=True)
class Solution:
    """One submission of an exercise ("lesson/name"): the source, and whether it was claimed to have passed."""

    uuid: str
    item: str
    source: str
    claimed: bool


@dataclass(frozen=True)
class Bundle:
    """What a learner handed in: who they are (`learner` is the URI of their key), and what they did, oldest first.

    `answers` has every single answer as a try at one question, those too that were given again later.
    """

    learner: str
    name: str
    course: str
    tries: tuple[Try, ...]
    answers: tuple[Try, ...]
    solutions: tuple[Solution, ...]
    events: tuple[Event, ...]


def pack(progress: Progress, learner: str, name: str) -> bytes:
    """The bundle of what is in `progress`; `ValueError` for a name that cannot be shown honestly."""
    document = {
        "format": FORMAT,
        "version": VERSION,
        "course": importlib.metadata.version("minipar"),
        "learner": {"id": learner, "name": person_name(name)},
        "progress": progress.export(),
    }
    return json.dumps(document, indent=1, sort_keys=True, allow_nan=False).encode("ascii")


def read(path: Path) -> Bundle:
    """The bundle in a file; `ValueError` that names the file and what is wrong."""
    data = read_bytes(path, MOST_BYTES)
    try:
        return unpack(data)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None


def unpack(data: bytes) -> Bundle:
    """The bundle that the bytes of a file say; `ValueError` with what is wrong."""
    document = parse_json(data)
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise ValueError(_("it is no submission of the course: it does not say format {name!r}").format(name=FORMAT))
    if type(document.get("version")) is not int or document["version"] != VERSION:
        words = _("it has version {found}; this course reads version {known}")
        raise ValueError(words.format(found=shown(document.get("version")), known=VERSION))
    _fields(document, FIELDS, _("the submission"))
    learner = _fields(document["learner"], {"id", "name"}, _("the learner"))
    if not isinstance(learner["id"], str) or not KEY_URI.fullmatch(learner["id"]):
        raise ValueError(_("the learner's id is not the name of a key, but {value}").format(value=shown(learner["id"])))
    if not isinstance(learner["name"], str):
        raise ValueError(_("the learner's name is not a text, but {value}").format(value=shown(learner["name"])))
    if not isinstance(document["course"], str) or not re.fullmatch(r"[0-9A-Za-z.+-]{1,40}", document["course"]):
        raise ValueError(_("{value} is no version of the course").format(value=shown(document["course"])))
    events = tuple(sorted(from_document(document["progress"]), key=lambda event: event.at))
    twice = [uuid for uuid, count in Counter(event.uuid for event in events).items() if count > 1]
    if twice:
        raise ValueError(_("event {uuid} is there more than once").format(uuid=twice[0]))
    tries = tuple(_try(event, _answers(event)) for event in events if event.kind == "attempt")
    answers = tuple(_try(event, _one_answer(event)) for event in events if event.kind == "answer")
    solutions = tuple(_solution(event) for event in events if event.kind == "exercise" and _has_source(event))
    if max(len(tries), len(solutions)) > MOST_TRIES or len(answers) > MOST_ANSWERS:
        words = _("it has more than {tries} attempts or solutions, or than {answers} answers")
        raise ValueError(words.format(tries=MOST_TRIES, answers=MOST_ANSWERS))
    return Bundle(learner["id"], person_name(learner["name"]), document["course"], tries, answers, solutions, events)


def _fields(value: Any, names: set[str], what: str) -> dict[str, Any]:
    if not isinstance(value, dict) or value.keys() != names:
        words = _("{what} should be an object with exactly: {names}")
        raise ValueError(words.format(what=what, names=", ".join(sorted(names))))
    return value


def _has_source(event: Event) -> bool:
    return isinstance(event.detail, dict) and "source" in event.detail


def _try(event: Event, answers: Mapping[str, Any]) -> Try:
    """An attempt or an answer, with what every one of them says."""
    seed, file = event.detail.get("seed"), event.detail.get("quiz")
    if not ITEM.fullmatch(event.item):
        raise ValueError(_("attempt {uuid}: {value} is no quiz").format(uuid=event.uuid, value=shown(event.item)))
    if type(seed) is not int or not 0 <= seed < MOST_SEEDS:
        raise ValueError(_("attempt {uuid}: {value} is no seed").format(uuid=event.uuid, value=shown(seed)))
    if not isinstance(file, str) or not HASH.fullmatch(file):
        raise ValueError(_("attempt {uuid}: it does not say the quiz's SHA-256").format(uuid=event.uuid))
    return Try(event.uuid, event.item, seed, answers, file, event.points)


def _answers(event: Event) -> Mapping[str, Any]:
    answers = event.detail.get("answers") if isinstance(event.detail, dict) else None
    if not isinstance(answers, dict) or len(answers) > MOST_QUESTIONS:
        raise ValueError(_("attempt {uuid}: it has no answers by question").format(uuid=event.uuid))
    if event.points > 1:
        raise ValueError(_("attempt {uuid}: it claims more than all points").format(uuid=event.uuid))
    return answers


def _one_answer(event: Event) -> Mapping[str, Any]:
    if not isinstance(event.detail, dict) or not isinstance(event.detail.get("question"), str):
        raise ValueError(_("answer {uuid}: it does not say to which question").format(uuid=event.uuid))
    return {event.detail["question"]: event.detail.get("answer")}


def _solution(event: Event) -> Solution:
    source = event.detail["source"]
    lesson, _slash, name = event.item.partition("/")
    if not ITEM.fullmatch(lesson) or not ITEM.fullmatch(name):
        raise ValueError(_("solution {uuid}: {value} is no exercise").format(uuid=event.uuid, value=shown(event.item)))
    if not isinstance(source, str) or not 0 < len(source) <= MOST_SOURCE:
        words = _("solution {uuid}: its source is not a text of 1 to {most} characters")
        raise ValueError(words.format(uuid=event.uuid, most=MOST_SOURCE))
    return Solution(event.uuid, event.item, source, event.points >= 1)
