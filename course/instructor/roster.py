"""The roster: a row for each bundle, with claimed and graded scores, what is odd about it, and the certificate's ID."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from course.bundle import Bundle
from course.certificate.credential import short_id
from course.certificate.keys import fingerprint
from course.certificate.work import quizzes, required, work_of
from course.instructor.regrade import Graded
from course.quiz.exam import EXAM
from minipar.words import _


@dataclass(frozen=True)
class Row:
    """A bundle of the class. `bundle` and `graded` are None where it was refused; `remarks` say why."""

    file: Path
    bundle: Bundle | None
    graded: Graded | None
    remarks: tuple[str, ...] = ()
    certificate: str | None = None  # the URI of its ID


def differences(graded: Graded) -> list[str]:
    """A sentence for each score or solution that is not what was claimed."""
    said = []
    for made in graded.tries:
        if made.problem:
            said.append(_("attempt at {quiz}: {problem}").format(quiz=made.quiz, problem=made.problem))
        elif made.differs:
            words = _("attempt at {quiz}: {claimed:.1f} % claimed, {graded:.1f} % graded")
            said.append(words.format(quiz=made.quiz, claimed=100 * made.claimed, graded=100 * made.share))
        if made.other_file:
            said.append(_("attempt at {quiz}: answered on another version of the quiz").format(quiz=made.quiz))
    for solution in graded.solutions:
        if not solution.passed:
            words = _("exercise {name}: claimed as passed, but now: {verdict}")
            said.append(words.format(name=solution.item, verdict=solution.verdict))
    return said


def resemblances(bundles: Sequence[Bundle | None]) -> list[list[str]]:
    """For each bundle, sentences on those before it that are the same learner's, or have some of the same events."""
    said: list[list[str]] = []
    for number, bundle in enumerate(bundles):
        said.append([])
        for before, other in enumerate(bundles[:number]):
            if bundle is None or other is None:
                continue
            if bundle.learner == other.learner:
                said[-1].append(_("the same learner as bundle {number}").format(number=before + 1))
            elif shared := {e.uuid for e in bundle.events} & {e.uuid for e in other.events}:
                words = _("{count} of its entries are in bundle {number} too, of another learner")
                said[-1].append(words.format(count=len(shared), number=before + 1))
    return said


def to_csv(rows: Sequence[Row]) -> bytes:
    """The roster as CSV in UTF-8, with a mark at its start by which spreadsheets know that."""
    target = io.StringIO()
    writer = csv.writer(target, lineterminator="\r\n")  # RFC 4180
    lessons = [quiz for quiz in quizzes() if quiz != EXAM]
    head = [_("bundle"), _("file"), _("name"), _("key"), _("exam, claimed"), _("exam, graded"), _("exercises passed")]
    writer.writerow(map(harmless, [*head, *lessons, _("certificate"), _("remarks")]))
    for number, row in enumerate(rows, 1):
        writer.writerow(map(harmless, [str(number), row.file.name, *_cells(row, lessons), "; ".join(row.remarks)]))
    return b"\xef\xbb\xbf" + target.getvalue().encode()


def _cells(row: Row, lessons: Sequence[str]) -> list[str]:
    if row.bundle is None:
        return [""] * (6 + len(lessons))
    claimed = work_of(row.bundle.events).scores.get(EXAM)
    work = row.graded.work() if row.graded is not None else None
    graded = {quiz: f"{100 * score.share:.1f}" for quiz, score in work.scores.items()} if work is not None else {}
    return [
        row.bundle.name,
        fingerprint(row.bundle.learner),
        "" if claimed is None else f"{100 * claimed.share:.1f}",
        graded.get(EXAM, ""),
        "" if work is None else f"{len(work.solutions)} / {len(required())}",
        *(graded.get(lesson, "") for lesson in lessons),
        "" if row.certificate is None else short_id(row.certificate),
    ]


def harmless(cell: str) -> str:
    """A cell that no spreadsheet takes for a formula (OWASP, CSV injection), on one line."""
    cell = " ".join(cell.split())
    return "'" + cell if cell.startswith(("=", "+", "-", "@", "|", "%")) else cell
