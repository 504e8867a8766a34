"""What the learner has done: an append-only log in one SQLite file, in the user's data folder."""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import datetime, timezone
from pathlib import Path
from typing import Any
from uuid import NAMESPACE_OID, uuid4, uuid5

import platformdirs

from course.events import Event, Kind, check_event, from_document, stamp, to_document, to_json
from minipar.words import _

__all__ = ["Event", "Kind", "Progress", "ProgressError", "data_folder"]

FOLDER_VARIABLE = "COURSE_DATA"
VERSION = 2
PATIENCE = 30.0  # seconds to wait for another kernel's write
SCHEMA = """
CREATE TABLE event (
    id INTEGER PRIMARY KEY,
    uuid TEXT NOT NULL UNIQUE,
    at TEXT NOT NULL,        -- UTC, ISO 8601, with microseconds
    kind TEXT NOT NULL,      -- what was done: answer, attempt, exercise, hint, solution, prediction
    item TEXT NOT NULL,      -- to what, such as 00-start/bubble
    points REAL NOT NULL,
    detail TEXT NOT NULL     -- JSON
);
CREATE INDEX event_by_item ON event (kind, item);
"""
COLUMNS = "uuid, at, kind, item, points, detail"
INSERT = f"INSERT OR IGNORE INTO event ({COLUMNS}) VALUES (?, ?, ?, ?, ?, ?)"


class ProgressError(OSError):
    """The progress file cannot be read or written; the message says where it is and what to do."""


def data_folder() -> Path:
    """Where progress is kept: the folder that ``COURSE_DATA`` names, or the user's data folder."""
    chosen = os.environ.get(FOLDER_VARIABLE)
    return Path(chosen) if chosen else Path(platformdirs.user_data_dir("minipar-course", appauthor=False))


class Progress:
    """The log. Safe with several kernels at once: each call is a transaction of its own, and returns when it is kept.

    A process that is killed in the middle of a write leaves the log as it was before. Every method raises
    `ProgressError` where the file cannot be used.
    """

    def __init__(self, path: Path | None = None) -> None:
        self.path = path or data_folder() / "progress.sqlite3"

    def record(self, kind: Kind, item: str, points: float = 0.0, detail: Any = None) -> Event:
        """Add one event, and return it. `ValueError` for one that could not be exported (see `course.events`)."""
        check_event(kind, item, points, detail)
        event = Event(kind, item, datetime.now(timezone.utc), float(points), detail, str(uuid4()))
        with self._open() as db:
            db.execute(INSERT, _row(event))
        return event

    def events(self, kind: Kind, item: str) -> list[Event]:
        """What was done to an item, oldest first."""
        return self._select("WHERE kind = ? AND item = ?", kind, item)

    def log(self, kind: Kind | None = None) -> list[Event]:
        """Everything that was done, or everything of one kind, oldest first."""
        return self._select() if kind is None else self._select("WHERE kind = ?", kind)

    def best(self, kind: Kind, item: str) -> float | None:
        """The most points ever got for an item; None if it was not tried."""
        return max((event.points for event in self.events(kind, item)), default=None)

    def export(self) -> dict[str, Any]:
        """Everything as one JSON document, for `merge` on another machine."""
        return to_document(self.log())

    def merge(self, document: Any) -> int:
        """Add the events of a document of `export` that are not here yet; returns how many they were.

        All or nothing: a document with anything wrong in it is a `ValueError`, and the log stays as it was.
        """
        rows = [_row(event) for event in from_document(document)]
        with self._open() as db:
            before = db.total_changes
            db.executemany(INSERT, rows)
            return db.total_changes - before

    def _select(self, where: str = "", *values: str) -> list[Event]:
        with self._open() as db:
            rows = db.execute(f"SELECT {COLUMNS} FROM event {where} ORDER BY at, id", values).fetchall()
            with _readable():
                return [
                    Event(kind, item, datetime.fromisoformat(at), points, json.loads(detail), uuid)
                    for uuid, at, kind, item, points, detail in rows
                ]

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with closing(sqlite3.connect(self.path, timeout=PATIENCE, isolation_level=None)) as db:
                db.execute("BEGIN IMMEDIATE")
                _migrate(db)
                yield db
                db.execute("COMMIT")
        except (OSError, sqlite3.Error) as error:
            reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
            raise ProgressError(
                _(
                    "Your progress cannot be kept in {path}: {reason}. Set {variable} to a folder that can be written."
                ).format(path=self.path, reason=reason, variable=FOLDER_VARIABLE)
            ) from None


@contextmanager
def _readable() -> Iterator[None]:
    """What was written by something else than the course is damage, as a broken page is."""
    try:
        yield
    except (ValueError, TypeError) as error:
        raise sqlite3.DatabaseError(_("the file is damaged: {reason}").format(reason=error)) from None


def _row(event: Event) -> tuple[str, str, str, str, float, str]:
    return event.uuid, stamp(event.at), event.kind, event.item, event.points, to_json(event.detail)


def _migrate(db: sqlite3.Connection) -> None:
    """Bring the file to this version, within the transaction that is open: it happens whole or not at all."""
    (found,) = db.execute("PRAGMA user_version").fetchone()
    if found > VERSION:
        raise OSError(0, _("it was written by a newer version of the course"))
    if found == VERSION:
        return
    old = []
    if found == 1:
        old = db.execute("SELECT id, at, kind, item, points, detail FROM event ORDER BY id").fetchall()
        db.execute("DROP TABLE event")
    for statement in SCHEMA.split(";"):
        db.execute(statement)
    for number, at, kind, item, points, detail in old:
        with _readable():
            at_in_utc = stamp(datetime.fromisoformat(at))
        # From the content, so that an event in two copies of one old file is one event still.
        uuid = str(uuid5(NAMESPACE_OID, f"minipar-course {number} {at} {kind} {item} {points!r} {detail}"))
        db.execute(INSERT, (uuid, at_in_utc, kind, item, points, detail))
    db.execute(f"PRAGMA user_version = {VERSION}")
