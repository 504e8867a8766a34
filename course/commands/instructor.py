"""`course instructor init | grade | report`: a key to sign with, grading a class again, and what it found difficult."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from course.bundle import read
from course.certificate.credential import short_id
from course.certificate.issue import write_all
from course.certificate.keys import fingerprint, key_uri, load_key, make_key
from course.commands.sentences import as_sentences, say
from course.instructor.difficulty import difficulty
from course.instructor.grading import ROSTER, Signer, grade_class
from course.instructor.roster import Row
from course.progress import data_folder
from course.untrusted import parse_json, person_name, read_bytes
from minipar.commands.common import complain
from minipar.words import _, plural

instructor_command = typer.Typer(
    help="Make a key, grade a class again and sign its certificates, see what it found difficult.",
    no_args_is_help=True,
    add_completion=False,
)
Bundles = Annotated[list[Path], typer.Argument(metavar="BUNDLE…", help="Files of `course submit`.")]


def _folder() -> Path:
    return data_folder() / "instructor"


@instructor_command.command()
def init(name: Annotated[str, typer.Option("--name", help="Your name, as certificates are to say it.")]) -> None:
    """Make the key that signs certificates. A key that is there is never overwritten."""
    key_file, public_file = _folder() / "key.json", _folder() / "public.pem"
    with as_sentences():
        name = person_name(name)
        try:
            key = make_key(key_file)
        except FileExistsError:
            raise ValueError(_("There is a key already: {path}. It stays as it is.").format(path=key_file)) from None
        write_all(_folder(), {public_file.name: key.as_pem(private=False), "name.json": json.dumps(name).encode()})
    say(_("Your private key: {path}. Only you can read it; keep a copy, and show it to nobody.").format(path=key_file))
    say(_("Your public key: {path}. Publish it where people know that it is yours:").format(path=public_file))
    say(_("with it `course verify FILE --key {file}` tells that you signed.").format(file=public_file.name))
    say(_("Its name is {key}.").format(key=fingerprint(key_uri(key))))


@instructor_command.command()
def grade(
    bundles: Bundles,
    to: Annotated[Path, typer.Option("--to", help="Folder for the roster and the certificates.")] = Path("graded"),
) -> None:
    """Grade bundles again from raw answers and sources, sign certificates, write a roster."""
    with as_sentences():
        signer = _signer()
        if (to / ROSTER).exists():
            words = _("{path} is there already, and is not overwritten. Name another folder with --to.")
            raise ValueError(words.format(path=to / ROSTER))
        say(_("This runs the learners' code: on fresh ranks of this machine, with a timeout, and as you. It can read"))
        say(_("and write what you can. Grade bundles of people that you do not trust in a container."))
        rows = grade_class(bundles, signer, to, _tell)
    if any(row.bundle is not None for row in rows):
        say(_("The roster is {path}.").format(path=to / ROSTER))
    if any(row.bundle is None for row in rows):
        raise typer.Exit(1)


def _signer() -> Signer:
    key_file = _folder() / "key.json"
    if not key_file.exists():
        raise ValueError(_("There is no key to sign with yet; make one: course instructor init --name …"))
    name = parse_json(read_bytes(_folder() / "name.json", 10_000))
    return Signer(load_key(key_file), person_name(name if isinstance(name, str) else ""))


def _tell(row: Row) -> None:
    if row.bundle is None:
        for remark in row.remarks:
            complain(_("{file}: refused: {reason}").format(file=row.file, reason=remark))
        return
    result = (
        _("no certificate") if row.certificate is None else _("certificate {id}").format(id=short_id(row.certificate))
    )
    say(_("{file}: {name}: {result}").format(file=row.file, name=row.bundle.name, result=result))
    for remark in row.remarks:
        say(f"  - {remark}")


@instructor_command.command()
def report(bundles: Bundles) -> None:
    """Show how difficult each question was for a class, the most difficult first. No learner's code is run."""
    with as_sentences():
        opened = [read(path) for path in bundles]
        questions = difficulty(opened)
    learners = len({bundle.learner for bundle in opened})
    say(plural("{count} learner", "{count} learners", learners))
    table = Table(box=None)
    for head in (_("quiz"), _("question")):
        table.add_column(head, no_wrap=True, overflow="fold")  # a name that is cut off or broken names nothing
    for head in (_("learners"), _("points at first"), _("points at best")):
        table.add_column(head)
    for q in questions:
        shares = (_("{share:.0f} %").format(share=100 * share) for share in (q.first, q.best))
        table.add_row(Text(q.quiz), Text(q.question), str(q.learners), *shares)
    Console().print(table)
