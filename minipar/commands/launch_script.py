"""`minipar launch-script`: how a layout is started on a cluster."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from minipar.commands.common import Json, clear_errors, write_text
from minipar.launch_script import NAME, PORT, RESTARTS, TIME, launch_of, slurm_script, torchrun_line
from minipar.mesh import cost_of_spanning, tp_spans_nodes
from minipar.words import _


def launch_script_command(
    nodes: Annotated[int, typer.Option(metavar="N", help="How many machines.")],
    gpus_per_node: Annotated[int, typer.Option(metavar="G", help="GPUs of each, and so ranks of each.")],
    tp: Annotated[int, typer.Option(metavar="T", help="Tensor ranks.")] = 1,
    pp: Annotated[int, typer.Option(metavar="P", help="Pipeline ranks.")] = 1,
    dp: Annotated[int | None, typer.Option(metavar="D", help="Data ranks; by default what is left.")] = None,
    further: Annotated[
        list[str] | None, typer.Argument(metavar="-- ARGUMENTS", help="Further arguments of minipar train.")
    ] = None,
    name: Annotated[str, typer.Option(metavar="NAME", help="The job's name.")] = NAME,
    time: Annotated[str, typer.Option(metavar="D-H:M:S", help="How long the job may take, as SLURM writes it.")] = TIME,
    cpus_per_task: Annotated[
        int | None, typer.Option(metavar="C", help="CPU cores of each node; by default what the cluster gives.")
    ] = None,
    port: Annotated[int, typer.Option(metavar="PORT", help="Where the nodes meet, on the first of them.")] = PORT,
    max_restarts: Annotated[
        int, typer.Option(metavar="R", help="How often torchrun starts the ranks again when one fails.")
    ] = RESTARTS,
    script: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the SLURM script there instead of printing it.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Print the torchrun line and the SLURM script that train in this layout, one rank for each GPU."""
    with clear_errors():
        layout = launch_of(nodes, gpus_per_node, tp, pp, dp)
        arguments = layout.command(further or [])
        job = slurm_script(
            nodes,
            gpus_per_node,
            arguments,
            name=name,
            time=time,
            cpus_per_task=cpus_per_task,
            port=port,
            restarts=max_restarts,
        )
        line = torchrun_line(nodes, gpus_per_node, arguments, rendezvous=name, port=port, restarts=max_restarts)
        if script is not None:
            write_text(script, job)
    if tp_spans_nodes(tp, gpus_per_node):
        Console(stderr=True).print(cost_of_spanning(tp, gpus_per_node), style="yellow", markup=False)
    if as_json:
        print(json.dumps({"torchrun": line, "slurm": job, "layout": asdict(layout)}))
        return
    on_one = _("# On the machine itself:")
    on_each = _("# On every node, with HEAD set to the name of the first one:")
    print(on_each if nodes > 1 else on_one, line, "", sep="\n")
    if script is not None:
        print(_("# With SLURM:"), f"sbatch {script}", sep="\n")
    else:
        print(_("# With SLURM, as a file for sbatch (--script FILE writes it):"), job, sep="\n", end="")
