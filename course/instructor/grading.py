"""Grading a class: every bundle apart, certificates for those who passed, and a roster of all."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from pathlib import Path

from joserfc.jwk import RSAKey

from course.bundle import MOST_BYTES, unpack
from course.certificate.issue import issue, write_all
from course.certificate.keys import key_uri
from course.certificate.work import missing
from course.instructor.apart import grade_apart
from course.instructor.roster import Row, differences, resemblances, to_csv
from course.untrusted import read_bytes
from minipar.words import _

ROSTER = "roster.csv"


@dataclass(frozen=True)
class Signer:
    """The instructor who signs: the key, and the name that certificates say."""

    key: RSAKey
    name: str


def grade_class(paths: Sequence[Path], signer: Signer, folder: Path, tell: Callable[[Row], None]) -> list[Row]:
    """Grade the bundles, `tell` each row when it is done, and write certificates and the roster into `folder`.

    A bundle that is refused is a row with its reason. Where all are refused nothing is written.
    """
    opened = [_open(path) for path in paths]
    alike = resemblances([row.bundle for row, _data in opened])
    rows = []
    for (row, data), also in zip(opened, alike, strict=True):
        graded = _grade(replace(row, remarks=(*row.remarks, *also)), data, signer, folder)
        tell(graded)
        rows.append(graded)
    if any(row.bundle is not None for row in rows):
        write_all(folder, {ROSTER: to_csv(rows)})
    return rows


def _open(path: Path) -> tuple[Row, bytes]:
    try:
        data = read_bytes(path, MOST_BYTES)
        return Row(path, unpack(data), None), data
    except ValueError as error:
        return Row(path, None, None, (str(error),)), b""


def _grade(row: Row, data: bytes, signer: Signer, folder: Path) -> Row:
    bundle = row.bundle
    if bundle is None:
        return row
    if bundle.learner == key_uri(signer.key):  # its certificate would look as if signed by the learner
        return replace(row, remarks=(*row.remarks, _("it names your own key as the learner's")))
    try:
        graded = grade_apart(bundle, data)
    except ValueError as error:
        return replace(row, remarks=(*row.remarks, str(error)))
    work = graded.work()
    lacking = missing(work)
    row = replace(row, graded=graded, remarks=(*row.remarks, *differences(graded), *lacking))
    if lacking:
        return row
    now = datetime.now(timezone.utc)
    issued = issue(work, bundle.name, signer.key, signer.name, bundle.learner, now, folder)
    return replace(row, certificate=issued.credential.id)
