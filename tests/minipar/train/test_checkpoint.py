"""Checkpoints: bitwise on any other mesh, whole after any crash, and one error for all ranks where one cannot write."""

from __future__ import annotations

import errno
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import cloudpickle
import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor
from typer.testing import CliRunner

import minipar
from minipar import Mesh, RankFailed, comm
from minipar.cli import app
from minipar.manifest import Cut, Entry, Section, load, manifest
from minipar.model import GPT, GPTConfig
from minipar.pipeline import even_cuts
from minipar.train import checkpoint as module
from minipar.train.checkpoint import (
    CheckpointError,
    State,
    export,
    latest,
    read,
    read_whole,
    save,
    whole_config,
)
from minipar.train.index import Written, check_file, read_index

cloudpickle.register_pickle_by_value(sys.modules[__name__])  # so that no rank imports this file, and pytest with it

KINDS = {"weights": torch.float32, "exp_avg": torch.bfloat16, "exp_avg_sq": torch.float64}
# A vocabulary that no tp divides, fewer key-value heads than tensor ranks, and blocks 1 and 10.
TIED = GPTConfig(vocabulary=13, sequence=5, hidden=16, layers=11, heads=4, kv_heads=2, gated=True, tied=True)
UNTIED = GPTConfig(vocabulary=9, sequence=3, hidden=8, layers=6, heads=8, kv_heads=1)
SMALL = GPTConfig(vocabulary=7, sequence=2, hidden=4, layers=1, heads=2)


class Layout(NamedTuple):
    dp: int = 1
    pp: int = 1
    tp: int = 1
    v: int = 1

    def mesh(self) -> Mesh:
        return Mesh(self.dp, self.pp, self.tp)


def entries_of(config: GPTConfig, mesh: Mesh, v: int = 1) -> dict[str, Entry]:
    stages = mesh.pp.size * v
    cuts = even_cuts(config.layers, stages)
    entries: dict[str, Entry] = {}
    for stage in range(mesh.pp.rank, stages, mesh.pp.size):
        entries |= manifest(GPT(config, mesh, cuts[stage]))
    return entries


def whole(kind: str, name: str, shape: Sequence[int], salt: int) -> Tensor:
    """The unsplit tensor: random, another one for each name, kind and salt."""
    generator = torch.Generator().manual_seed(zlib.crc32(f"{salt} {kind} {name}".encode()))
    return torch.randn(*shape, generator=generator, dtype=torch.float64).to(KINDS[kind])


def parts_of(entries: Mapping[str, Entry], mesh: Mesh, salt: int) -> dict[str, dict[str, Tensor]]:
    parts: dict[str, dict[str, Tensor]] = {kind: {} for kind in KINDS}
    for kind in KINDS:
        for name, entry in entries.items():
            unsplit = whole(kind, entry.copy_of or name, entry.shape, salt)
            cut = entry.cut
            parts[kind][name] = unsplit if cut is None else cut.take(unsplit, mesh.tp.rank, mesh.tp.size)
    return parts


def state_of(config: GPTConfig, mesh: Mesh, salt: int, v: int = 1) -> State:
    """Its tensors as an optimizer has them: views of one flat buffer, and one kind not even contiguous."""
    entries = entries_of(config, mesh, v)
    tensors = parts_of(entries, mesh, salt)
    moments = tensors["exp_avg"]
    buffer = torch.cat([t.flatten() for t in moments.values()])
    runs = torch.split(buffer, [t.numel() for t in moments.values()])
    tensors["exp_avg"] = {name: run.view_as(moments[name]) for name, run in zip(moments, runs, strict=True)}
    tensors["weights"] = {name: t.mT.contiguous().mT if t.dim() > 1 else t for name, t in tensors["weights"].items()}
    return State(entries, tensors, {"config": asdict(config), "salt": salt, "step": salt})


def assert_bitwise(got: Mapping[str, Mapping[str, Tensor]], wanted: Mapping[str, Mapping[str, Tensor]]) -> None:
    assert {kind: list(named) for kind, named in got.items()} == {kind: list(named) for kind, named in wanted.items()}
    for kind, named in wanted.items():
        for name, tensor in named.items():
            assert got[kind][name].dtype == tensor.dtype, (kind, name)
            assert torch.equal(got[kind][name], tensor), (kind, name)


