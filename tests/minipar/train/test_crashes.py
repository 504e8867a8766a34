"""Checkpoints are whole after any crash, and where a rank cannot write all ranks hear it."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import cloudpickle
import pytest
import torch

import minipar
from minipar import Mesh, RankFailed
from minipar.manifest import Entry
from minipar.train.checkpoint import (
    State,
    export,
    latest,
    read,
    save,
)
from minipar.train.index import check_file, read_index
from tests.minipar.train.states import (
    SMALL,
    alone,
    found_alone,
    full,
    names_in,
    said,
    state_of,
)

cloudpickle.register_pickle_by_value(sys.modules[__name__])  # so that no rank imports this file, and pytest with it


CALLS = ("mkdir", "fsync", "rename", "replace", "unlink", "rmdir")


def interrupted(
    root: Path, step: int, salt: int, tp: int, rank: int, point: int | None, how: Callable[[], None]
) -> int:
    """On a rank: save, and do `how` on one rank before one of its calls that touch the disk. How many there were."""
    mesh, calls = Mesh(tp=tp), 0
    state = state_of(SMALL, mesh, salt)
    originals = {name: getattr(os, name) for name in CALLS}

    def counted(original: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **options: Any) -> Any:
            nonlocal calls
            calls += 1
            if mesh.rank == rank and calls - 1 == point:
                how()
            return original(*args, **options)

        return call

    try:
        for name, original in originals.items():
            setattr(os, name, counted(original))
        save(root, step, state, mesh, keep=2)
    finally:
        for name, original in originals.items():
            setattr(os, name, original)
    return calls


def killed() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.parametrize("step", [30, 20])
def test_a_kill_before_any_call_leaves_a_whole_checkpoint_and_the_next_save_tidies_up(
    tmp_path: Path, step: int
) -> None:
    before = tmp_path / "before"
    for earlier in (10, 20):
        alone(before, earlier)
    calls = interrupted(shutil.copytree(before, tmp_path / "dry"), step, 33, 1, 0, None, killed)
    assert calls >= 9
    seen = []
    for point in range(calls):
        root = shutil.copytree(before, tmp_path / str(point))
        with pytest.raises(RankFailed, match="SIGKILL"):
            minipar.run(interrupted, 1, root, step, 33, 1, 0, point, killed, timeout=20, device="cpu")
        left = names_in(root)
        for path in root.glob("step-*"):
            for file, written in read_index(path, int(path.name[5:])).files.items():
                check_file(path / file, written)  # none is half there
        seen.append(found_alone(root))
        alone(root, 40, keep=2)
        kept = f"step-{seen[-1][0]:08d}"
        assert names_in(root) == [kept, "step-00000040"], (point, left)
        assert found_alone(root) == (40, 40)
    old, new = (20, 20), (step, 33)
    published = seen.index(new)
    assert seen == [old] * published + [new] * (calls - published), "the old one until the new one is there"
    assert 0 < published < calls - 1


def test_all_is_on_the_disk_before_the_folder_has_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    alone(tmp_path, 10)
    done: list[int | str] = []
    fsync, rename = os.fsync, os.rename

    def noted_fsync(descriptor: int) -> None:
        fsync(descriptor)
        done.append(os.fstat(descriptor).st_ino)

    def noted_rename(source: Path, target: Path) -> None:
        rename(source, target)
        done.append(f"{source.name} to {target.name}")

    monkeypatch.setattr(os, "fsync", noted_fsync)
    monkeypatch.setattr(os, "rename", noted_rename)
    path = alone(tmp_path, 20)
    names = {file.stat().st_ino: file.name for file in (tmp_path, path, *path.iterdir())}
    assert [names[what] if isinstance(what, int) else what for what in done] == [
        "pp00-tp00.safetensors",
        "index.json",
        "step-00000020",
        ".writing-step-00000020 to step-00000020",
        tmp_path.name,
    ]


def test_a_kill_between_the_renames_leaves_the_old_checkpoint_to_all_readers(tmp_path: Path) -> None:
    root = tmp_path / "root"
    alone(root, 20)
    os.rename(root / "step-00000020", root / ".replaced-step-00000020")  # as a kill there leaves it
    assert found_alone(root) == (20, 20)
    export(root, tmp_path / "whole")
    alone(root, 30)
    assert names_in(root) == ["step-00000020", "step-00000030"], "put back"
    os.rename(root / "step-00000020", root / ".replaced-step-00000020")
    alone(tmp_path / "new", 20, salt=21)
    os.rename(tmp_path / "new" / "step-00000020", root / "step-00000020")  # as a kill after both leaves it
    shutil.rmtree(root / "step-00000030")
    assert found_alone(root) == (20, 21)
    alone(root, 30)
    assert names_in(root) == ["step-00000020", "step-00000030"]
    assert found_alone(root) == (30, 30)


@pytest.mark.parametrize("rank", [0, 1])
def test_a_kill_of_any_rank_ends_the_save_and_leaves_the_older_checkpoint(tmp_path: Path, rank: int) -> None:
    alone(tmp_path, 10)
    with pytest.raises(RankFailed, match=f"rank {rank} was killed by SIGKILL"):
        minipar.run(interrupted, 2, tmp_path, 20, 20, 2, rank, 1 - rank, killed, timeout=20, device="cpu")
    assert ".writing-step-00000020" in names_in(tmp_path)
    assert found_alone(tmp_path) == (10, 10)

    def next_save() -> int:
        return interrupted(tmp_path, 20, 21, 2, 0, None, killed)

    minipar.run(next_save, 2, timeout=20, device="cpu")
    assert names_in(tmp_path) == ["step-00000010", "step-00000020"]
    assert found_alone(tmp_path) == (20, 21)


def test_folders_that_are_not_checkpoints_are_left_alone(tmp_path: Path) -> None:
    others = [
        ".writing-step-x",
        ".writing-other",
        "step-1",
        "step-00000001x",
        "step-0000000001",
        "notes",
        "xstep-00000001",
    ]
    for name in others:
        (tmp_path / name).mkdir()
    assert latest(tmp_path, Mesh()) is None
    alone(tmp_path, 5, keep=1)
    alone(tmp_path, 6, keep=1)
    assert names_in(tmp_path) == sorted([*others, "step-00000006"])


def test_where_a_disk_is_full_every_rank_raises_the_same_and_the_older_checkpoint_is_left(tmp_path: Path) -> None:
    alone(tmp_path, 10)
    # The rank that only writes its file, and at each of its calls the one that does all the rest.
    cases = [(1, 0), *((0, point) for point in range(8))]

    def on_rank() -> list[tuple[str, list[str], int]]:
        mesh, results = Mesh(tp=2), []
        for rank, point in cases:
            error = said(partial(interrupted, tmp_path, 20, 20, 2, rank, point, full))
            left, found = names_in(tmp_path), latest(tmp_path, mesh)
            assert found is not None
            results.append((error, left, found.step))
        return results

    first, second = minipar.run(on_rank, 2, timeout=20, device="cpu")
    assert [error for error, _, _ in first] == [error for error, _, _ in second]
    reason = "No space left on device"
    for (rank, _), (error, left, found) in zip(cases, first, strict=True):
        assert error.startswith(f"saving step 20 failed: rank {rank}: {tmp_path}")
        assert f": {reason}; the last good checkpoint is {tmp_path}/step-{found:08d}" in error
        assert left == [f"step-{step:08d}" for step in (10, 20) if step <= found]
    assert "/.writing-step-00000020/pp00-tp01.safetensors: No" in first[0][0]
    assert [found for _, _, found in first[:6]] == [10] * 6
    assert "/.writing-step-00000020/index.json: No" in first[3][0]


def test_a_rank_that_fails_for_any_reason_fails_for_all(tmp_path: Path) -> None:
    def broken() -> None:
        raise RuntimeError("out of luck")

    def on_rank() -> list[str]:
        errors = [said(lambda: interrupted(tmp_path, 1, 1, 2, 1, 0, broken))]
        mesh = Mesh(tp=2)
        good = state_of(SMALL, mesh, 1)
        mine = mesh.tp.rank == 1
        short = {"weights": {"head.norm.weight": torch.zeros(3)}}
        for tensors, entries, facts in (
            (short if mine else good.tensors, good.entries, good.facts),
            ({"exp_avg": {"other": torch.zeros(4)}} if mine else good.tensors, good.entries, good.facts),
            ({"weights": {}} if mine else good.tensors, good.entries, good.facts),
            (good.tensors, good.entries, {"step": mesh.rank}),
            (good.tensors, good.entries, {"step": torch.zeros(1)}),
        ):
            errors.append(said(partial(save, tmp_path, 1, State(entries, tensors, facts), mesh)))
        return errors

    first, second = minipar.run(on_rank, 2, timeout=20, device="cpu")
    assert first == second
    begin, end = "saving step 1 failed: ", f"; there is no good checkpoint in {tmp_path}"
    assert [error.removeprefix(begin).removesuffix(end) for error in first] == [
        "rank 1: RuntimeError: out of luck",
        "rank 1: 'weights' of 'head.norm.weight' has shape (3,), but this rank's part has (4,) (tp=2)",
        "rank 1: 'exp_avg' has a tensor 'other', which is not among the entries",
        "ranks 0 and 1 hold different tensors of the same stages",
        'rank 1: its facts are {"step": 1}, but rank 0\'s are {"step": 0}',
        "rank 0: the facts cannot be written as JSON: Object of type Tensor is not JSON serializable",
    ]
    assert names_in(tmp_path) == []


def test_a_tensor_that_two_stages_hold_is_refused(tmp_path: Path) -> None:
    def on_rank() -> str:
        mesh, entry = Mesh(pp=2), Entry(torch.Size([2]), None)
        state = State({"w": entry}, {"weights": {"w": torch.zeros(2)}}, {})
        return said(lambda: save(tmp_path, 1, state, mesh))

    for error in minipar.run(on_rank, 2, timeout=20, device="cpu"):
        assert "'w' is in pp00-tp00.safetensors already; is it a tied copy (`copy_of`)?" in error


def test_a_root_that_is_a_file_is_a_sentence(tmp_path: Path) -> None:
    root = tmp_path / "file"
    root.write_text("")
    assert said(lambda: alone(root, 1)).startswith(
        f"saving step 1 failed: rank 0: {root}: File exists; there is no good"
    )
    assert latest(root, Mesh()) is None


@pytest.fixture
def tiny_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 256 KiB."""
    disk = tmp_path / "disk"
    disk.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(disk)]
    if sys.platform != "linux" or os.geteuid() != 0 or subprocess.run(command, capture_output=True).returncode:
        pytest.skip("a disk can be mounted by root only")
    yield disk
    subprocess.run(["umount", str(disk)], check=True)


