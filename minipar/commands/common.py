"""What the commands share: their errors and the option `--json`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated

import typer
from rich.console import Console

from minipar import RankFailed

Json = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of text.")]


@contextmanager
def clear_errors() -> Iterator[None]:
    """Turn an error that the user can mend into its sentence and exit code 1."""
    try:
        yield
    except (ValueError, RankFailed) as error:
        Console(stderr=True).print(str(error), style="red", markup=False)
        raise typer.Exit(1) from None