def alone(root: Path, step: int, config: GPTConfig = SMALL, salt: int | None = None, keep: int = 3) -> Path:
    """Save on one rank, which this process is."""
    return save(root, step, state_of(config, Mesh(), step if salt is None else salt), Mesh(), keep)


def found_alone(root: Path, config: GPTConfig = SMALL) -> tuple[int, int]:
    """The step that is found, of which no file is damaged, and the salt that its tensors were made from."""

    def no_notice(text: str) -> None:
        raise AssertionError(text)

    checkpoint = latest(root, Mesh(), no_notice)
    assert checkpoint is not None
    entries = entries_of(config, Mesh())
    assert_bitwise(read(checkpoint, entries, list(KINDS), Mesh()), parts_of(entries, Mesh(), checkpoint.facts["salt"]))
    return checkpoint.step, checkpoint.facts["salt"]


def names_in(root: Path) -> list[str]:
    return sorted(os.listdir(root))


def said(action: Callable[[], Any]) -> str:
    """What the `CheckpointError` that this raises says."""
    try:
        action()
    except CheckpointError as error:
        return str(error)
    raise AssertionError("no error")


# Any mesh reads what any other saved.

ONE = [Layout(), Layout(v=4)]
FOUR = [Layout(1, 2, 2, v=2), Layout(1, 1, 4), Layout(1, 4, 1), Layout(2, 1, 2, v=3)]
EIGHT = [Layout(2, 1, 4), Layout(2, 2, 2, v=2)]
SOURCES = {TIED: [*FOUR, *ONE], UNTIED: [*FOUR[:2], ONE[0]]}


def root_of(folder: Path, config: GPTConfig, layout: Layout) -> Path:
    return folder / f"{'tied' if config.tied else 'untied'} {layout}"


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of checkpoints of two models, saved on layouts of one and of four ranks."""
    folder = tmp_path_factory.mktemp("saved")

    def on_rank(layouts: Sequence[Layout]) -> None:
        for layout in layouts:
            mesh = layout.mesh()
            for config in (config for config in SOURCES if layout in SOURCES[config]):
                save(root_of(folder, config, layout), 50, state_of(config, mesh, 50, layout.v), mesh)

    minipar.run(on_rank, 4, FOUR, timeout=30, device="cpu")
    on_rank(ONE)
    return folder


@pytest.mark.parametrize(("ranks", "layouts"), [(1, ONE), (4, FOUR), (8, EIGHT)], ids=["1", "4", "8"])
def test_every_layout_reads_bitwise_what_every_other_saved(saved: Path, ranks: int, layouts: list[Layout]) -> None:
    """torchtitan#474, Megatron-LM PR#6858."""

    configs = [TIED, UNTIED] if ranks < 8 else [TIED]

    def on_rank() -> None:
        for layout in layouts:
            mesh = layout.mesh()
            for config in configs:
                entries = entries_of(config, mesh, layout.v)
                wanted = parts_of(entries, mesh, 50)
                for source in SOURCES[config]:
                    checkpoint = latest(root_of(saved, config, source), mesh)
                    assert checkpoint is not None
                    assert checkpoint.step == checkpoint.facts["step"] == 50
                    assert_bitwise(read(checkpoint, entries, list(KINDS), mesh), wanted)

    minipar.run(on_rank, ranks, timeout=30, device="cpu")


def test_there_is_a_file_for_each_pipeline_and_tensor_rank_and_an_index_that_says_what_is_in_it(saved: Path) -> None:
    path = root_of(saved, TIED, Layout(2, 1, 2, v=3)) / "step-00000050"
    files = ["pp00-tp00.safetensors", "pp00-tp01.safetensors"]
    assert names_in(path) == ["index.json", *files]
    index = json.loads((path / "index.json").read_text())
    assert (index["format"], index["step"], index["tp"]) == (1, 50, 2)
    assert index["facts"]["config"] == asdict(TIED)
    assert {name: file["size"] for name, file in index["files"].items()} == {
        f: (path / f).stat().st_size for f in files
    }
    assert index["tensors"]["embedding.token.weight"] == {
        "shape": [13, 16],
        "cut": {"dim": 0, "sections": [{"length": 13, "most": None, "padded": True}]},
        "kinds": {"weights": "float32", "exp_avg": "bfloat16", "exp_avg_sq": "float64"},
        "files": files,
    }
    assert index["tensors"]["head.norm.weight"]["files"] == files[:1], "what is not cut is there once"
    assert "head.logits.weight" not in index["tensors"], "a tied copy is left out"
    unsplit = set(manifest(GPT(TIED, Mesh())))
    assert index["tensors"].keys() == unsplit
    for file in files:
        with safe_open(path / file, framework="pt") as tensors:
            keys = set(tensors.keys())
        there = {kind: {k.partition("/")[2] for k in keys if k.startswith(f"{kind}/")} for kind in KINDS}
        wanted = {name for name, facts in index["tensors"].items() if file in facts["files"]}
        assert there == dict.fromkeys(KINDS, wanted)


