"""Reading the parts of a checkpoint: cut anew for another mesh, or joined into one file of whole weights."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from safetensors import safe_open
from safetensors.torch import save as to_bytes
from torch import Tensor

from minipar.manifest import Entry, Section
from minipar.mesh import Mesh
from minipar.train.folders import checkpoints
from minipar.train.index import (
    INDEX,
    Checkpoint,
    CheckpointError,
    check_file,
    key,
    naming,
    read_index,
    sync_folder,
    write_file,
)

WEIGHTS = "weights"  # the kind that is exported
CONFIG = "config"
"""What the facts, and the metadata of a file of whole weights, call the sizes of the model."""


class Reader:
    """Tensors from a checkpoint's files, one at a time: a file is opened when the first of it is asked for."""

    def __init__(self, checkpoint: Checkpoint, stack: ExitStack) -> None:
        self.checkpoint, self.stack = checkpoint, stack
        self.opened: dict[str, Any] = {}

    def part(self, kind: str, name: str, place: int) -> Tensor:
        """What tensor rank `place` held, when it was saved, of a tensor that was cut."""
        file = self.checkpoint.tensors[name].files[place]
        with naming(self.checkpoint.path / file):
            if file not in self.opened:
                self.opened[file] = self.stack.enter_context(safe_open(self.checkpoint.path / file, framework="pt"))
            tensor: Tensor = self.opened[file].get_tensor(key(kind, name))
        return tensor

    def whole(self, kind: str, name: str) -> Tensor:
        """The unsplit tensor."""
        cut = self.checkpoint.tensors[name].entry.cut
        parts = [self.part(kind, name, place) for place in range(len(self.checkpoint.tensors[name].files))]
        return parts[0] if cut is None else cut.join(parts)


def read(
    checkpoint: Checkpoint, entries: Mapping[str, Entry], kinds: Sequence[str], mesh: Mesh
) -> dict[str, dict[str, Tensor]]:
    """This rank's parts by kind and name, of the tensors in `entries`, bitwise, whatever the mesh that saved them.

    A tied copy gets its original. Each has the dtype it was saved in, and is on the mesh's device. Beyond the parts,
    no more than one unsplit tensor is in memory at a time. Sends nothing.

    Raises `CheckpointError`, before it reads, for a tensor that is not there or has another shape or cut.
    """
    for name, entry in entries.items():
        _check_same(checkpoint, entry.copy_of or name, entry, kinds)
    parts: dict[str, dict[str, Tensor]] = {kind: {} for kind in kinds}
    with ExitStack() as stack:
        reader = Reader(checkpoint, stack)
        for kind in kinds:
            for name, entry in entries.items():
                parts[kind][name] = _own_part(reader, kind, entry.copy_of or name, mesh)
    return parts


def _own_part(reader: Reader, kind: str, name: str, mesh: Mesh) -> Tensor:
    cut, axis = reader.checkpoint.tensors[name].entry.cut, mesh.tp
    if cut is None or reader.checkpoint.tp == axis.size:
        part = reader.part(kind, name, 0 if cut is None else axis.rank)
        # A clone, as what is read is a view of the file, and the file is not this tensor's to hold.
        return part.clone() if mesh.device.type == "cpu" else part.to(mesh.device)
    return cut.take(reader.whole(kind, name), axis.rank, axis.size).to(mesh.device)


def _check_same(checkpoint: Checkpoint, name: str, entry: Entry, kinds: Sequence[str]) -> None:
    saved = checkpoint.tensors.get(name)
    if saved is None:
        raise CheckpointError(f"{checkpoint.path} has no {name!r}; the model has one of shape {tuple(entry.shape)}")
    if missing := [kind for kind in kinds if kind not in saved.kinds]:
        raise CheckpointError(
            f"{checkpoint.path} has no {missing[0]!r} of {name!r}, shape {tuple(entry.shape)}; it has "
            f"{', '.join(saved.kinds)}"
        )
    if saved.entry.shape != entry.shape:
        raise CheckpointError(
            f"{name!r} has shape {tuple(saved.entry.shape)} in {checkpoint.path}, but {tuple(entry.shape)} in the model"
        )
    if _normal(saved.entry) != _normal(entry):
        cuts = [_described(e) for e in (saved.entry, entry)]
        raise CheckpointError(
            f"{name!r} of shape {tuple(entry.shape)} is cut {cuts[0]} in {checkpoint.path}, but {cuts[1]} in the model"
        )


def _normal(entry: Entry) -> tuple[int, tuple[Section, ...]] | None:
    """The cut with its dimension counted from the front."""
    return None if entry.cut is None else (entry.cut.dim % len(entry.shape), entry.cut.sections)


