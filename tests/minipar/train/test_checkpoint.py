"""Checkpoints: any mesh reads bitwise what any other saved, and the last ones are kept."""

from __future__ import annotations

import json
import os
import shutil
import sys
from dataclasses import asdict
from functools import partial
from pathlib import Path

import cloudpickle
import pytest
import torch
from safetensors import safe_open

import minipar
from minipar import Mesh
from minipar.manifest import Cut, Entry, Section, manifest
from minipar.model import GPT
from minipar.pipeline import even_cuts
from minipar.train.checkpoint import (
    State,
    export,
    latest,
    read,
    save,
)
from tests.minipar.train.states import (
    EIGHT,
    FILE,
    FOUR,
    KINDS,
    ONE,
    SMALL,
    SOURCES,
    TIED,
    UNTIED,
    Layout,
    alone,
    assert_bitwise,
    entries_of,
    found_alone,
    full,
    names_in,
    parts_of,
    root_of,
    said,
    state_of,
)

cloudpickle.register_pickle_by_value(sys.modules[__name__])  # so that no rank imports this file, and pytest with it


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