def test_only_the_first_replica_writes(tmp_path: Path) -> None:
    def on_rank() -> None:
        mesh = Mesh(dp=2)
        if mesh.dp.rank == 1:
            os.fsync = lambda fd: full()
        save(tmp_path, 10, state_of(SMALL, mesh, 10), mesh)

    minipar.run(on_rank, 2, timeout=20, device="cpu")
    assert found_alone(tmp_path) == (10, 10)


def test_only_the_files_and_kinds_that_are_needed_are_read(saved: Path, tmp_path: Path) -> None:
    layout = Layout(1, 2, 2, v=2)
    root = shutil.copytree(root_of(saved, TIED, layout), tmp_path / "copy")
    checkpoint = latest(root, Mesh())
    assert checkpoint is not None
    for tp in range(2):
        (checkpoint.path / f"pp01-tp0{tp}.safetensors").unlink()
    cuts = even_cuts(TIED.layers, 4)
    first = manifest(GPT(TIED, Mesh(), cuts[0]))
    assert list(read(checkpoint, first, ["exp_avg"], Mesh())) == ["exp_avg"]
    gone = manifest(GPT(TIED, Mesh(), cuts[1]))
    assert "pp01-tp00.safetensors: No such file" in said(lambda: read(checkpoint, gone, ["weights"], Mesh()))


def test_what_is_read_does_not_change_with_the_file(tmp_path: Path) -> None:
    alone(tmp_path, 1)
    checkpoint = latest(tmp_path, Mesh())
    assert checkpoint is not None
    entries = entries_of(SMALL, Mesh())
    got = read(checkpoint, entries, list(KINDS), Mesh())
    for file in checkpoint.files:
        with open(checkpoint.path / file, "r+b") as bytes_of_it:
            bytes_of_it.write(b"\0" * checkpoint.files[file].size)
    assert_bitwise(got, parts_of(entries, Mesh(), 1))


def test_a_name_is_matched_whole_and_a_part_of_it_is_not_enough(tmp_path: Path) -> None:
    """Megatron-LM PR#6858: layer_10 matched layer_100."""
    entries = {f"layer_{n}": Entry(torch.Size([4]), None) for n in (1, 10, 100)}
    tensors = {name: torch.full((4,), float(name[6:])) for name in entries}
    save(tmp_path, 1, State(entries, {"weights": tensors}, {}), Mesh())
    checkpoint = latest(tmp_path, Mesh())
    assert checkpoint is not None
    for name, tensor in tensors.items():
        assert_bitwise(read(checkpoint, {name: entries[name]}, ["weights"], Mesh()), {"weights": {name: tensor}})
    for name in ("layer_", "layer_1000", "ayer_10", "layer_10.", "weights/layer_10"):
        asked = {name: entries["layer_10"]}
        error = said(partial(read, checkpoint, asked, ["weights"], Mesh()))
        assert f"has no {name!r}; the model has one of shape (4,)" in error


