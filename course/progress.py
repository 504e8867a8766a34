"""What the learner has done: an append-only log in one SQLite file, in the user's data folder."""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, Literal

import platformdirs

from minipar.words import _

FOLDER_VARIABLE = "COURSE_DATA"
VERSION = 1
SCHEMA = """
CREATE TABLE event (
    id INTEGER PRIMARY KEY,
    at TEXT NOT NULL,        -- UTC, ISO 8601
    kind TEXT NOT NULL,      -- what was done: answer, exercise, hint, solution, prediction
    item TEXT NOT NULL,      -- to what, such as 00-start/bubble
    points REAL NOT NULL,
    detail TEXT NOT NULL     -- JSON
);
CREATE INDEX event_by_item ON event (kind, item);
"""

Kind = Literal["answer", "exercise", "hint", "solution", "prediction"]


class ProgressError(OSError):
    """The progress file cannot be read or written; the message says where it is and what to do."""


def data_folder() -> Path:
    """Where progress is kept: the folder that ``COURSE_DATA`` names, or the user's data folder."""
    chosen = os.environ.get(FOLDER_VARIABLE)
    return Path(chosen) if chosen else Path(platformdirs.user_data_dir("minipar-course", appauthor=False))


@dataclass(frozen=True)
class Event:
    """One thing that the learner did: what, to which item, when (UTC), for how many points, with what detail."""

    kind: str
    item: str
    at: datetime
    points: float
    detail: Any


class Progress:
    """The log. Safe with several kernels at once: each call is a transaction of its own.

    Every method raises `ProgressError` where the file cannot be used.
    """

    def __init__(self, path: Path | None = None) -> None:
        self.path = path or data_folder() / "progress.sqlite3"

    def record(self, kind: Kind, item: str, points: float = 0.0, detail: Any = None) -> None:
        """Add one event."""
        at = datetime.now(timezone.utc).isoformat()
        with self._open() as db:
            db.execute(
                "INSERT INTO event (at, kind, item, points, detail) VALUES (?, ?, ?, ?, ?)",
                (at, kind, item, points, json.dumps(detail)),
            )

    def events(self, kind: Kind, item: str) -> list[Event]:
        """What was done to an item, oldest first."""
        with self._open() as db:
            rows = db.execute(
                "SELECT at, points, detail FROM event WHERE kind = ? AND item = ? ORDER BY id", (kind, item)
            )
            return [
                Event(kind, item, datetime.fromisoformat(at), points, json.loads(detail)) for at, points, detail in rows
            ]

    def best(self, kind: Kind, item: str) -> float | None:
        """The most points ever got for an item; None if it was not tried."""
        return max((event.points for event in self.events(kind, item)), default=None)

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with closing(sqlite3.connect(self.path, timeout=10, isolation_level=None)) as db:
                db.execute("BEGIN IMMEDIATE")
                self._migrate(db)
                yield db
                db.execute("COMMIT")
        except (OSError, sqlite3.Error) as error:
            reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
            raise ProgressError(
                _(
                    "Your progress cannot be kept in {path}: {reason}. Set {variable} to a folder that can be written."
                ).format(path=self.path, reason=reason, variable=FOLDER_VARIABLE)
            ) from None

    def _migrate(self, db: sqlite3.Connection) -> None:
        (found,) = db.execute("PRAGMA user_version").fetchone()
        if found > VERSION:
            raise OSError(0, _("it was written by a newer version of the course"))
        if found == 0:
            for statement in SCHEMA.split(";"):
                db.execute(statement)
            db.execute(f"PRAGMA user_version = {VERSION}")
