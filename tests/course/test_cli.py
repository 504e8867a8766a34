"""The command line of the course: every command is there, says what it does, and brings no other along."""

import subprocess
import sys

import pytest
from typer.testing import CliRunner

from course.cli import COMMANDS, app
from minipar.cli import loaded


@pytest.mark.parametrize("name", COMMANDS)
def test_the_help_says_of_a_command_what_its_docstring_says(name: str) -> None:
    first, *_ = loaded(name, "course.commands").help.splitlines()
    assert COMMANDS[name] == first


def test_the_help_lists_every_command_with_its_line() -> None:
    said = CliRunner().invoke(app, ["--help"], env={"COLUMNS": "200"}).output
    rows = [line.strip(" │").split(maxsplit=1) for line in said.splitlines()]
    assert [row for row in rows if row and row[0] in COMMANDS] == [list(row) for row in COMMANDS.items()]


@pytest.mark.parametrize(("arguments", "says"), [(["lessons"], "Start here"), (["--help"], "instructor")])
def test_what_needs_no_library_brings_none(arguments: list[str], says: str) -> None:
    code = (
        "import sys; from course.cli import app; app("
        f"{arguments!r}, standalone_mode=False); print('torch' in sys.modules, 'course.judge' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert says in done.stdout
    assert done.stdout.endswith("False False\n")


def test_an_instructor_has_three_commands() -> None:
    said = CliRunner().invoke(app, ["instructor", "--help"]).output
    assert all(f" {name} " in said for name in ("init", "grade", "report"))


def test_an_unknown_command_is_told() -> None:
    result = CliRunner().invoke(app, ["certify"])
    assert result.exit_code == 2
    assert "certify" in result.output
