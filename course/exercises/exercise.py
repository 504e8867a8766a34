"""What an exercise is, and what can be said about an answer to it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from enum import Enum
from html import escape
from typing import Any, NamedTuple

from course.judge.inside import NotTried
from course.judge.ranks import Case, Played
from minipar.words import _

__all__ = ["Answer", "Exercise", "NotTried", "Play", "Refused", "Status", "Target", "Verdict", "WrongAnswer"]

Answer = Callable[..., Any]
Play = Callable[[Case], Played]


class Status(Enum):
    """How an answer did. Only the last counts as done."""

    NOT_TRIED = "not tried yet"
    RAISED = "raised"
    WRONG_SHAPE = "wrong shape"
    WRONG_VALUE = "wrong value"
    OUTSIDE_TARGET = "right, but outside the target"
    PASSED = "passed"


class Target(NamedTuple):
    """How an answer compares: what was measured, the learner's value, the target, the best that is known."""

    name: str
    yours: str
    target: str
    best: str


@dataclass(frozen=True)
class Verdict:
    """The judgement on an answer: its status, a sentence, how it compares, and what its ranks printed."""

    status: Status
    message: str
    targets: tuple[Target, ...] = ()
    next_step: str = ""
    printed: str = ""

    @property
    def title(self) -> str:
        """The status in the reader's language."""
        return {
            Status.NOT_TRIED: _("Not tried yet"),
            Status.RAISED: _("Your function raised an error"),
            Status.WRONG_SHAPE: _("Wrong shape"),
            Status.WRONG_VALUE: _("Wrong value"),
            Status.OUTSIDE_TARGET: _("Right, but outside the target"),
            Status.PASSED: _("Passed"),
        }[self.status]

    def __repr__(self) -> str:
        words = _("{name}: yours {yours}, target {target}, best known {best}")
        rows = [words.format(**row._asdict()) for row in self.targets]
        return "\n".join([f"{self.title}. {self.message}", *rows, *([self.next_step] if self.next_step else [])])

    def _repr_html_(self) -> str:
        """The verdict for a notebook; everything that comes from the learner's code is escaped."""
        color = {Status.PASSED: "#009E73", Status.NOT_TRIED: "currentColor"}.get(self.status, "#D55E00")
        sign = {Status.PASSED: "✓ ", Status.NOT_TRIED: ""}.get(self.status, "✗ ")
        heads = ("", _("yours"), _("target"), _("best known"))
        head = "".join(f"<th scope='col' style='text-align:left'>{escape(h)}</th>" for h in heads)
        body = "".join("<tr>" + "".join(f"<td>{escape(c)}</td>" for c in row) + "</tr>" for row in self.targets)
        table = f"<table><tr>{head}</tr>{body}</table>" if body else ""
        after = f"<p>{escape(self.next_step)}</p>" if self.next_step else ""
        wrapped = "white-space:pre-wrap;word-break:normal;overflow-wrap:anywhere"
        return (
            f"<div style='border-left:5px solid {color};padding:2px 14px'><p><b>{sign}{escape(self.title)}</b></p>"
            f"<pre style='{wrapped}'>{escape(self.message)}</pre>{table}{after}</div>"
        )

    def to_json(self) -> dict[str, Any]:
        """The verdict as JSON."""
        return asdict(self) | {"status": self.status.value, "targets": [row._asdict() for row in self.targets]}

    @staticmethod
    def from_json(said: dict[str, Any]) -> Verdict:
        """The verdict that `to_json` made."""
        targets = tuple(Target(**row) for row in said["targets"])
        return Verdict(Status(said["status"]), said["message"], targets, said["next_step"], said["printed"])


class Refused(Exception):
    """Ends an examination early, with a verdict that is not `PASSED`."""

    def __init__(self, status: Status, message: str) -> None:
        super().__init__(message)
        self.verdict = Verdict(status, message)


@dataclass(frozen=True)
class WrongAnswer:
    """A known wrong answer, and the reason for which it must be refused."""

    answer: Answer
    status: Status


@dataclass(frozen=True)
class Exercise:
    """One exercise: `examine` judges an answer; `solution` and `wrong` prove in the tests that it judges well.

    `examine` is given a function that plays a `Case` with the answer on fresh ranks and returns what came of it, as
    plain values; it runs in the judge's process (see `course.judge`). It returns a verdict, or raises `Refused`.
    `lesson` is the name of the lesson it belongs to, `hints` go from a nudge to almost everything.
    """

    name: str
    lesson: str
    examine: Callable[[Play], Verdict]
    hints: tuple[str, ...]
    solution: Answer
    wrong: tuple[WrongAnswer, ...]

    @property
    def item(self) -> str:
        """What the exercise is called in the log of progress."""
        return f"{self.lesson}/{self.name}"
