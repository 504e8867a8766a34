"""Issuing a certificate: compose, sign, draw, and write it as a token, SVG, PNG and PDF. All files, or none."""

from __future__ import annotations

import contextlib
import os
import tempfile
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from joserfc.jwk import RSAKey

from course.certificate.baked import bake_png, bake_svg
from course.certificate.compose import compose
from course.certificate.credential import Credential, short_id
from course.certificate.keys import key_uri
from course.certificate.paint import fitted, to_pdf, to_png, unknown_characters
from course.certificate.picture import draw
from course.certificate.svg import to_svg
from course.certificate.token import sign
from course.certificate.work import Work
from course.progress import data_folder


@dataclass(frozen=True)
class Issued:
    """A certificate that was written. `unknown` are the characters that no font here has, drawn as boxes."""

    credential: Credential
    files: tuple[Path, ...]
    unknown: str


def folder_of_learner() -> Path:
    """Where the learner's certificates are kept."""
    return data_folder() / "certificates"


def issue(work: Work, name: str, key: RSAKey, issuer: str, subject: str, at: datetime, folder: Path) -> Issued:
    """Write the certificate for `work` into `folder`, as files named by its ID.

    `issuer` is the name of who signs with `key`; `subject` is the URI of the learner's key; `at` is from when it is
    valid. Raises `ValueError` for a name that cannot be shown honestly, `OSError` where a file cannot be written.
    """
    credential = compose(work, name, key_uri(key), issuer, subject, at)
    token = sign(credential, key)
    page = fitted(draw(credential))
    contents = {
        "jwt": token.encode("ascii"),
        "svg": bake_svg(to_svg(page), token).encode(),
        "png": bake_png(to_png(page), token),
        "pdf": to_pdf(page),
    }
    stem = short_id(credential.id)
    files = write_all(folder, {f"{stem}.{kind}": data for kind, data in contents.items()})
    return Issued(credential, files, unknown_characters(credential.learner + credential.issuer.name))


def write_all(folder: Path, contents: dict[str, bytes]) -> tuple[Path, ...]:
    """Write files, each whole or not at all; where one cannot be written, the others are not there either."""
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder, prefix=".writing-") as aside:
        for name, data in contents.items():
            (Path(aside) / name).write_bytes(data)
        written: list[Path] = []
        try:
            for name in contents:
                os.replace(Path(aside) / name, folder / name)
                written.append(folder / name)
        except OSError:
            for path in written:
                with contextlib.suppress(OSError):
                    path.unlink()
            raise
    return tuple(written)
