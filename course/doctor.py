"""Whether the course runs on this machine: versions, the data folder, JupyterLab, ranks, and the judge of exercises."""

from __future__ import annotations

import importlib.metadata
import platform
import secrets
import sys
from collections.abc import Iterator
from dataclasses import dataclass

from course.exercises.catalogue import EXERCISES
from course.exercises.exercise import Status
from course.exercises.submission import capture, regrade
from course.judge.wires import can_count
from course.progress import Progress, ProgressError, data_folder
from course.server import has_display
from minipar import RankFailed
from minipar import doctor as machine
from minipar.words import _, plural


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at: what was found, whether that is good, and what to do or to know."""

    name: str
    value: str
    good: bool = True
    advice: str = ""


def examine() -> Iterator[Finding]:
    """Look at everything, one after the other; it takes some seconds."""
    yield _python()
    yield _package("minipar", _("the course"), _("install it again: make course"))
    yield _package("jupyterlab", "JupyterLab", _("install it: pip install jupyterlab"))
    yield _display()
    yield _folder()
    yield _progress()
    yield from _ranks()
    yield _judge()


def _python() -> Finding:
    found, oldest = sys.version_info[:2], machine.OLDEST_PYTHON
    value = _("{version}, {path}").format(version=platform.python_version(), path=sys.executable)
    advice = _("too old: install Python {wanted} or newer").format(wanted=".".join(map(str, oldest)))
    return Finding("Python", value, found >= oldest, "" if found >= oldest else advice)


def _package(name: str, shown: str, advice: str) -> Finding:
    try:
        return Finding(shown, importlib.metadata.version(name))
    except importlib.metadata.PackageNotFoundError:
        return Finding(shown, _("not installed"), False, advice)


def _display() -> Finding:
    if has_display():
        return Finding(_("browser"), _("opens on this machine"))
    return Finding(_("browser"), _("none here"), True, _("`course start` prints how to reach the lesson from yours"))


def _folder() -> Finding:
    folder = data_folder()
    trial = folder / f"trial-{secrets.token_hex(4)}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        trial.write_bytes(b"1")
        trial.unlink()
    except OSError as error:
        value = _("{path}: cannot be written ({reason})").format(path=folder, reason=error.strerror or error)
        return Finding(_("data folder"), value, False, _("set COURSE_DATA to a folder that can be written"))
    return Finding(_("data folder"), _("{path}: can be written").format(path=folder))


def _progress() -> Finding:
    try:
        count = len(Progress().log())
    except ProgressError as error:
        return Finding(_("progress"), str(error), False, _("move the file away, or set COURSE_DATA to another folder"))
    return Finding(_("progress"), plural("{count} event is kept", "{count} events are kept", count))


def _ranks() -> Iterator[Finding]:
    """What `minipar doctor` measures; Python was looked at already."""
    try:
        findings = machine.examine()
    except (RankFailed, OSError) as error:
        yield Finding(_("ranks"), _("do not start: {reason}").format(reason=error), False, _("see `minipar doctor`"))
        return
    for name, value, advice in findings:
        if name != "Python":
            yield Finding(name, value, name != "PyTorch" or not advice, advice)


def _judge() -> Finding:
    """Let the judge look at a solution, as it will look at the learner's."""
    exercise = next(iter(EXERCISES.values()))
    verdict = regrade(exercise.name, capture(exercise.solution))
    if verdict.status is not Status.PASSED:
        value = _("does not work: {reason}").format(reason=verdict)
        return Finding(_("exercises"), value, False, _("run `course doctor` again; if it stays, report it"))
    counted = _("are checked; what ranks send is counted by the operating system too")
    alone = _("are checked; what ranks send is counted by the library alone, as this system does not tell")
    return Finding(_("exercises"), counted if can_count() else alone)
