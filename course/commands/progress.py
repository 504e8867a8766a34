"""`course progress`: what is done, what comes next; and taking it along to another machine."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from course.commands.sentences import as_sentences, say
from course.events import read_json
from course.progress import Progress, ProgressError
from course.standing import facts, standing
from course.table import table
from minipar.commands.common import Json
from minipar.words import _, plural


def progress_command(
    export: Annotated[Path | None, typer.Option("--export", metavar="FILE", help="Write all of it to a file.")] = None,
    import_: Annotated[
        Path | None, typer.Option("--import", metavar="FILE", help="Add what such a file holds, from another machine.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Show what is passed, how long it took, what comes next, and how many minutes are left."""
    with as_sentences():
        try:
            if sum([export is not None, import_ is not None, as_json]) > 1:
                raise ValueError(_("--export, --import and --json are three different things; name one of them"))
            if export is not None:
                _export(export)
            elif import_ is not None:
                _import(import_)
            else:
                _show(as_json)
        except ProgressError as error:
            raise ValueError(str(error)) from None


def _export(file: Path) -> None:
    document = Progress().export()
    try:
        with file.open("x", encoding="utf-8") as out:
            json.dump(document, out, indent=1)
            out.flush()
            os.fsync(out.fileno())
    except FileExistsError:
        raise ValueError(_("{path} is there already; name another file").format(path=file)) from None
    except OSError as error:
        raise ValueError(_("{path} cannot be written: {reason}").format(path=file, reason=error.strerror)) from None
    count = len(document["events"])
    words = plural("{count} event was written.", "{count} events were written.", count)
    say(f"{words} {_('On the other machine: {command}').format(command=f'course progress --import {file.name}')}")


def _import(file: Path) -> None:
    added = Progress().merge(read_json(file))
    say(plural("{count} event was added.", "{count} events were added.", added))


def _show(as_json: bool) -> None:
    course = standing(Progress().log())
    if as_json:
        print(json.dumps(facts(course)))
        return
    shown = table(course)
    grid = Table(*shown.heads, title=shown.title, title_justify="left", box=None)
    for row in shown.rows:
        grid.add_row(*row)
    Console(markup=False).print(grid)
    say()
    for sentence in shown.sentences:
        say(sentence)
