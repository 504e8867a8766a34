"""`course submit`: pack answers, solutions and progress into one file for an instructor."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from course.bundle import MOST_BYTES, pack, unpack
from course.certificate.issue import write_all
from course.certificate.keys import fingerprint, key_uri, learner_key
from course.commands.sentences import as_sentences, say
from course.progress import Progress
from minipar.words import _, plural

Name = Annotated[str, typer.Option("--name", help="Your name, as the certificate is to say it.")]
File = Annotated[Path, typer.Option("--file", help="The file to write.")]


def submit_command(name: Name, file: File = Path("submission.json")) -> None:
    """Pack all your answers, the sources of your solutions and your progress into one file."""
    with as_sentences():
        learner = key_uri(learner_key())
        data = pack(Progress(), learner, name)
        bundle = unpack(data)  # what the instructor will read: better refused here than there
        if len(data) > MOST_BYTES:
            raise ValueError(
                _("The bundle has {size} bytes; at most {most} fit.").format(size=len(data), most=MOST_BYTES)
            )
        write_all(file.parent, {file.name: data})
    say(_("{file} is ready: give it to your instructor.").format(file=file))
    tries = plural("{count} attempt at a quiz", "{count} attempts at quizzes", len(bundle.tries))
    solutions = plural("{count} solution", "{count} solutions", len(bundle.solutions))
    events = plural("{count} entry of your progress", "{count} entries of your progress", len(bundle.events))
    say(_("It has: {parts}.").format(parts=", ".join((tries, solutions, events))))
    say(_("It names you by your key, {key}, and by the name that you gave.").format(key=fingerprint(learner)))
