"""What the commands about certificates share: their errors are sentences, and what they print is never markup."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import typer
from rich.console import Console

from minipar.commands.common import complain
from minipar.words import _


def say(sentence: str = "", style: str | None = None) -> None:
    """Print a sentence. Names in it come from files of others: they are neither markup nor links."""
    Console(soft_wrap=True).print(sentence, style=style, markup=False, highlight=False, emoji=False)


@contextmanager
def as_sentences() -> Iterator[None]:
    """Turn an error that the user can mend into its sentence and exit code 1."""
    try:
        yield
    except ValueError as error:
        complain(str(error))
        raise typer.Exit(1) from None
    except OSError as error:
        where = f" ({error.filename})" if error.filename else ""
        complain(_("It could not be done: {reason}").format(reason=error.strerror or error) + where)
        raise typer.Exit(1) from None
