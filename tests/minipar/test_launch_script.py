"""Launch scripts: what they say, that a shell reads them so, and that they really start ranks."""

from __future__ import annotations

import json
import os
import re
import shlex
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from minipar.launch_script import Launch, launch_of, slurm_script, torchrun_line
from minipar.mesh import cost_of_spanning

NASTY = ["--text", 'my file\'s "$HOME" `x` {y} #z\n.txt', "--prompt", "", "--checkpoint=runs/1"]


def bash(script: str, *options: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a script with this Python's torchrun, and with nothing that would tell a rank that it is one already."""
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    repository = str(Path(__file__).parents[2])
    return subprocess.run(
        ["bash", *options],
        input=script,
        capture_output=True,
        text=True,
        timeout=90,
        env={**os.environ, "PATH": path, "PYTHONPATH": repository, "MINIPAR_DEVICE": "cpu", **environment},
    )


def test_several_nodes_meet_at_the_first_one() -> None:
    line = torchrun_line(4, 8, launch_of(4, 8, tp=8, pp=2).command(["--steps", "9"]), rendezvous="gpt-1", port=1234)
    assert line == (
        'torchrun --nnodes 4 --rdzv-backend c10d --rdzv-endpoint "$HEAD:1234" --rdzv-id "gpt-1" '
        "--nproc-per-node 8 --max-restarts 3 -m minipar train --dp 2 --pp 2 --tp 8 --steps 9"
    )


def test_one_node_meets_nobody() -> None:
    line = torchrun_line(1, 2, launch_of(1, 2, tp=2, pp=1).command(), restarts=0)
    assert line == ("torchrun --standalone --nproc-per-node 2 --max-restarts 0 -m minipar train --dp 1 --pp 1 --tp 2")
    script = slurm_script(1, 2, ["train"])
    assert "scontrol" not in script
    assert "HEAD" not in script


@given(st.lists(st.text(max_size=9), max_size=5), st.integers(1, 3))
def test_a_shell_gives_every_argument_back(arguments: list[str], nodes: int) -> None:
    words = shlex.split(torchrun_line(nodes, 8, arguments))
    at = words.index("minipar", words.index("-m"))
    assert words[at + 1 :] == arguments


def test_the_slurm_script_asks_for_what_the_layout_needs() -> None:
    script = slurm_script(4, 8, ["train"], name="gpt-1", time="2-12:00:00", cpus_per_task=96)
    first, *lines = script.splitlines()
    assert first == "#!/bin/bash"
    asked = [line.removeprefix("#SBATCH ") for line in lines if line.startswith("#SBATCH ")]
    assert asked == [
        "--job-name=gpt-1",
        "--nodes=4",
        "--ntasks-per-node=1",
        "--gpus-per-node=8",
        "--cpus-per-task=96",
        "--time=2-12:00:00",
        "--requeue",
        "--open-mode=append",
    ]
    assert lines[: len(asked)] == [f"#SBATCH {option}" for option in asked], "sbatch stops reading at a command"
    assert "set -euo pipefail" in lines
    assert "--checkpoint DIR" in script
    line = torchrun_line(4, 8, ["train"], rendezvous="$SLURM_JOB_ID")
    assert lines[-1] == f"srun --kill-on-bad-exit=1 --cpus-per-task=96 {line}"


def test_cores_are_the_clusters_to_choose_if_none_are_named() -> None:
    assert "cpus" not in slurm_script(4, 8, ["train"])


@pytest.mark.parametrize("time", ["90", "90:30", "12:00:00", "2-12", "2-12:30", "2-12:30:00"])
@pytest.mark.parametrize("nodes", [1, 3])
def test_a_shell_can_read_the_script(nodes: int, time: str) -> None:
    checked = bash(slurm_script(nodes, 8, NASTY, time=time, cpus_per_task=4), "-n")
    assert (checked.returncode, checked.stderr) == (0, "")


@pytest.mark.parametrize(("tp", "pp", "dp"), [(8, 4, 1), (8, 1, 4), (1, 1, 32), (4, 4, 2)])
def test_what_the_gpus_have_room_for_are_replicas(tp: int, pp: int, dp: int) -> None:
    assert launch_of(4, 8, tp, pp) == launch_of(4, 8, tp, pp, dp) == Launch(4, 8, dp, pp, tp)


@pytest.mark.parametrize(
    ("nodes", "gpus", "degrees", "says"),
    [
        (4, 8, {"tp": 8, "pp": 4, "dp": 2}, r"needs 64 ranks, but there are 32; with 32 these fit: .*dp=1 pp=4 tp=8"),
        (4, 8, {"tp": 3, "pp": 1}, "dp=10 × pp=1 × tp=3 needs 30 ranks, but there are 32"),
        (1, 2, {"tp": 8, "pp": 1}, "dp=1 × pp=1 × tp=8 needs 8 ranks, but there are 2"),
        (4, 8, {"tp": 0, "pp": 1}, "tp=0; a degree is a whole number of at least 1"),
        (4, 8, {"tp": 1, "pp": -2}, "pp=-2; a degree is a whole number of at least 1"),
        (4, 8, {"tp": 1, "pp": 1, "dp": 0}, "dp=0; a degree is a whole number of at least 1"),
        (0, 8, {"tp": 1, "pp": 1}, "nodes=0; at least one is needed"),
        (4, -1, {"tp": 1, "pp": 1}, "gpus_per_node=-1; at least one is needed"),
    ],
)
def test_a_layout_that_does_not_fit_the_gpus_is_refused(
    nodes: int, gpus: int, degrees: dict[str, int], says: str
) -> None:
    with pytest.raises(ValueError, match=says):
        launch_of(nodes, gpus, **degrees)


@pytest.mark.parametrize("again", [["--tp", "4"], ["--steps", "3", "--dp=1"], ["--pp"]])
def test_a_degree_is_given_once(again: list[str]) -> None:
    with pytest.raises(ValueError, match=f"{again[-1] if len(again) == 3 else again[0]} is a degree of the layout"):
        launch_of(1, 2, tp=2, pp=1).command(again)


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"name": "two words"}, "name='two words'; it can have letters"),
        ({"name": "x\n#SBATCH --exclusive"}, "name="),
        ({"name": ""}, "name=''"),
        ({"name": "-x"}, "name='-x'"),
        ({"time": "soon"}, "time='soon'; SLURM reads minutes"),
        ({"time": "1:00:00\nreboot"}, "time="),
        ({"time": "1:00:00\n"}, "time="),
        ({"time": "1-"}, "time='1-'"),
        ({"time": ""}, "time=''"),
        ({"cpus_per_task": 0}, "cpus_per_task=0; at least one"),
        ({"port": 0}, "port=0; a port is a number from 1 to 65535"),
        ({"port": 65536}, "port=65536"),
        ({"restarts": -1}, "restarts=-1"),
    ],
)
def test_what_slurm_could_not_read_is_refused(wrong: dict[str, Any], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        slurm_script(2, 8, ["train"], **wrong)


@pytest.mark.parametrize("rendezvous", ["", "$", 'a"b', "$(reboot)", "a b", "$A$B"])
def test_what_a_shell_would_take_for_something_else_is_refused(rendezvous: str) -> None:
    with pytest.raises(ValueError, match="rendezvous="):
        torchrun_line(2, 8, ["train"], rendezvous=rendezvous)


def started(script: str, folder: Path, **environment: str) -> list[Any]:
    """Run a script whose ranks say what they were given instead of training; what they said, in rank order."""
    say = folder / "say.py"
    say.write_text(
        "import json, os, sys\n"
        f"with open({str(folder)!r} + '/rank' + os.environ['RANK'], 'w') as file:\n"
        "    json.dump([os.environ['WORLD_SIZE'], os.environ['LOCAL_WORLD_SIZE'], *sys.argv[1:]], file)\n"
    )
    assert script.count("-m minipar train") == 1
    done = bash(script.replace("-m minipar train", shlex.quote(str(say)) + " train"), **environment)
    assert done.returncode == 0, done.stderr
    return [json.loads(said.read_text()) for said in sorted(folder.glob("rank*"))]


def test_the_line_starts_a_rank_for_every_gpu_with_the_arguments(tmp_path: Path) -> None:
    line = torchrun_line(1, 2, launch_of(1, 2, tp=2, pp=1).command(NASTY))
    assert started(line, tmp_path) == [["2", "2", "train", "--dp", "1", "--pp", "1", "--tp", "2", *NASTY]] * 2


SCONTROL = '#!/bin/bash\n[ "$*" = "show hostnames node[1-2]" ] && printf "localhost\\nelsewhere\\n"\n'
SRUN = """#!/bin/bash
while [[ $1 == --* ]]; do echo "$1" >>"$SAID"; shift; done
"$@" & first=$!
"$@" & second=$!
wait $first && wait $second
"""


def stand_in(folder: Path, **commands: str) -> dict[str, str]:
    """SLURM's commands and variables on one machine that plays two nodes; srun writes down its options."""
    for name, text in commands.items():
        (folder / name).write_text(text)
        (folder / name).chmod(0o755)
    return {
        "PATH": f"{folder}:{Path(sys.executable).parent}:{os.environ['PATH']}",
        "SAID": str(folder / "said"),
        "SLURM_JOB_ID": "12345",
        "SLURM_JOB_NODELIST": "node[1-2]",
    }


def test_the_slurm_script_joins_the_ranks_of_all_nodes(tmp_path: Path) -> None:
    """A real torchrun on each of two nodes, which meet."""
    with socket.socket() as free:
        free.bind(("localhost", 0))
        port = free.getsockname()[1]
    script = slurm_script(2, 1, ["train", *NASTY], port=port, cpus_per_task=3)
    said = started(script, tmp_path, **stand_in(tmp_path, scontrol=SCONTROL, srun=SRUN))
    assert said == [["2", "1", "train", *NASTY]] * 2
    assert (tmp_path / "said").read_text().split() == ["--kill-on-bad-exit=1", "--cpus-per-task=3"]


def test_the_slurm_script_stops_where_the_nodes_cannot_be_found(tmp_path: Path) -> None:
    done = bash(slurm_script(2, 1, ["train"]), **stand_in(tmp_path, scontrol="#!/bin/bash\nexit 3\n", srun=SRUN))
    assert done.returncode == 3
    assert not (tmp_path / "said").exists()


def test_the_module_that_torchrun_starts_is_the_command_line() -> None:
    assert bash("python -m minipar launch-script").stderr.startswith("Usage: minipar launch-script ")


def launch_script(*arguments: str) -> Any:
    from minipar.cli import app

    return CliRunner().invoke(app, ["launch-script", *arguments])


CLUSTER = ("--nodes", "4", "--gpus-per-node", "8")


def test_the_command_prints_the_line_and_a_script(tmp_path: Path) -> None:
    result = launch_script(*CLUSTER, "--tp", "8", "--pp", "4", "--", *NASTY)
    assert (result.exit_code, result.stderr) == (0, "")
    arguments = ["train", "--dp", "1", "--pp", "4", "--tp", "8", *NASTY]
    assert torchrun_line(4, 8, arguments) in result.stdout
    assert result.stdout.endswith("\n" + slurm_script(4, 8, arguments))
    assert bash(result.stdout, "-n").returncode == 0


def test_the_command_passes_its_options_on() -> None:
    options = {"name": "gpt", "time": "90", "cpus-per-task": "4", "port": "1234", "max-restarts": "7"}
    given = [word for name, value in options.items() for word in (f"--{name}", value)]
    said = json.loads(launch_script(*CLUSTER, "--dp", "16", "--tp", "2", "--json", *given).stdout)
    arguments = ["train", "--dp", "16", "--pp", "1", "--tp", "2"]
    line = torchrun_line(4, 8, arguments, rendezvous="gpt", port=1234, restarts=7)
    job = slurm_script(4, 8, arguments, name="gpt", time="90", cpus_per_task=4, port=1234, restarts=7)
    layout = {"nodes": 4, "gpus_per_node": 8, "dp": 16, "pp": 1, "tp": 2}
    assert said == {"torchrun": line, "slurm": job, "layout": layout}


def test_the_script_is_written_where_it_is_wanted(tmp_path: Path) -> None:
    file = tmp_path / "job.sh"
    result = launch_script(*CLUSTER, "--tp", "8", "--script", str(file))
    assert file.read_text() == slurm_script(4, 8, ["train", "--dp", "4", "--pp", "1", "--tp", "8"])
    assert result.stdout.endswith(f"sbatch {file}\n")
    assert "#SBATCH" not in result.stdout
    result = launch_script(*CLUSTER, "--tp", "8", "--script", str(tmp_path / "nowhere" / "job.sh"))
    assert (result.exit_code, result.stdout) == (1, "")
    assert "cannot be written: No such file or directory" in " ".join(result.stderr.split())


@pytest.mark.parametrize(
    ("nodes", "gpus", "tp", "spans"), [(4, 4, 8, True), (2, 6, 4, True), (4, 8, 8, False), (1, 8, 8, False)]
)
def test_a_tensor_group_over_nodes_is_warned_of_with_its_cost(nodes: int, gpus: int, tp: int, spans: bool) -> None:
    result = launch_script("--nodes", str(nodes), "--gpus-per-node", str(gpus), "--tp", str(tp), "--json")
    assert result.exit_code == 0
    assert " ".join(result.stderr.split()) == (cost_of_spanning(tp, gpus) if spans else "")
    assert json.loads(result.stdout)["layout"]["tp"] == tp


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--tp", "8", "--pp", "3"], "dp=1 × pp=3 × tp=8 needs 24 ranks, but there are 32"),
        (["--tp", "8", "--", "--tp", "4"], "--tp is a degree of the layout"),
        (["--tp", "8", "--time", "soon"], "time='soon'"),
    ],
)
def test_what_does_not_fit_is_one_clear_sentence(arguments: list[str], says: str) -> None:
    result = launch_script(*CLUSTER, *arguments)
    assert (result.exit_code, result.stdout) == (1, "")
    assert says in re.sub(r"\s+", " ", result.stderr)
    assert "Traceback" not in result.stderr
