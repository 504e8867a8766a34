"""`course glossary`: the words of the field and what they mean."""

from __future__ import annotations

import typer
from rich.console import Console
from rich.table import Table

from course import glossary
from minipar.words import _


def glossary_command(word: str = typer.Argument("", help="Only words that contain this.")) -> None:
    """Say what the words of the course mean, and which lesson explains each."""
    found = glossary.search(word)
    if not found:
        typer.echo(_("no word contains {word!r}; all of them: course glossary").format(word=word), err=True)
        raise typer.Exit(1)
    table = Table(_("word"), _("what it means"), _("lesson"), box=None, padding=(0, 2, 0, 0))
    for one in found:
        table.add_row(one.term, one.meaning, glossary.title_of(one))
    Console(markup=False).print(table)
