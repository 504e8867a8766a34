"""`course doctor`: whether the course runs on this machine, and what to do where it does not."""

from __future__ import annotations

import json
from dataclasses import asdict

import typer
from rich.console import Console
from rich.table import Table

from course.commands.sentences import say
from course.doctor import examine
from minipar.commands.common import Json
from minipar.words import _


def doctor_command(as_json: Json = False) -> None:
    """Look at Python, JupyterLab, the data folder, the ranks and the exercises; say what is missing. Takes seconds."""
    findings = list(examine())
    bad = [finding for finding in findings if not finding.good]
    if as_json:
        print(json.dumps([asdict(finding) for finding in findings]))
    else:
        table = Table(show_header=False, box=None)
        for finding in findings:
            table.add_row("✓" if finding.good else "✗", finding.name, finding.value)
            if finding.advice:
                table.add_row("", "", f"→ {finding.advice}")
        Console(markup=False, highlight=False).print(table)
        verdict = _("Something is missing. Do what stands behind the arrows.") if bad else _("The course runs here.")
        say(verdict, "red" if bad else None)
    if bad:
        raise typer.Exit(1)
