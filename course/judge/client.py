"""A kernel's side of its judge: start it from the files on disk, ask it, start it again when it is gone."""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import secrets
import select
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

from minipar.words import _

ROOT = Path(__file__).resolve().parents[2]  # where this course lies, and `minipar` with it
PATIENCE = 600.0  # seconds for an answer; every case has a limit of its own, far below
FOREIGN = {"RANK", "WORLD_SIZE", "MASTER_ADDR", "COURSE_DATA"}  # not for the judge, or not for the ranks


class JudgeGone(RuntimeError):
    """The judge ended, or stayed silent, while it was asked."""


class _Judge:
    """One judge's process."""

    def __init__(self) -> None:
        self.owner = os.getpid()
        self.home = tempfile.TemporaryDirectory(
            prefix="course-judge-"
        )  # an empty folder: nothing in it can be imported
        environment = {k: v for k, v in os.environ.items() if k not in FOREIGN and not k.startswith("PYTHON")}
        self.errors = tempfile.TemporaryFile()  # noqa: SIM115 - it lives as long as the process
        self.process = subprocess.Popen(
            [sys.executable, "-m", "course.judge"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.errors,
            cwd=self.home.name,
            env=environment | {"PYTHONPATH": str(ROOT)},
            start_new_session=True,  # an interrupt of the kernel is the kernel's
        )

        assert self.process.stdin is not None
        self.key = secrets.token_hex(16)
        self.process.stdin.write(self.key.encode() + b"\n")

    def ask(self, request: dict[str, Any]) -> dict[str, Any]:
        """Send a request, and wait for the reply that knows its secret."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        secret, deadline = secrets.token_hex(16), time.monotonic() + PATIENCE
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.write(json.dumps({**request, "key": self.key, "secret": secret}).encode() + b"\n")
            self.process.stdin.flush()
        ears, line = self.process.stdout.fileno(), bytearray()
        while (left := deadline - time.monotonic()) > 0:
            if not select.select([ears], [], [], left)[0]:
                break
            if not (data := os.read(ears, 1 << 16)):
                raise JudgeGone(self._last_words())
            line += data
            while b"\n" in line:
                said, _end, line = line.partition(b"\n")
                with contextlib.suppress(ValueError, TypeError):  # only the judge knows the secret: the rest is noise
                    reply = json.loads(said)
                    if reply.get("secret") == secret:
                        return dict(reply)
        raise JudgeGone(_("no answer in {seconds:g} s").format(seconds=PATIENCE))

    def _last_words(self) -> str:
        self.errors.seek(0)
        return self.errors.read().decode(errors="replace").strip()[-2000:]

    def end(self) -> None:
        """End the process. The ranks that it started end with it."""
        self.process.kill()
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout, self.errors):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()
        self.home.cleanup()


_lock = threading.Lock()
_judge: _Judge | None = None


def ask(exercise: str, source: str, file: Path | None) -> dict[str, Any]:
    """The judge's reply on a source: ``verdict`` as JSON, and in ``notice`` why it could not be kept in `file`.

    The first call starts the judge, which takes some seconds. Raises `JudgeGone` where it ends meanwhile.
    """
    global _judge
    request = {"exercise": exercise, "source": source, "file": str(file) if file else None}
    with _lock:
        used = _living()
        try:
            if used is not None:
                with contextlib.suppress(JudgeGone):  # what it ran before may have harmed it; a fresh one judges anew
                    return used.ask(request)
                used.end()
            _judge = _Judge()
            return _judge.ask(request)
        except BaseException:  # an interrupt too: whatever still runs is not wanted any more
            end()
            raise


def _living() -> _Judge | None:
    """This process's judge, if it has one that is not gone."""
    if _judge is not None and _judge.owner == os.getpid() and _judge.process.poll() is not None:
        end()
    return _judge if _judge is not None and _judge.owner == os.getpid() else None


def end() -> None:
    """End this process's judge, if there is one; the next question starts another."""
    global _judge
    if _judge is not None and _judge.owner == os.getpid():
        _judge.end()
    _judge = None


atexit.register(end)
