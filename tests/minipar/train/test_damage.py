"""A damaged checkpoint is named, and the one before it is used."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cloudpickle
import pytest
import torch

import minipar
from minipar import Mesh, comm
from minipar.manifest import Entry
from minipar.train import checkpoint as module
from minipar.train.checkpoint import (
    CheckpointError,
    State,
    export,
    latest,
    save,
)
from minipar.train.index import Written, check_file, read_index
from tests.minipar.train.states import (
    FILE,
    TIED,
    alone,
    names_in,
    said,
    state_of,
)

cloudpickle.register_pickle_by_value(sys.modules[__name__])  # so that no rank imports this file, and pytest with it


def flip(path: Path, place: int) -> None:
    content = bytearray(path.read_bytes())
    content[place] ^= 1
    path.write_bytes(content)


def into_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def rewrite(path: Path, change: Callable[[dict[str, Any]], Any]) -> None:
    """Change the index as someone would who does not know of its digest."""
    content = json.loads(path.read_text())
    change(content)
    path.write_text(json.dumps(content))


DAMAGE: dict[str, tuple[str, Callable[[Path], Any], str]] = {
    "the first byte": (FILE, lambda p: flip(p, 0), "its bytes are not those that were written"),
    "a byte in the middle": (FILE, lambda p: flip(p, p.stat().st_size // 2), "its bytes are not those"),
    "the last byte": (FILE, lambda p: flip(p, -1), "its bytes are not those that were written"),
    "truncated": (FILE, lambda p: os.truncate(p, 100), "it has 100 bytes, but "),
    "empty": (FILE, lambda p: os.truncate(p, 0), "it has 0 bytes, but "),
    "longer": (FILE, lambda p: p.write_bytes(p.read_bytes() + b"x"), " were written"),
    "gone": (FILE, lambda p: p.unlink(), "No such file or directory"),
    "a folder": (FILE, into_folder, "Is a directory"),
    "index gone": ("index.json", lambda p: p.unlink(), "No such file or directory"),
    "index empty": ("index.json", lambda p: os.truncate(p, 0), "it is not JSON"),
    "index truncated": ("index.json", lambda p: os.truncate(p, 500), "it is not JSON"),
    "index garbage": ("index.json", lambda p: p.write_bytes(bytes(range(256))), "it is not JSON"),
    "index deep": ("index.json", lambda p: p.write_text("[" * 100_000), "it is not JSON"),
    "index a list": ("index.json", lambda p: p.write_text("[]"), "it is no index of a checkpoint"),
    "index of nothing": ("index.json", lambda p: p.write_text("{}"), "it is no index of a checkpoint"),
    "index changed": ("index.json", lambda p: rewrite(p, lambda c: c["facts"].update(step=7)), "not what was written"),
    "another format": (
        "index.json",
        lambda p: rewrite(p, lambda c: c.update(format=2)),
        "it has format 2; this release",
    ),
    "another step": (
        "index.json",
        lambda p: shutil.copy(p.parents[1] / "step-00000010" / p.name, p),
        "it is of step 10, but its folder of step 20",
    ),
}


@pytest.mark.parametrize("kind", DAMAGE)
def test_a_damaged_checkpoint_is_named_and_the_one_before_it_is_used(tmp_path: Path, kind: str) -> None:
    file, damage, says = DAMAGE[kind]
    for step in (10, 20):
        alone(tmp_path, step)
    damage(tmp_path / "step-00000020" / file)
    notices: list[str] = []
    found = latest(tmp_path, Mesh(), notices.append)
    assert found is not None
    assert found.step == found.facts["salt"] == 10
    [notice] = notices
    assert notice.startswith(f"a checkpoint is damaged: {tmp_path}/step-00000020/{file}: ")
    assert says in notice
    assert notice.endswith(f"; {tmp_path}/step-00000010 is used instead")
    error = said(lambda: export(tmp_path, tmp_path / "whole"))
    assert f"{tmp_path}/step-00000020/{file}: " in error
    assert says in error
    assert not (tmp_path / "whole").exists(), "an export never takes another checkpoint than it was asked for"
    (tmp_path / "step-00000010" / FILE).unlink()
    error = said(lambda: latest(tmp_path, Mesh(), notices.append))
    assert error.startswith(f"no checkpoint in {tmp_path} is whole: {tmp_path}/step-00000020/{file}: ")
    assert f"{tmp_path}/step-00000010/{FILE}: No such file or directory" in error
    assert len(notices) == 1


def test_no_byte_of_an_index_can_change_what_it_says(tmp_path: Path) -> None:
    entries = {"w": Entry(torch.Size([1]), None)}
    file = save(tmp_path, 1, State(entries, {"weights": {"w": torch.zeros(1)}}, {"loss": 1.5}), Mesh()) / "index.json"
    original, wanted = file.read_bytes(), read_index(file.parent, 1)
    noticed = 0
    for place in range(len(original)):
        flip(file, place)
        try:
            assert read_index(file.parent, 1) == wanted
        except CheckpointError:
            noticed += 1
        file.write_bytes(original)
    assert noticed > 0.9 * len(original)


def test_all_ranks_use_the_checkpoint_that_rank_0_sees_and_share_the_checking(tmp_path: Path) -> None:
    def on_rank() -> tuple[int, list[str], list[str]]:
        mesh = Mesh(2, 2, 2)
        notices: list[str] = []
        checked: list[str] = []
        for step in (10, 20, 30, 40):
            save(tmp_path, step, state_of(TIED, mesh, step), mesh, keep=4)
        if mesh.rank == 0:
            flip(tmp_path / "step-00000040" / "pp01-tp01.safetensors", -1)
            (tmp_path / "step-00000040" / "pp00-tp01.safetensors").unlink()
            (tmp_path / "step-00000030" / "index.json").write_text("no")
        for axis in (mesh.tp, mesh.dp, mesh.pp):
            comm.barrier(axis)
        if mesh.rank:
            os.listdir = lambda path: []  # type: ignore[assignment]

        def check(path: Path, written: Written) -> None:
            checked.append(str(path))
            check_file(path, written)

        setattr(module, "check_file", check)  # noqa: B010
        found = latest(tmp_path, mesh, notices.append)
        assert found is not None
        return found.step, notices, checked

    results = minipar.run(on_rank, 8, timeout=30, device="cpu")
    assert {step for step, _, _ in results} == {20}
    [notices] = {tuple(notices) for _, notices, _ in results}
    newest, older = notices
    assert "step-00000040/pp00-tp01.safetensors: No such file" in newest
    assert "step-00000040/pp01-tp01.safetensors: its bytes" in newest
    assert "step-00000030/index.json: it is not JSON" in older
    assert all(notice.endswith("step-00000020 is used instead") for notice in notices)
    checked = [path for _, _, mine in results for path in mine]
    assert len(checked) == len(set(checked)) == 8, "every file of two checkpoints once"
    assert max(len(mine) for _, _, mine in results) == 2


def test_without_a_checkpoint_there_is_none(tmp_path: Path) -> None:
    def on_rank() -> bool:
        mesh = Mesh(dp=2)
        return latest(tmp_path, mesh) is None and latest(tmp_path / "no" / "where", mesh) is None

    assert minipar.run(on_rank, 2, timeout=20, device="cpu") == [True, True]
    assert names_in(tmp_path) == []


def test_a_notice_is_a_warning_by_default(tmp_path: Path) -> None:
    for step in (1, 2):
        alone(tmp_path, step)
    (tmp_path / "step-00000002" / "index.json").unlink()
    with pytest.warns(UserWarning, match="step-00000001 is used instead"):
        latest(tmp_path, Mesh())