def test_another_model_is_refused_by_the_name_and_both_shapes_or_cuts(tmp_path: Path) -> None:
    entry = Entry(torch.Size([4, 6]), Cut(0, (Section(2), Section(2))))
    copy = Entry(torch.Size([4, 6]), entry.cut, copy_of="w")
    tensors = {"weights": {"w": torch.zeros(4, 6)}}
    save(tmp_path, 1, State({"w": entry}, tensors, {}), Mesh())
    checkpoint = latest(tmp_path, Mesh())
    assert checkpoint is not None

    def refused(name: str, other: Entry, kind: str = "weights") -> str:
        return said(lambda: read(checkpoint, {name: other}, [kind], Mesh()))

    path = tmp_path / "step-00000001"
    assert refused("x", entry) == f"{path} has no 'x'; the model has one of shape (4, 6)"
    assert refused("x", Entry(torch.Size([4, 6]), entry.cut, copy_of="y")).startswith(f"{path} has no 'y'")
    assert refused("w", entry, "exp_avg") == f"{path} has no 'exp_avg' of 'w', shape (4, 6); it has weights"
    says = f"'w' has shape (4, 6) in {path}, but (6, 4) in the model"
    assert refused("w", Entry(torch.Size([6, 4]), Cut(0, (Section(6),)))) == says
    for cut, how in (
        (None, "not at all"),
        (Cut(0, (Section(4),)), "along dimension 0 in sections of 4"),
        (Cut(1, (Section(6),)), "along dimension 1 in sections of 6"),
        (Cut(0, (Section(2), Section(2, most=1))), "along dimension 0 in sections of 2, 2 in at most 1 parts"),
    ):
        says = f"'w' of shape (4, 6) is cut along dimension 0 in sections of 2, 2 in {path}, but {how} in the model"
        assert refused("w", Entry(torch.Size([4, 6]), cut)) == says
    same = Entry(torch.Size([4, 6]), Cut(-2, (Section(2), Section(2))))
    assert_bitwise(
        read(checkpoint, {"w": same, "v": copy}, ["weights"], Mesh()),
        {"weights": {"w": torch.zeros(4, 6), "v": torch.zeros(4, 6)}},
    )


# Whole after any crash.

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


# A rank that cannot write.


def full() -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


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


# Damage.

FILE = "pp00-tp00.safetensors"


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


# What is kept.


def test_the_last_ones_are_kept_and_never_is_the_one_just_saved_removed(tmp_path: Path) -> None:
    for step in (8, 9, 10, 11):
        alone(tmp_path, step, keep=3)
    assert names_in(tmp_path) == ["step-00000009", "step-00000010", "step-00000011"]
    assert alone(tmp_path, 5, keep=2) == tmp_path / "step-00000005"
    assert names_in(tmp_path) == ["step-00000005", "step-00000011"]
    alone(tmp_path, 123_456_789, keep=1)
    assert names_in(tmp_path) == ["step-123456789"]
    assert found_alone(tmp_path) == (123_456_789, 123_456_789)


@pytest.mark.parametrize("keep", [0, -1])
def test_nothing_to_keep_is_refused_and_so_is_a_negative_step(tmp_path: Path, keep: int) -> None:
    with pytest.raises(ValueError, match=rf"keep={keep}; .* at least 1"):
        alone(tmp_path / "root", 1, keep=keep)
    with pytest.raises(ValueError, match="step=-1; a step is at least 0"):
        alone(tmp_path / "root", -1)
    assert not (tmp_path / "root").exists()


def test_the_same_step_again_takes_the_place_of_the_first(tmp_path: Path) -> None:
    alone(tmp_path, 10)
    alone(tmp_path, 20, TIED)
    alone(tmp_path, 20, salt=21, keep=2)
    assert names_in(tmp_path) == ["step-00000010", "step-00000020"]
    assert found_alone(tmp_path) == (20, 21)


def test_others_may_read_the_files_as_the_umask_says(tmp_path: Path) -> None:
    alone(tmp_path, 1)
    export(tmp_path, tmp_path / "whole")
    umask = os.umask(0)
    os.umask(umask)
    for file in (tmp_path / "whole", tmp_path / "step-00000001" / FILE, tmp_path / "step-00000001" / "index.json"):
        assert file.stat().st_mode & 0o777 == 0o666 & ~umask


# Whole weights in one file.


@pytest.mark.parametrize(("config", "layout"), [(config, layout) for config in SOURCES for layout in SOURCES[config]])
def test_an_export_is_the_weights_of_the_unsplit_model(
    saved: Path, tmp_path: Path, config: GPTConfig, layout: Layout
) -> None:
    file = tmp_path / "whole.safetensors"
    export(root_of(saved, config, layout), file)
    wanted = {n: whole("weights", n, p.shape, 50) for n, p in GPT(config, Mesh()).named_parameters()}
    got = load_file(file)
    assert got.keys() == wanted.keys()
    assert_bitwise({"weights": {name: got[name] for name in wanted}}, {"weights": wanted})
    assert GPTConfig(**whole_config(file)) == config
    load(GPT(config, Mesh()), got, Mesh().tp)
    assert names_in(tmp_path) == [file.name]


