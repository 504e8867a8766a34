"""An event: one thing that a learner did, and the JSON document in which events travel to another machine."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, Literal, get_args
from uuid import UUID

from minipar.words import _

Kind = Literal["answer", "attempt", "exercise", "hint", "solution", "prediction"]
KINDS: tuple[str, ...] = get_args(Kind)
FORMAT, VERSION = "minipar-course-progress", 1
FIELDS = {"uuid", "at", "kind", "item", "points", "detail"}

# What a learner can do stays far below these; a document that asks for more is not one of ours.
MOST_BYTES = 64 << 20  # of a document
MOST_EVENTS = 200_000
MOST_DETAIL = 256 << 10  # bytes of an event's detail as JSON
MOST_POINTS = 1e6
ITEM = re.compile(r"[A-Za-z0-9][A-Za-z0-9/_.-]{0,199}")


@dataclass(frozen=True)
class Event:
    """One thing that the learner did: what, to which item, when (UTC), for how many points, with what detail (JSON).

    `uuid` names this one event on every machine that it is copied to.
    """

    kind: str
    item: str
    at: datetime
    points: float
    detail: Any
    uuid: str = ""


def check_event(kind: Any, item: Any, points: Any, detail: Any) -> None:
    """Raise `ValueError`, with a sentence, for an event that the store cannot keep."""
    if kind not in KINDS:
        raise ValueError(_("{value} is no kind of event; there are: {known}").format(value=_short(kind), known=KINDS))
    if not isinstance(item, str) or not ITEM.fullmatch(item):
        words = _("{value} cannot name an item: up to 200 letters, digits and / _ . - are allowed")
        raise ValueError(words.format(value=_short(item)))
    number = isinstance(points, (int, float)) and not isinstance(points, bool)
    if not number or not 0 <= points <= MOST_POINTS:  # not a number (NaN) fails here too
        words = _("{value} cannot be points: a number from 0 to {most:g} is")
        raise ValueError(words.format(value=_short(points), most=MOST_POINTS))
    if (size := len(to_json(detail))) > MOST_DETAIL:
        words = _("the detail of an event is {size} bytes of JSON; at most {most} fit")
        raise ValueError(words.format(size=size, most=MOST_DETAIL))


def to_json(detail: Any) -> str:
    """The detail of an event as JSON in ASCII; `ValueError` for what JSON cannot say."""
    try:
        return json.dumps(detail, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise ValueError(_("the detail of an event is no JSON: {reason}").format(reason=error)) from None


def stamp(at: datetime) -> str:
    """A time as text that sorts by time: UTC, with microseconds. It must know its zone."""
    return at.astimezone(timezone.utc).isoformat(timespec="microseconds")


def to_document(events: Iterable[Event]) -> dict[str, Any]:
    """Events as one JSON document: format, version, and each event's fields."""
    rows = [
        {"uuid": e.uuid, "at": stamp(e.at), "kind": e.kind, "item": e.item, "points": e.points, "detail": e.detail}
        for e in events
    ]
    return {"format": FORMAT, "version": VERSION, "events": rows}


def from_document(document: Any) -> list[Event]:
    """The events of a document from anywhere; `ValueError` names what is wrong and where. Nothing in it is executed."""
    if not isinstance(document, Mapping) or document.get("format") != FORMAT:
        raise ValueError(_("this is no progress of the course: it does not say format {name!r}").format(name=FORMAT))
    version = document.get("version")
    if type(version) is not int or version != VERSION:
        words = _("the progress has version {found}; this course reads version {known}")
        raise ValueError(words.format(found=_short(version), known=VERSION))
    if unknown := sorted(map(_short, document.keys() - {"format", "version", "events"})):
        raise ValueError(_("the progress has fields that nobody knows: {fields}").format(fields=", ".join(unknown)))
    rows = document.get("events")
    if not isinstance(rows, list):
        raise ValueError(_("'events' should be a list, but is {value}").format(value=_short(rows)))
    if len(rows) > MOST_EVENTS:
        raise ValueError(_("there are {count} events; at most {most} fit").format(count=len(rows), most=MOST_EVENTS))
    return [_event(number, row) for number, row in enumerate(rows)]


def _event(number: int, row: Any) -> Event:
    try:
        if not isinstance(row, Mapping) or row.keys() != FIELDS:
            raise ValueError(_("it should have the fields {fields}").format(fields=", ".join(sorted(FIELDS))))
        check_event(row["kind"], row["item"], row["points"], row["detail"])
        at, uuid = _time(row["at"]), _uuid(row["uuid"])
        return Event(row["kind"], row["item"], at, float(row["points"]), row["detail"], uuid)
    except ValueError as error:
        raise ValueError(_("event {number}: {reason}").format(number=number, reason=error)) from None


def _time(text: Any) -> datetime:
    try:
        at = datetime.fromisoformat(text)
        if at.tzinfo is not None:
            return at.astimezone(timezone.utc)
    except (TypeError, ValueError, OverflowError):
        pass
    raise ValueError(_("{value} is no time with a zone, such as 2026-01-31T12:00:00+00:00").format(value=_short(text)))


def _uuid(text: Any) -> str:
    try:
        if isinstance(text, str) and len(text) == 36:
            return str(UUID(text))
    except ValueError:
        pass
    raise ValueError(_("{value} is no UUID").format(value=_short(text)))


def _short(value: Any) -> str:
    """A value in a message: its beginning, in ASCII, so that no document can flood or garble a terminal."""
    text = ascii(value) if isinstance(value, (str, int, float, bool, type(None))) else type(value).__name__
    return text if len(text) <= 60 else text[:57] + "..."


def read_json(path: Path, most: int = MOST_BYTES) -> Any:
    """What a JSON file of at most `most` bytes says; `ValueError` with a sentence where it cannot be read."""
    try:
        with path.open("rb") as file:
            data = file.read(most + 1)
    except OSError as error:
        raise ValueError(
            _("{path} cannot be read: {reason}").format(path=path, reason=error.strerror or error)
        ) from None
    if len(data) > most:
        raise ValueError(_("{path} is larger than {most} bytes").format(path=path, most=most))
    try:
        return json.loads(data.decode("utf-8"), parse_constant=_no_constant, parse_float=_finite)
    except (ValueError, RecursionError) as error:
        raise ValueError(_("{path} is no JSON in UTF-8: {reason}").format(path=path, reason=error)) from None


def _no_constant(name: str) -> float:
    raise ValueError(_("{name} is no number in JSON").format(name=name))


def _finite(text: str) -> float:
    if not math.isfinite(value := float(text)):
        raise ValueError(_("{text} is too large a number").format(text=_short(text)))
    return value
