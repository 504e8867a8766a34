"""Whole weights in one file: from any mesh, for any other."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import cloudpickle
import pytest
import torch
from safetensors.torch import load_file, save_file
from typer.testing import CliRunner

import minipar
from minipar import Mesh
from minipar.cli import app
from minipar.manifest import Entry, load
from minipar.model import GPT, GPTConfig
from minipar.train.checkpoint import (
    State,
    export,
    read_whole,
    save,
    whole_config,
)
from tests.minipar.train.states import (
    FOUR,
    SMALL,
    SOURCES,
    TIED,
    UNTIED,
    Layout,
    alone,
    assert_bitwise,
    entries_of,
    full,
    names_in,
    parts_of,
    root_of,
    said,
    whole,
)

cloudpickle.register_pickle_by_value(sys.modules[__name__])  # so that no rank imports this file, and pytest with it


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