def test_any_mesh_reads_its_parts_of_the_whole_weights(saved: Path, tmp_path: Path) -> None:
    files = {config: tmp_path / f"{config.tied}" for config in (TIED, UNTIED)}
    for config, file in files.items():
        export(root_of(saved, config, FOUR[0]), file, step=50)

    def on_rank() -> None:
        for layout in FOUR:
            mesh = layout.mesh()
            for config, file in files.items():
                entries = entries_of(config, mesh, layout.v)
                wanted = {"weights": parts_of(entries, mesh, 50)["weights"]}
                assert_bitwise({"weights": read_whole(file, entries, mesh)}, wanted)

    minipar.run(on_rank, 4, timeout=30, device="cpu")


def test_a_file_that_does_not_fit_is_refused_by_its_name(tmp_path: Path) -> None:
    file = tmp_path / "whole"
    alone(tmp_path / "root", 1)
    export(tmp_path / "root", file)
    entries = entries_of(SMALL, Mesh())

    def refused(path: Path, entries: Mapping[str, Entry] = entries) -> str:
        return said(lambda: read_whole(path, entries, Mesh()))

    norm = entries["head.norm.weight"]
    assert refused(file, {"x": norm}) == f"{file} has no 'x'; the model has one of shape (4,)"
    other = Entry(torch.Size([5]), None)
    assert (
        refused(file, {"head.norm.weight": other})
        == f"'head.norm.weight' has shape (4,) in {file}, but (5,) in the model"
    )
    assert refused(tmp_path / "none").startswith(f"{tmp_path / 'none'}: No such file")
    os.truncate(file, file.stat().st_size - 1)
    assert refused(file).startswith(f"{file}: ")
    save_file({"x": torch.zeros(1)}, file)
    assert refused(file) == f"{file}: its metadata has no 'config'; it is no file of whole weights"
    for config in ("no", "[]"):
        save_file({"x": torch.zeros(1)}, file, {"config": config, "step": "1"})
        assert refused(file) == f"{file}: the 'config' in its metadata is no JSON object"


def test_an_export_that_cannot_be_is_a_sentence_and_leaves_the_file_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root, file = tmp_path / "root", tmp_path / "out" / "whole"
    assert said(lambda: export(root, file)) == f"there is no checkpoint in {root}"
    for step in (1, 2):
        alone(root, step)
    assert said(lambda: export(root, file, 3)) == f"there is no checkpoint of step 3 in {root}; there is step 1, step 2"
    assert "No such file or directory" in said(lambda: export(root, file))
    file.parent.mkdir()
    file.write_text("before")
    monkeypatch.setattr(os, "fsync", lambda descriptor: full())
    assert "No space left on device" in said(lambda: export(root, file))
    monkeypatch.undo()
    assert names_in(file.parent) == ["whole"]
    assert file.read_text() == "before"
    export(root, file, 1)
    assert torch.equal(load_file(file)["head.norm.weight"], whole("weights", "head.norm.weight", (4,), 1))
    save(root, 3, State({}, {"weights": {}}, {}), Mesh())
    assert said(lambda: export(root, file)).endswith("its facts have no 'config', the sizes of the model")


def test_the_command_exports_and_says_which_step(tmp_path: Path) -> None:
    root, file = tmp_path / "root", tmp_path / "whole"
    for step in (1, 2):
        alone(root, step)

    def minipar_export(*arguments: str) -> Any:
        return CliRunner().invoke(app, ["export", str(root), str(file), *arguments])

    plain = minipar_export()
    assert (plain.exit_code, plain.output) == (
        0,
        f"{file}: the whole weights of step 2, {file.stat().st_size / 2**20:.3g} MiB.\n",
    )
    facts = json.loads(minipar_export("--step", "1", "--json").output)
    assert facts == {"file": str(file), "step": 1, "bytes": file.stat().st_size, "config": asdict(SMALL)}
    assert torch.equal(load_file(file)["head.norm.weight"], whole("weights", "head.norm.weight", (4,), 1))
    wrong = minipar_export("--step", "3")
    assert wrong.exit_code == 1
    assert "there is no checkpoint of step 3" in " ".join(wrong.output.split())
