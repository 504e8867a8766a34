"""`course check 04`: check the exercises of a notebook from the shell."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from course.commands.sentences import as_sentences, say
from course.exercises.check import ask
from course.exercises.exercise import Status, Verdict
from course.exercises.notebook import Found, answers
from course.exercises.submission import checked
from course.lessons import find
from course.progress import Progress
from minipar.commands.common import Json, complain
from minipar.words import _

COLOURS = {Status.PASSED: "green", Status.NOT_TRIED: None}


def check_command(
    lesson: Annotated[str, typer.Argument(help="Number of a lesson, or the file of a notebook.")],
    as_json: Json = False,
) -> None:
    """Check the exercises of a notebook, saved as it is; keep the results. The exit code is 1 unless all passed.

    Only the exercises' cells and what they use is run, on fresh processes; the rest of the notebook is not.
    """
    with as_sentences():
        if lesson.endswith(".ipynb"):
            found = answers(Path(lesson))
        else:
            found = answers(find(lesson).notebook, find(lesson).name)
        verdicts = {one.exercise.name: _judge(one) for one in found}
    if as_json:
        print(json.dumps({name: verdict.to_json() for name, verdict in verdicts.items()}))
    else:
        for name, verdict in verdicts.items():
            _show(name, verdict)
        if not verdicts:
            say(_("There are no exercises in it."))
    if any(verdict.status is not Status.PASSED for verdict in verdicts.values()):
        raise typer.Exit(1)


def _judge(found: Found) -> Verdict:
    if found.source is None:
        return Verdict(Status.NOT_TRIED, _("The notebook has no answer to it."))
    verdict, notice = ask(found.exercise.name, checked(found.source), Progress().path)
    if notice:
        complain(notice)
    return verdict


def _show(name: str, verdict: Verdict) -> None:
    say(_("{exercise}: {title}").format(exercise=name, title=verdict.title), COLOURS.get(verdict.status, "red"))
    for line in f"{verdict.message}\n{verdict.printed}".strip().splitlines():
        say(f"  {line}")
    if verdict.targets:
        table = Table("", _("yours"), _("target"), _("best known"), box=None)
        for row in verdict.targets:
            table.add_row(*row)
        Console(markup=False, highlight=False).print(table)
