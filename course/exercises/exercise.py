"""What an exercise is, and what can be said about an answer to it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from html import escape
from typing import Any

from minipar.words import _

Answer = Callable[..., Any]


class NotTried(NotImplementedError):
    """Raised by the stub of an exercise, inside its function, so that running all cells never stops there."""


class Status(Enum):
    """How an answer did. Only the last counts as done."""

    NOT_TRIED = "not tried yet"
    RAISED = "raised"
    WRONG_SHAPE = "wrong shape"
    WRONG_VALUE = "wrong value"
    OUTSIDE_TARGET = "right, but outside the target"
    PASSED = "passed"


@dataclass(frozen=True)
class Verdict:
    """The judgement on an answer: its status, a sentence, and how it compares to targets as (name, yours, target)."""

    status: Status
    message: str
    targets: tuple[tuple[str, str, str], ...] = ()
    next_step: str = ""

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
        rows = [
            _("{name}: yours {yours}, target {target}").format(name=n, yours=y, target=t) for n, y, t in self.targets
        ]
        return "\n".join([f"{self.title}. {self.message}", *rows, *([self.next_step] if self.next_step else [])])

    def _repr_html_(self) -> str:
        """The verdict for a notebook; everything that comes from the learner's code is escaped."""
        color = {Status.PASSED: "#009E73", Status.NOT_TRIED: "currentColor"}.get(self.status, "#D55E00")
        sign = {Status.PASSED: "✓ ", Status.NOT_TRIED: ""}.get(self.status, "✗ ")
        head = "".join(f"<th style='text-align:left'>{escape(h)}</th>" for h in ("", _("yours"), _("target")))
        body = "".join("<tr>" + "".join(f"<td>{escape(c)}</td>" for c in row) + "</tr>" for row in self.targets)
        table = f"<table><tr>{head}</tr>{body}</table>" if body else ""
        after = f"<p>{escape(self.next_step)}</p>" if self.next_step else ""
        return (
            f"<div style='border-left:5px solid {color};padding:2px 14px'><p><b>{sign}{escape(self.title)}</b></p>"
            f"<pre style='white-space:pre-wrap'>{escape(self.message)}</pre>{table}{after}</div>"
        )


@dataclass(frozen=True)
class WrongAnswer:
    """A known wrong answer, and the reason for which it must be refused."""

    answer: Answer
    status: Status


@dataclass(frozen=True)
class Exercise:
    """One exercise: `examine` judges an answer; `solution` and `wrong` prove in the tests that it judges well.

    `lesson` is the name of the lesson it belongs to, `hints` go from a nudge to almost everything.
    """

    name: str
    lesson: str
    examine: Callable[[Answer], Verdict]
    hints: tuple[str, ...]
    solution: Answer
    wrong: tuple[WrongAnswer, ...]
