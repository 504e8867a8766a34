"""`course doctor`: what is missing is said with what to do about it, and the exit code tells."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from course import doctor
from course.cli import app
from course.exercises.exercise import Status, Verdict
from course.progress import Progress, data_folder
from minipar import RankFailed


def examined() -> tuple[int, dict[str, dict[str, object]]]:
    result = CliRunner().invoke(app, ["doctor", "--json"])
    return result.exit_code, {finding["name"]: finding for finding in json.loads(result.stdout)}


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without what takes seconds."""
    monkeypatch.setattr(doctor.machine, "examine", list)
    monkeypatch.setattr(doctor, "regrade", lambda *_: Verdict(Status.PASSED, ""))


def test_a_machine_that_passes_these_tests_lacks_nothing() -> None:
    code, found = examined()
    assert code == 0, found
    assert all(finding["good"] for finding in found.values())
    assert {"Python", "JupyterLab", "data folder", "progress", "exercises", "PyTorch"} <= set(found)
    text = CliRunner().invoke(app, ["doctor"]).output
    assert "The course runs here." in text


@pytest.mark.usefixtures("quick")
def test_a_folder_that_cannot_be_written_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("")
    monkeypatch.setenv("COURSE_DATA", str(file / "inside"))
    code, found = examined()
    assert code == 1
    assert not found["data folder"]["good"]
    assert str(file / "inside") in str(found["data folder"]["value"])
    assert "COURSE_DATA" in str(found["data folder"]["advice"])
    assert "behind the arrows" in CliRunner().invoke(app, ["doctor"]).output


@pytest.mark.usefixtures("quick")
def test_a_damaged_store_is_named_and_left_as_it_is() -> None:
    path = Progress().path
    data_folder().mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"this is no database" * 100)
    code, found = examined()
    assert code == 1
    assert not found["progress"]["good"]
    assert "move the file away" in str(found["progress"]["advice"])
    assert path.read_bytes() == b"this is no database" * 100


def test_ranks_and_a_judge_that_do_not_work_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> None:
        raise RankFailed("no ranks today", 0, {})

    monkeypatch.setattr(doctor.machine, "examine", fail)
    monkeypatch.setattr(doctor, "regrade", lambda *_: Verdict(Status.RAISED, "no judge today"))
    code, found = examined()
    assert code == 1
    assert "no ranks today" in str(found["ranks"]["value"])
    assert "no judge today" in str(found["exercises"]["value"])
    assert found["data folder"]["good"]
