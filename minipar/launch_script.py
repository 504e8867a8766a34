"""How a layout is started on a cluster: torchrun's command line, and a SLURM script that runs it on every node."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass

from minipar.mesh import check_degrees

NAME, PORT, RESTARTS, TIME = "minipar", 29500, 3, "24:00:00"
DEGREES = ("--dp", "--pp", "--tp")


@dataclass(frozen=True)
class Launch:
    """A layout and the machines that it is for: `nodes` with `gpus_per_node` each, and a rank for every GPU.

    Raises `ValueError`, naming degrees that fit, where they do not multiply to the number of GPUs.
    """

    nodes: int
    gpus_per_node: int
    dp: int
    pp: int
    tp: int

    def __post_init__(self) -> None:
        """Refuse what cannot be started."""
        _at_least_one(nodes=self.nodes, gpus_per_node=self.gpus_per_node)
        check_degrees(self.dp, self.pp, self.tp, self.nodes * self.gpus_per_node)

    def command(self, further: Sequence[str] = ()) -> list[str]:
        """What each rank runs, after ``minipar``: ``train`` with the degrees and these further arguments.

        Raises `ValueError` where a degree is among them.
        """
        if again := [argument for argument in further if argument.partition("=")[0] in DEGREES]:
            raise ValueError(f"{again[0]} is a degree of the layout, and not a further argument: give it once")
        return ["train", "--dp", str(self.dp), "--pp", str(self.pp), "--tp", str(self.tp), *further]


def launch_of(nodes: int, gpus_per_node: int, tp: int, pp: int, dp: int | None = None) -> Launch:
    """The layout for these machines; without `dp` there are as many replicas as the GPUs have room for.

    Raises `ValueError`, naming degrees that fit, where a GPU would be left over or is missing.
    """
    if dp is None:
        dp = max(1, nodes * gpus_per_node // max(1, pp * tp))
    return Launch(nodes, gpus_per_node, dp, pp, tp)


def torchrun_line(
    nodes: int,
    gpus_per_node: int,
    arguments: Sequence[str],
    *,
    rendezvous: str = NAME,
    port: int = PORT,
    restarts: int = RESTARTS,
) -> str:
    """The line of shell that starts ``minipar`` with these arguments on every GPU; it is run once on each node.

    rendezvous: what tells this job from others, a word or a variable of the shell, such as ``$SLURM_JOB_ID``.
    port: several nodes meet there on the first of them, whose name is in the variable ``HEAD``.
    restarts: when a rank fails, torchrun starts all of them again, as many times as this.

    Raises `ValueError` for what cannot be, and for a rendezvous that the shell would take for something else.
    """
    _at_least_one(nodes=nodes, gpus_per_node=gpus_per_node)
    _check_word("rendezvous", rendezvous.removeprefix("$"))
    if not 0 < port < 65536:
        raise ValueError(f"port={port}; a port is a number from 1 to 65535")
    if restarts < 0:
        raise ValueError(f"restarts={restarts}; it is how many times, 0 or more")
    meet = f'--nnodes {nodes} --rdzv-backend c10d --rdzv-endpoint "$HEAD:{port}" --rdzv-id "{rendezvous}"'
    nodes_meet = meet if nodes > 1 else "--standalone"
    command = shlex.join(["-m", "minipar", *arguments])
    return f"torchrun {nodes_meet} --nproc-per-node {gpus_per_node} --max-restarts {restarts} {command}"


SCRIPT = """\
#!/bin/bash
{options}

# A job that is requeued, after a node has failed for example, runs the command below again, and so do ranks that
# torchrun restarts. With --checkpoint DIR, in a folder that all nodes see, minipar train resumes from the newest
# checkpoint there; without it, training begins anew.
set -euo pipefail
{head}
{srun} {line}
"""

HEAD = """
# The ranks meet on the first of the job's nodes.
hosts=$(scontrol show hostnames "$SLURM_JOB_NODELIST")
HEAD=${hosts%%$'\\n'*}
"""


def slurm_script(
    nodes: int,
    gpus_per_node: int,
    arguments: Sequence[str],
    *,
    name: str = NAME,
    time: str = TIME,
    cpus_per_task: int | None = None,
    port: int = PORT,
    restarts: int = RESTARTS,
) -> str:
    """A script for ``sbatch`` that runs `torchrun_line` once on each node.

    time: how long the job may take, as SLURM writes it: ``days-hours:minutes:seconds`` or a part of that.
    cpus_per_task: CPU cores of each node, for all its ranks; None leaves it to the cluster.

    Raises `ValueError` as `torchrun_line` does, for a name that is no word, and for what is no time.
    """
    _check_word("name", name)
    if not re.fullmatch(r"(\d+-)?\d+(:\d+){0,2}", time, re.ASCII):
        raise ValueError(f"time={time!r}; SLURM reads minutes, hours:minutes:seconds or days-hours:minutes:seconds")
    cores = []
    if cpus_per_task is not None:
        _at_least_one(cpus_per_task=cpus_per_task)
        cores = [f"--cpus-per-task={cpus_per_task}"]
    options = [
        f"--job-name={name}",
        f"--nodes={nodes}",
        "--ntasks-per-node=1",
        f"--gpus-per-node={gpus_per_node}",
        *cores,
        f"--time={time}",
        "--requeue",
        "--open-mode=append",  # so that a requeued job does not write over what it said before
    ]
    return SCRIPT.format(
        options="\n".join(f"#SBATCH {option}" for option in options),
        head=HEAD if nodes > 1 else "",
        # Since SLURM 22.05 srun does not take over how many cores a task has. Nodes wait for one that fails: end them.
        srun=" ".join(["srun", "--kill-on-bad-exit=1", *cores]),
        line=torchrun_line(nodes, gpus_per_node, arguments, rendezvous="$SLURM_JOB_ID", port=port, restarts=restarts),
    )


def _at_least_one(**counts: int) -> None:
    for what, count in counts.items():
        if count < 1:
            raise ValueError(f"{what}={count}; at least one is needed")


def _check_word(what: str, word: str) -> None:
    if not re.fullmatch(r"\w[\w.-]*", word, re.ASCII):
        raise ValueError(f"{what}={word!r}; it can have letters, digits, dots, dashes and underscores, and no other")
