"""The command line, of which only the command that is run is imported."""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Any, ClassVar

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command

from minipar.words import _

COMMANDS = {
    "doctor": "Say what this machine can do: versions, devices, backend and why, how fast ranks start and talk.",
    "export": "Join the weights of a checkpoint, however they were split, into one safetensors file for the unsplit "
    "model.",
    "demo": "Train a GPT split over 4 ranks, prove it equal to the unsplit one, and watch micro-batches shrink the "
    "bubble.",
    "launch-script": "Print the torchrun line and the SLURM script that train in this layout, one rank for each GPU.",
    "plan": "Find the fastest layouts on so many GPUs: every mesh, schedule, micro-batch, recompute and ZeRO is "
    "considered.",
    "predict": "Predict the time and the memory of a step in this layout, by part, without starting a rank.",
    "profile": "Measure a model's layers, steps and links on this machine, and fit the planner's constants to them.",
    "simulate": "Predict when each rank does what, how much of it is idle, and what it holds, without starting a rank.",
    "train": "Train a GPT on a dp × pp × tp mesh. Starts its own ranks; under torchrun it joins those that are there.",
    "verify": "Train a small GPT in this layout and unsplit; compare losses, gradients and weights of three clipped "
    "steps.",
    "bench": "Speed as a ratio, both sides in the same run.",
}
"""Each command's line in the help. `launch-script` is `launch_script_command` in `minipar/commands/launch_script.py`,
and so are all: a function, or a Typer app of several commands."""


def loaded(name: str, package: str = "minipar.commands") -> Any:
    """A command of a package, or a group of commands, imported and made ready to run."""
    word = name.replace("-", "_")
    command = getattr(import_module(f"{package}.{word}"), f"{word}_command")
    if isinstance(command, typer.Typer):
        return translated(get_command(command))
    alone = typer.Typer(add_completion=False)
    alone.command(name)(command)
    return translated(get_command(alone))


def translated(command: Any) -> Any:
    """The command, or group of commands, with its help in the reader's language."""
    for part in (command, *command.params):
        if getattr(part, "help", None):
            part.help = _(part.help)
    for one in getattr(command, "commands", {}).values():
        translated(one)
    return command


class Commands(TyperGroup):
    """All commands: the help knows their lines, and the one that is run is imported. Most of them bring torch."""

    package = "minipar.commands"
    lines: ClassVar[dict[str, str]] = COMMANDS

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.help = _(self.help or "")
        self.commands = {name: TyperCommand(name, help=_(line)) for name, line in self.lines.items()}

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        """The name of the command that is run, the command itself, and the arguments left for it."""
        name, listed, rest = super().resolve_command(ctx, args)
        return name, loaded(name, self.package) if name else listed, rest


app = typer.Typer(cls=Commands, no_args_is_help=True, add_completion=False)


@app.callback()
def minipar() -> None:
    """Model and pipeline parallelism: simulate a split, train it, and prove it equal to the unsplit model."""


if __name__ == "__main__":
    sys.exit(app())
