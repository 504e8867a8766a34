"""Models, their tensors and layouts, for the tests of checkpoints."""

from __future__ import annotations

import errno
import os
import sys
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

import cloudpickle
import torch
from torch import Tensor

from minipar import Mesh
from minipar.manifest import Entry, manifest
from minipar.model import GPT, GPTConfig
from minipar.pipeline import even_cuts
from minipar.train.checkpoint import (
    CheckpointError,
    State,
    latest,
    read,
    save,
)

cloudpickle.register_pickle_by_value(sys.modules[__name__])  # so that no rank imports this file, and pytest with it

FILE = "pp00-tp00.safetensors"
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


ONE = [Layout(), Layout(v=4)]
FOUR = [Layout(1, 2, 2, v=2), Layout(1, 1, 4), Layout(1, 4, 1), Layout(2, 1, 2, v=3)]
EIGHT = [Layout(2, 1, 4), Layout(2, 2, 2, v=2)]
SOURCES = {TIED: [*FOUR, *ONE], UNTIED: [*FOUR[:2], ONE[0]]}


def root_of(folder: Path, config: GPTConfig, layout: Layout) -> Path:
    return folder / f"{'tied' if config.tied else 'untied'} {layout}"


def full() -> None:
    """What a full disk does to a call."""
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
