"""`course certificate`: the certificate of what was passed, or what is still missing for it."""

from __future__ import annotations

from datetime import datetime, timezone
from pathlib import Path
from typing import Annotated

import typer

from course.certificate.credential import short_id
from course.certificate.issue import folder_of_learner, issue
from course.certificate.keys import key_uri, learner_key
from course.certificate.work import missing, work_of
from course.commands.sentences import as_sentences, say
from course.progress import Progress
from course.untrusted import person_name
from minipar.words import _, plural

Name = Annotated[str, typer.Option("--name", help="Your name, as the certificate is to say it.")]
To = Annotated[Path | None, typer.Option("--to", help="Folder for the files; else one in the course's data folder.")]


def certificate_command(name: Name, to: To = None) -> None:
    """Issue your certificate once all exercises and the final exam are passed."""
    with as_sentences():
        name = person_name(name)
        work = work_of(Progress().log())
        if lacking := missing(work):
            say(_missing(len(lacking)))
            for sentence in lacking:
                say(f"  - {sentence}")
            raise typer.Exit(1)
        key = learner_key()
        at = min(work.since, datetime.now(timezone.utc))  # the same work gives the same certificate, and so the same ID
        issued = issue(work, name, key, name, key_uri(key), at, to or folder_of_learner())
    say(_("Your certificate has the ID {id}.").format(id=short_id(issued.credential.id)))
    for path in issued.files:
        say(f"  {path}")
    tell_unknown(issued.unknown)
    say(_("It is signed with your own key, which proves that nothing was changed since. Whether the work is yours,"))
    say(_("an instructor can say who grades it again: hand in a bundle with `course submit`."))


def _missing(count: int) -> str:
    return plural("One thing is missing for the certificate:", "{count} things are missing for the certificate:", count)


def tell_unknown(unknown: str) -> None:
    """Say which characters could not be drawn."""
    if unknown:
        words = _("No font on this machine has: {characters}. PNG and PDF show boxes in their place; install a font")
        say(words.format(characters=" ".join(unknown)), "yellow")
        say(_("and run the command again. The SVG uses the fonts of whoever opens it."), "yellow")
