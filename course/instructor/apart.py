"""Grading a bundle in a clean process: its own interpreter, an empty data folder, no key, and an end to it."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from course.bundle import Bundle
from course.instructor.regrade import TRIES, Graded, from_json
from course.progress import FOLDER_VARIABLE
from minipar.words import _

START = 300.0  # seconds for the process to start and to grade answers
EACH = 120.0  # seconds for one solution, which has a timeout of its own below this


def grade_apart(bundle: Bundle, data: bytes) -> Graded:
    """Grade the bundle whose file has these bytes; `ValueError` where that did not come to an end."""
    items = {solution.item for solution in bundle.solutions if solution.claimed}
    patience = START + EACH * TRIES * len(items)
    with tempfile.TemporaryDirectory(prefix="regrade-") as folder:
        source, target, log, empty = (Path(folder) / name for name in ("bundle", "graded", "log", "data"))
        source.write_bytes(data)
        command = [sys.executable, "-m", "course.instructor.regrade", str(source), str(target)]
        with log.open("wb") as said:
            process = subprocess.Popen(
                command,
                env={**os.environ, FOLDER_VARIABLE: str(empty)},
                stdin=subprocess.DEVNULL,
                stdout=said,  # what a learner's code prints is not what is believed
                stderr=subprocess.STDOUT,
            )
            try:
                code = process.wait(patience)
            except subprocess.TimeoutExpired:
                raise ValueError(_("grading took longer than {seconds:g} s").format(seconds=patience)) from None
            finally:
                process.kill()
                process.wait()
        if code != 0 or not target.exists():
            last = (log.read_bytes()[-2000:].decode("utf-8", "replace").strip().splitlines() or [""])[-1]
            raise ValueError(_("grading ended with code {code}: {said}").format(code=code, said=ascii(last)[1:-1]))
        return from_json(target.read_text(encoding="utf-8"))