def test_on_a_disk_that_is_really_full_the_older_checkpoint_is_left(tiny_disk: Path) -> None:
    def on_rank() -> list[str]:
        mesh = Mesh(pp=2)
        name = f"w{mesh.pp.rank}"

        def state(size: int, value: float) -> State:
            return State({name: Entry(torch.Size([size]), None)}, {"weights": {name: torch.full((size,), value)}}, {})

        save(tiny_disk, 1, state(1_000, 1.0), mesh)
        errors = [said(partial(save, tiny_disk, step, state(50_000, 2.0), mesh)) for step in (2, 3)]
        found = latest(tiny_disk, mesh)
        assert found is not None
        [kind] = read(found, state(1_000, 1.0).entries, ["weights"], mesh).values()
        assert torch.equal(kind[name], torch.ones(1_000))
        return [*errors, *names_in(tiny_disk)]

    first, second = minipar.run(on_rank, 2, timeout=20, device="cpu")
    assert first == second
    for step, error in zip((2, 3), first, strict=False):
        file = f"{tiny_disk}/.writing-step-0000000{step}/pp0[01]-tp00.safetensors"
        reason = f"No space left on device; the last good checkpoint is {tiny_disk}/step-00000001"
        assert re.fullmatch(f"saving step {step} failed: rank [01]: {file}: {reason}", error)
    assert first[2:] == ["step-00000001"]
