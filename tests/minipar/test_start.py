"""What must start at once does so without torch, and the command line imports the one command that it runs."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import NamedTuple

import pytest
import typer
from typer.testing import CliRunner

from minipar import RankFailed
from minipar.cli import COMMANDS, app, loaded
from minipar.commands.common import clear_errors

PLAIN = (
    "minipar",
    "minipar.pipeline",
    *(f"minipar.pipeline.{name}" for name in ("schedule", "schedules", "looped", "names", "simulate", "timeline")),
    *(f"minipar.pipeline.{name}" for name in ("lower", "partition", "auto")),
    "minipar.commands.common",
    "minipar.commands.options",
    "minipar.draw",
    "minipar.links",
    "minipar.words",
)

SPY = """
import json, sys
from minipar.cli import app
try:
    app(sys.argv[1:], prog_name="minipar")
finally:
    print("\\n" + json.dumps(list(sys.modules)), file=sys.stderr)
"""


def imported_by(code: str) -> set[str]:
    """What a fresh process has imported once it has run this code."""
    code += "\nimport json, sys\nprint(json.dumps(list(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    return set(json.loads(done.stdout))


class Ran(NamedTuple):
    code: int
    said: str
    imported: set[str]

    @property
    def commands(self) -> set[str]:
        """Of which commands the files were imported."""
        files = {f"minipar.commands.{name.replace('-', '_')}": name for name in COMMANDS}
        return {files[module] for module in files.keys() & self.imported}


def ran(*arguments: str) -> Ran:
    """The command line in a fresh process."""
    done = subprocess.run([sys.executable, "-c", SPY, *arguments], capture_output=True, text=True, timeout=60)
    *errors, modules = done.stderr.splitlines()
    return Ran(done.returncode, " ".join((done.stdout + "\n".join(errors)).split()), set(json.loads(modules)))


@pytest.mark.parametrize("module", PLAIN)
def test_plain_data_and_pictures_need_no_torch(module: str) -> None:
    imported = imported_by(f"import {module}")
    assert module in imported
    assert "torch" not in imported


def test_a_schedule_is_made_simulated_and_drawn_without_torch() -> None:
    code = """
from minipar.draw import Panel, gantt_svg
from minipar.pipeline import balanced_cuts, by_name, check, even_cuts, lower, simulate
lower(by_name("zb-v", 4, 8))
gantt_svg([Panel("", simulate(check(by_name("1f1b", 4, 8))))], "", "")
even_cuts(8, 4), balanced_cuts([1.0] * 8, 4)
"""
    assert "torch" not in imported_by(code)


def test_the_spy_hears_of_torch() -> None:
    assert "torch" in imported_by("from minipar.pipeline import run")
    assert "torch" in ran("verify", "--help").imported


SIZES = "--schedule", "1f1b", "--stages", "4", "--micro-batches", "8"
AUTO = "--schedule", "auto", "--stages", "2", "--micro-batches", "2", "--memory-limit", "2"


@pytest.mark.parametrize(
    ("arguments", "code", "says", "commands"),
    [
        (["--help"], 0, "Usage: minipar [OPTIONS] COMMAND", set()),
        ([], 2, "Usage: minipar [OPTIONS] COMMAND", set()),
        (["simulat"], 2, "No such command 'simulat'. Did you mean 'simulate'?", set()),
        (["--nosuch"], 2, "No such option: --nosuch", set()),
        (["simulate", *SIZES], 0, "1F1B: idle 27 % of the time", {"simulate"}),
        (["simulate", *SIZES, "--json"], 0, '"bubble_of_total": 0.27', {"simulate"}),
        (["simulate", *AUTO], 0, "auto (at most 2 live): idle", {"simulate"}),
        (["simulate", *SIZES, "--costs", "X"], 1, "'X' is not one of F, B, I, W, send", {"simulate"}),
        (["simulate", "--help"], 0, "Usage: minipar simulate [OPTIONS]", {"simulate"}),
        (["simulate"], 2, "Missing option '--schedule'", {"simulate"}),
        (["bench", "--help"], 0, "Usage: minipar bench [OPTIONS] COMMAND", {"bench"}),
        (["bench", "tensor", "--help"], 0, "Usage: minipar bench tensor [OPTIONS]", {"bench"}),
        (["export", "--help"], 0, "Usage: minipar export [OPTIONS]", {"export"}),
    ],
)
def test_what_starts_no_rank_runs_whole_without_torch(
    arguments: list[str], code: int, says: str, commands: set[str]
) -> None:
    done = ran(*arguments)
    assert (done.code, done.commands) == (code, commands)
    assert says in done.said
    assert "torch" not in done.imported


def test_no_other_command_is_imported_beside_one_that_brings_torch() -> None:
    done = ran("launch-script", "--nodes", "1", "--gpus-per-node", "2", "--tp", "2")
    assert (done.code, done.commands) == (0, {"launch-script"})
    assert "torchrun" in done.said


@pytest.mark.parametrize("name", COMMANDS)
def test_the_help_says_of_a_command_what_its_docstring_says(name: str) -> None:
    first, *_ = loaded(name).help.splitlines()
    assert COMMANDS[name] == first


def test_the_help_lists_every_command_with_its_line() -> None:
    said = CliRunner().invoke(app, ["--help"], env={"COLUMNS": "200"}).output
    rows = [line.strip(" │").split(maxsplit=1) for line in said.splitlines()]
    assert [row for row in rows if row and row[0] in COMMANDS] == [list(row) for row in COMMANDS.items()]


@pytest.mark.parametrize("error", [ValueError("so it is"), RankFailed("so it is", 0, {})])
def test_an_error_that_can_be_mended_is_its_sentence(error: Exception, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(typer.Exit), clear_errors():
        raise error
    assert capsys.readouterr().err == "so it is\n"


@pytest.mark.parametrize("error", [RuntimeError("a fault"), KeyError("a fault"), KeyboardInterrupt()])
def test_any_other_error_keeps_its_traceback(error: BaseException, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(type(error)) as raised, clear_errors():
        raise error
    assert raised.value is error
    assert capsys.readouterr().err == ""
