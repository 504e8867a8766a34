"""What the commands share: their errors and the option `--json`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

import minipar

Json = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of text.")]


def complain(error: str) -> None:
    """Print an error, without breaking the paths in it."""
    Console(stderr=True).print(error, style="red", markup=False, highlight=False, soft_wrap=True)


def write_text(path: Path, text: str) -> None:
    """Write a file that the user asked for; raises `ValueError` where it cannot be written."""
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise ValueError(f"{str(path)!r} cannot be written: {error.strerror}") from None


@contextmanager
def clear_errors() -> Iterator[None]:
    """Turn an error that the user can mend into its sentence and exit code 1."""
    try:
        yield
    except (ValueError, RuntimeError) as error:
        if not isinstance(error, ValueError) and not isinstance(error, minipar.RankFailed):  # which brings torch
            raise
        complain(str(error))
        raise typer.Exit(1) from None
