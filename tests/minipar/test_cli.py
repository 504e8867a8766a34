import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from minipar.demo import CONFIG, PACE
from minipar.pipeline import gpipe, simulate


def minipar(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "minipar.cli", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=110)


@pytest.fixture(scope="module")
def demo() -> tuple[dict[str, Any], float]:
    """What ``minipar demo --json`` prints, and how long it takes."""
    began = time.monotonic()
    finished = minipar("demo", "--json")
    assert finished.returncode == 0, finished.stderr
    facts: dict[str, Any] = json.loads(finished.stdout)
    return facts, time.monotonic() - began


@pytest.mark.alone
def test_the_demo_is_equal_to_the_unsplit_model(demo: tuple[dict[str, Any], float]) -> None:
    assert 0 < demo[0]["equal_max_rel_error"] <= 1e-12


@pytest.mark.alone
def test_the_demos_loss_falls(demo: tuple[dict[str, Any], float]) -> None:
    assert demo[0]["loss_last"] < 0.75 * demo[0]["loss_first"]


@pytest.mark.alone
def test_the_demos_bubbles_fall_and_are_as_predicted(demo: tuple[dict[str, Any], float]) -> None:
    bubbles = demo[0]["bubbles"]
    assert [b["micro_batches"] for b in bubbles] == [1, 2, 4, 8]
    for b in bubbles:
        assert b["predicted"] == pytest.approx(3 / (b["micro_batches"] + 3))
        assert b["measured"] == pytest.approx(b["predicted"], abs=0.03)
    measured = [b["measured"] for b in bubbles]
    assert measured == sorted(measured, reverse=True)


@pytest.mark.alone
def test_the_demo_takes_less_than_a_minute(demo: tuple[dict[str, Any], float]) -> None:
    assert demo[1] < 60


def test_the_demo_draws_in_the_terminal_and_says_what_is_emulated(tmp_path: Path) -> None:
    text = tmp_path / "my.txt"
    text.write_text("all work and no play " * 100)
    said = minipar("demo", "--text", str(text), "--steps", "3").stdout
    assert "training" in said
    assert "emulated" in said
    assert "rank 3 " in said
    assert f"{simulate(gpipe(4, 8), PACE).bubble_of_total:.0%}"[:-1] + " %" in said


@pytest.mark.parametrize(
    ("content", "says"),
    [(None, "cannot be read"), ("short", f"needs {CONFIG.sequence + 1}"), ("", "has 0 bytes")],
)
def test_a_text_that_cannot_be_used_is_one_clear_sentence(tmp_path: Path, content: str | None, says: str) -> None:
    path = tmp_path / "text"
    if content is not None:
        path.write_text(content)
    finished = minipar("demo", "--json", "--text", str(path))
    assert finished.returncode == 1
    assert says in " ".join(finished.stderr.split())
    assert "Traceback" not in finished.stderr
    assert finished.stdout == ""


def test_the_doctor_names_versions_devices_and_times() -> None:
    findings = {f["name"]: f for f in json.loads(minipar("doctor", "--json").stdout)}
    assert findings["Python"]["value"] == ".".join(map(str, sys.version_info[:3]))
    assert "gloo" in findings["ranks run on"]["value"] or "nccl" in findings["ranks run on"]["value"]
    assert float(findings["start 4 ranks"]["value"].split()[0]) < 5
    assert "GiB/s" in findings["all-reduce over 4 ranks, 8 MiB"]["value"]
    assert "Python" in minipar("doctor").stdout


def test_the_help_lists_the_commands_and_says_what_each_does() -> None:
    said = " ".join(minipar("--help").stdout.split())
    for command in ("doctor Say what", "demo Train a GPT", "simulate Predict when", "bench Speed as"):
        assert command in said
