"""The command line: `minipar doctor`, `demo`, `simulate`, `train`, `export`, `launch-script`, `verify` and `bench`."""

from __future__ import annotations

import sys

import typer

from minipar.commands.bench import app as bench_app
from minipar.commands.demo import demo_command
from minipar.commands.doctor import doctor_command
from minipar.commands.export import export_command
from minipar.commands.launch_script import launch_script_command
from minipar.commands.simulate import simulate_command
from minipar.commands.train import train_command
from minipar.commands.verify import verify_command

app = typer.Typer(help=__doc__, no_args_is_help=True, add_completion=False)
app.command("doctor")(doctor_command)
app.command("export")(export_command)
app.command("demo")(demo_command)
app.command("launch-script")(launch_script_command)
app.command("simulate")(simulate_command)
app.command("train")(train_command)
app.command("verify")(verify_command)
app.add_typer(bench_app, name="bench")

if __name__ == "__main__":
    sys.exit(app())