def _described(entry: Entry) -> str:
    if entry.cut is None:
        return "not at all"
    limits = [f" in at most {s.most} parts" if s.most else "" for s in entry.cut.sections]
    lengths = [f"{s.length}{' padded' * s.padded}{most}" for s, most in zip(entry.cut.sections, limits, strict=True)]
    return f"along dimension {entry.cut.dim % len(entry.shape)} in sections of {', '.join(lengths)}"


def export(root: Path, file: Path, step: int | None = None) -> None:
    """Write the weights of the unsplit model into one safetensors file, from the newest checkpoint or that of `step`.

    Its metadata has the model's "config" as JSON, and the "step". Tied weights are there once. It needs no ranks, and
    memory for twice the weights; the file is there whole or not at all.

    Raises `CheckpointError` where there is no such checkpoint, where it is damaged (another one is never taken in
    its place), and where the file cannot be written.
    """
    found = checkpoints(root)
    if not found:
        raise CheckpointError(f"there is no checkpoint in {root}")
    step = max(found) if step is None else step
    if step not in found:
        raise CheckpointError(f"there is no checkpoint of step {step} in {root}; there is {_listed(found)}")
    try:
        checkpoint = read_index(found[step], step)
        for name, written in checkpoint.files.items():
            check_file(checkpoint.path / name, written)
    except CheckpointError as error:
        others = [other for other in found if other != step]
        there = f"there are others, of {_listed(others)}" if others else "there is no other"
        raise CheckpointError(f"the checkpoint of step {step} is damaged: {error}; {there}") from error
    if CONFIG not in checkpoint.facts:
        raise CheckpointError(f"{checkpoint.path / INDEX}: its facts have no {CONFIG!r}, the sizes of the model")
    with ExitStack() as stack:
        reader = Reader(checkpoint, stack)
        saved = checkpoint.tensors.items()
        weights = {name: reader.whole(WEIGHTS, name).contiguous() for name, s in saved if WEIGHTS in s.kinds}
        data = to_bytes(weights, {"format": "pt", "step": str(step), CONFIG: json.dumps(checkpoint.facts[CONFIG])})
    unfinished = file.with_name(f".writing-{file.name}")
    try:
        write_file(unfinished, data)
        with naming(file):
            os.replace(unfinished, file)
    except CheckpointError:
        unfinished.unlink(missing_ok=True)
        raise
    sync_folder(file.parent)


def _listed(steps: Iterable[int]) -> str:
    return ", ".join(f"step {step}" for step in sorted(steps))


def metadata(file: Path) -> dict[str, str]:
    """What a file that `export` wrote says of itself: "step", "config"; `CheckpointError` for any other file."""
    with naming(file), safe_open(file, framework="pt") as tensors:
        found: dict[str, str] = tensors.metadata() or {}
    if missing := {CONFIG, "step"} - found.keys():
        raise CheckpointError(f"{file}: its metadata has no {min(missing)!r}; it is no file of whole weights")
    return found


def whole_config(file: Path) -> dict[str, Any]:
    """The sizes of the model in a file of whole weights; `CheckpointError` for a file that is none."""
    try:
        config = json.loads(metadata(file)[CONFIG])
    except json.JSONDecodeError:
        config = None
    if not isinstance(config, dict):
        raise CheckpointError(f"{file}: the {CONFIG!r} in its metadata is no JSON object")
    return config


def read_whole(file: Path, entries: Mapping[str, Entry], mesh: Mesh) -> dict[str, Tensor]:
    """This rank's parts of the weights in a file that `export` wrote, by name, as `read` gives them.

    Raises `CheckpointError` for a file that is none, and for a tensor that is not there or has another shape.
    """
    whole_config(file)
    parts = {}
    with naming(file), safe_open(file, framework="pt") as tensors:
        there = set(tensors.keys())
        for name, entry in entries.items():
            source = entry.copy_of or name
            if source not in there:
                raise CheckpointError(f"{file} has no {source!r}; the model has one of shape {tuple(entry.shape)}")
            shape = tuple(tensors.get_slice(source).get_shape())
            if shape != tuple(entry.shape):
                raise CheckpointError(f"{source!r} has shape {shape} in {file}, but {tuple(entry.shape)} in the model")
            whole = tensors.get_tensor(source)
            part = whole.clone() if entry.cut is None else entry.cut.take(whole, mesh.tp.rank, mesh.tp.size)
            parts[name] = part.to(mesh.device)
    return parts
