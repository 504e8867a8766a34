"""`minipar doctor`: what this machine can do."""

from __future__ import annotations

import json

from rich.console import Console
from rich.table import Table

from minipar.commands.common import Json, clear_errors
from minipar.doctor import examine


def doctor_command(as_json: Json = False) -> None:
    """Say what this machine can do: versions, devices, backend and why, how fast ranks start and talk."""
    with clear_errors():
        findings = examine()
    if as_json:
        print(json.dumps([finding._asdict() for finding in findings]))
        return
    table = Table(show_header=False, box=None)
    for finding in findings:
        table.add_row(finding.name, finding.value)
        if finding.advice:
            table.add_row("", f"→ {finding.advice}", style="dim")
    Console().print(table)
