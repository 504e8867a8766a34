"""`minipar train` as its user runs it: on its own ranks, under torchrun, and through the loss of ranks."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from typer.testing import CliRunner

import minipar
from minipar.cli import app
from minipar.layout import Layout
from minipar.model import GPTConfig, Recompute
from minipar.pipeline import by_name
from minipar.train import ByteText, Precision, Recipe, Trainer
from minipar.train.job import Job, Outcome

SIZES = ["--hidden", "16", "--layers", "4", "--sequence", "8", "--batch", "8", "--micro-batches", "2"]
TINY = [*SIZES, "--precision", "float64"]
MINIPAR = [sys.executable, "-m", "minipar", "train"]
ENVIRONMENT = {k: v for k, v in os.environ.items() if k not in ("RANK", "WORLD_SIZE")} | {"MINIPAR_DEVICE": "cpu"}


def lines(path: Path) -> list[dict]:
    """The whole lines so far."""
    text = path.read_text() if path.exists() else ""
    return [json.loads(line) for line in text.splitlines(keepends=True) if line.endswith("\n")]


def losses(path: Path) -> list[tuple[int, float]]:
    return [(line["step"], line["loss"]) for line in lines(path) if "loss" in line]


def descendants(process: subprocess.Popen) -> list[psutil.Process]:
    try:
        return psutil.Process(process.pid).children(recursive=True)
    except psutil.NoSuchProcess:
        return []


def ranks_of(process: subprocess.Popen) -> list[int]:
    """The ranks that `minipar train` started: each leads a process group of its own."""
    found = []
    for child in descendants(process):
        try:
            if os.getpgid(child.pid) == child.pid and child.status() != psutil.STATUS_ZOMBIE:
                found.append(child.pid)
        except (ProcessLookupError, psutil.NoSuchProcess):
            continue
    return found


def wait_for(condition, process: subprocess.Popen, seconds: float = 60.0) -> None:  # type: ignore[no-untyped-def]
    deadline = time.monotonic() + seconds
    while not condition():
        assert process.poll() is None, f"it ended by itself: {process.communicate()}"
        assert time.monotonic() < deadline, "it takes too long"
        time.sleep(0.01)


def run(*arguments: str, **more) -> subprocess.CompletedProcess:  # type: ignore[no-untyped-def]
    return subprocess.run([*MINIPAR, *arguments], capture_output=True, text=True, timeout=100, env=ENVIRONMENT, **more)


@pytest.mark.timeout(400)
def test_ten_killed_ranks_leave_no_trace_in_the_loss_curve(tmp_path: Path) -> None:
    layout = ["--dp", "2", "--pp", "2", "--tp", "2", "--steps", "50", *TINY]
    calm = run(*layout, "--metrics", str(tmp_path / "calm"))
    assert calm.returncode == 0, calm.stderr
    seed = random.randrange(10**6)
    chance, metrics, folder = random.Random(seed), tmp_path / "killed", tmp_path / "checkpoints"
    targets = sorted(chance.randrange(1, 48) for _ in range(10))
    print(f"seed {seed}: kills at steps {targets}")
    survivor = [
        *layout,
        "--metrics",
        str(metrics),
        "--checkpoint",
        str(folder),
        "--save-every",
        "5",
        "--restarts",
        "10",
    ]
    process = subprocess.Popen(
        [*MINIPAR, *survivor], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=ENVIRONMENT
    )
    try:
        for target in targets:
            wait_for(lambda: (losses(metrics) or [(-1, 0)])[-1][0] >= target, process)  # noqa: B023
            ranks = ranks_of(process)
            wait_for(lambda: len(ranks_of(process)) == 8, process)
            ranks = ranks_of(process)
            os.kill(chance.choice(ranks), signal.SIGKILL)
            wait_for(lambda: not set(ranks) & set(ranks_of(process)), process)  # noqa: B023
        said, _ = process.communicate(timeout=100)
    finally:
        process.kill()
    assert process.returncode == 0, (seed, said)
    assert said.count("starting again") == 10, (seed, said)
    assert losses(metrics) == losses(tmp_path / "calm"), seed
    assert [step for step, _ in losses(metrics)] == list(range(50))
    assert evaluations(metrics) == evaluations(tmp_path / "calm")
    assert len(list(folder.glob("step-*"))) == 3
    for other in (
        Layout(by_name("1f1b", 1, 2)),
        Layout(by_name("1f1b", 1, 2), dp=4, tp=2),
        Layout(by_name("1f1b", 4, 2), tp=2),
        Layout(by_name("1f1b", 2, 2), tp=4),
    ):
        for loss in minipar.run(evaluated, other.ranks, other, folder, timeout=60, device="cpu"):
            assert loss == pytest.approx(evaluations(metrics)[-1], rel=1e-12, abs=0), other


def evaluations(path: Path) -> list[float]:
    return [line["evaluation_loss"] for line in lines(path) if "evaluation_loss" in line]


def evaluated(layout: Layout, folder: Path) -> float:
    train, held_out = ByteText().split(0.1)
    config = GPTConfig(sequence=8, hidden=16, layers=4)
    trainer = Trainer(config, layout, train, Recipe(steps=50, batch=8, precision=Precision.FLOAT64), held_out)
    found = trainer.resume(folder)
    assert found is not None
    assert found.step == 50
    return trainer.evaluate()


def test_a_hanging_rank_ends_the_step_and_leaves_nothing(tmp_path: Path) -> None:
    metrics = tmp_path / "metrics"
    command = [*MINIPAR, "--dp", "2", "--steps", "100000", *TINY, "--metrics", str(metrics), "--timeout", "3"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=ENVIRONMENT)
    try:
        wait_for(lambda: len(losses(metrics)) > 3, process)
        started = descendants(process)
        os.kill(ranks_of(process)[0], signal.SIGSTOP)
        began = time.monotonic()
        said, _ = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == 1
    assert "the ranks reported nothing for 3 s" in said
    assert "Traceback" not in said
    assert time.monotonic() - began < 20
    psutil.wait_procs(started, timeout=10)
    assert not [p for p in started if p.is_running() and p.status() != psutil.STATUS_ZOMBIE]


TORCHRUN = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "4"]


def test_the_same_line_joins_the_ranks_of_torchrun_and_its_restart_goes_on(tmp_path: Path) -> None:
    arguments = ["--dp", "2", "--pp", "2", "--steps", "30", *TINY, "--zero"]
    calm = run(*arguments, "--metrics", str(tmp_path / "calm"))
    assert calm.returncode == 0, calm.stderr
    metrics, folder = tmp_path / "metrics", tmp_path / "checkpoints"
    command = [*TORCHRUN, "--max-restarts", "1", "-m", "minipar", "train", *arguments]
    command += ["--metrics", str(metrics), "--checkpoint", str(folder), "--save-every", "5"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=ENVIRONMENT)
    try:
        wait_for(lambda: (losses(metrics) or [(-1, 0)])[-1][0] >= 12, process)
        workers = [child for child in descendants(process) if "minipar" in " ".join(child.cmdline())]
        workers[-1].kill()
        said, _ = process.communicate(timeout=100)
    finally:
        process.kill()
    assert process.returncode == 0, said
    assert losses(metrics) == losses(tmp_path / "calm")
    assert said.count("held-out loss") == 1, "rank 0 alone speaks"
    assert "goes on from step" in said


def test_a_whole_file_of_weights_starts_another_training_on_another_mesh(tmp_path: Path) -> None:
    folder, file = tmp_path / "checkpoints", tmp_path / "whole.safetensors"
    first = run("--tp", "2", "--steps", "4", *TINY, "--checkpoint", str(folder), "--json")
    assert first.returncode == 0, first.stderr
    export = subprocess.run([sys.executable, "-m", "minipar", "export", str(folder), str(file)], env=ENVIRONMENT)
    assert export.returncode == 0
    second = run("--pp", "2", "--steps", "1", "--rate", "1e-30", *TINY, "--weights", str(file), "--json")
    assert second.returncode == 0, second.stderr
    assert json.loads(second.stdout)["held_out"] == pytest.approx(json.loads(first.stdout)["held_out"], rel=1e-12)


def test_a_new_mesh_goes_on_and_says_from_where(tmp_path: Path) -> None:
    folder = str(tmp_path / "checkpoints")
    assert run("--dp", "2", "--steps", "4", *TINY, "--checkpoint", folder).returncode == 0
    more = run("--pp", "2", "--tp", "2", "--steps", "6", *TINY, "--checkpoint", folder, "--prompt", "A")
    assert more.returncode == 0, more.stderr
    assert "goes on from step 4" in more.stdout
    assert "The model goes on" in more.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--dp", "3", "--batch", "8", "--micro-batches", "4"], "a batch of 8 samples is too small for dp=3"),
        (["--tp", "3"], "heads"),
        (["--pp", "5", "--layers", "4"], "4 layers cannot fill 5 stages"),
        (["--schedule", "fastest"], "fastest"),
        (["--preset", "huge"], "preset 'huge' is not one of demo, small, medium, large"),
        (["--text", "/nowhere/text"], "cannot be read"),
        (["--restarts", "2"], "there is no folder for checkpoints to go on from"),
        (["--restarts", "-1", "--checkpoint", "x"], "restarts=-1"),
        (["--rate", "-1"], "rate=-1"),
        (["--clip", "-1"], "clip=-1"),
        (["--held-out", "1.5"], "1.5"),
        (["--prompt", ""], "the prompt is empty"),
        (["--keep", "0", "--checkpoint", "x"], "keep=0"),
        (["--weights", "/nowhere/file"], "nowhere"),
        (["--metrics", "/dev/null/file"], "/dev/null/file"),
        (["--checkpoint", "/dev/null"], "/dev/null"),
        (["--timeout", "0"], "timeout=0"),
    ],
)
def test_what_cannot_work_is_one_clear_sentence(arguments: list[str], message: str, monkeypatch) -> None:  # type: ignore[no-untyped-def]
    monkeypatch.setenv("MINIPAR_DEVICE", "cpu")
    done = CliRunner().invoke(app, ["train", "--steps", "2", *SIZES, *arguments], env={"COLUMNS": "300"})
    assert done.exit_code == 1, done.output
    assert message in done.output
    assert "Traceback" not in done.output


def in_process(*arguments: str, code: int = 0) -> str:
    done = CliRunner().invoke(app, ["train", *TINY, *arguments], env={"MINIPAR_DEVICE": "cpu"})
    assert done.exit_code == code, done.output
    assert "Traceback" not in done.output
    return done.output


def test_every_option_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    caught = []

    def caught_launch(job: Job, restarts: int, timeout: float, on_report: object) -> Outcome:
        caught.append((job, restarts, timeout))
        return Outcome(7)

    monkeypatch.setattr("minipar.commands.train.launch", caught_launch)
    wanted = Job(
        GPTConfig(sequence=24, hidden=40, layers=9, heads=5, tied=True, dropout=0.3),
        Layout(by_name("interleaved", 3, 6, 3), 2, 5, True, Recompute.FULL, True),
        Recipe(7, 12, 0.5, 3, decay=0.2, clip=0.7, precision=Precision.BF16, seed=11),
        text=tmp_path / "text",
        held_out=0.25,
        checkpoints=tmp_path / "checkpoints",
        save_every=13,
        keep=4,
        weights=tmp_path / "weights",
        evaluate_every=6,
        metrics=tmp_path / "metrics",
        tensorboard=tmp_path / "board",
        prompt="Hi",
    )
    line = "--dp 2 --pp 3 --tp 5 --micro-batches 6 --schedule interleaved --virtual 3 --sequence-parallel --zero"
    line += " --recompute full --preset small --hidden 40 --layers 9 --heads 5 --sequence 24 --tied --dropout 0.3"
    line += " --steps 7 --batch 12 --rate 0.5 --warm-up 3 --decay 0.2 --clip 0.7 --precision bf16 --seed 11"
    line += " --held-out 0.25 --save-every 13 --keep 4 --evaluate-every 6 --prompt Hi --restarts 2 --timeout 9"
    files = {"text": "text", "checkpoint": "checkpoints", "weights": "weights", "metrics": "metrics"}
    files["tensorboard"] = "board"
    paths = [word for name, file in files.items() for word in (f"--{name}", str(tmp_path / file))]
    done = CliRunner().invoke(app, ["train", *line.split(), *paths, "--json"])
    assert done.exit_code == 0, done.output
    assert caught == [(wanted, 2, 9.0)]
    assert json.loads(done.stdout)["steps"] == 7


def test_a_training_that_diverges_stops_with_a_sentence_and_no_restart(tmp_path: Path) -> None:
    folder = str(tmp_path / "checkpoints")
    wild = ["--rate", "1e300", "--clip", "0", "--warm-up", "0", "--restarts", "3", "--checkpoint", folder]
    said = in_process("--dp", "2", "--steps", "20", *wild, code=1)
    assert "the loss is nan" in said
    assert "A lower rate than 1e+300" in said
    assert "starting again" not in said


def test_a_damaged_checkpoint_is_named_with_the_one_that_is_used_instead(tmp_path: Path) -> None:
    folder = tmp_path / "checkpoints"
    in_process("--steps", "4", "--checkpoint", str(folder), "--save-every", "2")
    file = folder / "step-00000004" / "pp00-tp00.safetensors"
    file.write_bytes(file.read_bytes()[:-1])
    said = in_process("--steps", "5", "--checkpoint", str(folder))
    assert f"a checkpoint is damaged: {file}" in said
    assert f"{folder / 'step-00000002'} is used instead" in said
    assert "goes on from step 2" in said


def test_a_file_of_something_else_is_not_written_over_with_metrics(tmp_path: Path) -> None:
    diary = tmp_path / "diary"
    diary.write_text("dear diary\n")
    said = in_process("--steps", "1", "--metrics", str(diary), code=1)
    assert "is no record" in said
    assert diary.read_text() == "dear diary\n"


def test_evaluations_are_in_the_metrics_and_in_tensorboard(tmp_path: Path) -> None:
    metrics, board = tmp_path / "metrics", tmp_path / "board"
    in_process("--steps", "4", "--evaluate-every", "2", "--metrics", str(metrics), "--tensorboard", str(board))
    assert [line["step"] for line in lines(metrics) if "evaluation_loss" in line] == [1, 3]
    accumulator = EventAccumulator(str(board))
    accumulator.Reload()
    assert [event.step for event in accumulator.Scalars("evaluation_loss")] == [1, 3]
    assert [event.value for event in accumulator.Scalars("loss")] == pytest.approx(
        [loss for _, loss in losses(metrics)]
    )
