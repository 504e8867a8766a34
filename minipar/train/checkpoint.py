"""Checkpoints: each rank's parts in a file of its own, whole or not there at all, and fit for any other mesh."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from safetensors.torch import save as to_bytes
from torch import Tensor

from minipar import comm
from minipar.manifest import Entry
from minipar.mesh import Coords, Mesh, rank_of
from minipar.train.folders import WRITING, checkpoints, folder_of, prune, publish, tidy
from minipar.train.index import (
    INDEX,
    Checkpoint,
    CheckpointError,
    Saved,
    Written,
    check_file,
    index_of,
    key,
    naming,
    read_index,
    sync_folder,
    write_file,
)
from minipar.train.shards import export, read, read_whole, whole_config

__all__ = ["Checkpoint", "CheckpointError", "State", "export", "latest", "read", "read_whole", "save", "whole_config"]

T = TypeVar("T")


@dataclass(frozen=True)
class State:
    """What a rank holds of a training: its parts of every tensor, and facts that are the same on all ranks.

    entries: by full name, those of all stages of this rank. tensors: by kind ("weights", "exp_avg", …) and full name.
    facts: what JSON can say, such as the step; `export` wants the model's sizes among them, as "config".
    """

    entries: Mapping[str, Entry]
    tensors: Mapping[str, Mapping[str, Tensor]]
    facts: Mapping[str, Any]


class Part(NamedTuple):
    """What one rank wrote. tensors: those it holds, a part or the whole: entry and dtypes by kind, by full name."""

    file: str
    written: Written
    tensors: dict[str, tuple[Entry, dict[str, str]]]


def save(root: Path, step: int, state: State, mesh: Mesh, keep: int = 3) -> Path:
    """Save a training at ``root/step-00000050``, and remove all but the last `keep` checkpoints. Every rank calls this.

    The first replica writes, a file for each pipeline and tensor rank; tied copies are left out. All of it is made
    in a hidden folder, which gets its name when all is on the disk. So after a crash at any moment the checkpoints
    in `root` are whole, and the next `save` clears away what was left. One of the same step is replaced. `root`
    is a folder that all ranks see.

    Returns the checkpoint's folder. Where a rank fails, every rank raises the same `CheckpointError`, which names
    the file, the reason and the last good checkpoint. Raises `ValueError`, before it sends anything, for a `keep`
    below 1 and a negative step.
    """
    if keep < 1:
        raise ValueError(f"keep={keep}; the checkpoint that is saved is kept, so it is at least 1")
    if step < 0:
        raise ValueError(f"step={step}; a step is at least 0")
    first, unfinished = mesh.rank == 0, folder_of(root, step, WRITING)
    try:
        facts = _agreed(lambda: _begin(root, unfinished, state, mesh), mesh)
        if differs := [rank for rank, theirs in enumerate(facts) if theirs != facts[0]]:
            raise CheckpointError(f"rank {differs[0]}: its facts are {facts[differs[0]]}, but rank 0's are {facts[0]}")
        parts = _agreed(lambda: _write(unfinished, state, mesh) if mesh.dp.rank == 0 else None, mesh)
        made = _joined(unfinished, step, state, parts, mesh)  # of the same on every rank
        _agreed(lambda: _finish(root, made, keep) if first else None, mesh)
    except CheckpointError as error:
        if first:
            with suppress(OSError, CheckpointError):
                tidy(root)
        raise CheckpointError(f"saving step {step} failed: {error}; {_left(root, mesh)}") from error
    return folder_of(root, step)


def latest(root: Path, mesh: Mesh, notice: Callable[[str], None] = warnings.warn) -> Checkpoint | None:
    """The newest checkpoint in `root` of which every file is as it was written; None where there is none at all.

    Every rank calls this; each checks its share of the files, and all get the same. Where a newer one is damaged,
    `notice` is told on every rank, by file, and which is used instead.

    Raises `CheckpointError`, which names the files, where there are checkpoints but none is whole.
    """
    found, damaged = _search(root, mesh)
    if found is not None:
        for damage in damaged:
            notice(f"a checkpoint is damaged: {damage}; {found.path} is used instead")
    elif damaged:
        raise CheckpointError(f"no checkpoint in {root} is whole: {'; '.join(damaged)}")
    return found


def _everyone(value: T, mesh: Mesh) -> list[T]:
    """The value of every rank in rank order, on every rank: gathered over tp, then dp, then pp."""
    replicas = comm.gather_objects(comm.gather_objects(value, mesh.tp), mesh.dp)
    return [v for stage in comm.gather_objects(replicas, mesh.pp) for replica in stage for v in replica]


def _agreed(action: Callable[[], T], mesh: Mesh) -> list[T]:
    """What `action` gave on each rank; where it failed on any, every rank raises the same `CheckpointError`.

    A rank that fails takes part in the collective as all others do, so nobody waits for it.
    """
    result, failure, cause = None, None, None
    try:
        result = action()
    except Exception as error:
        cause = error
        failure = str(error) if isinstance(error, CheckpointError) else f"{type(error).__name__}: {error}"
    outcomes = _everyone((result, failure), mesh)
    for rank, (_, failed) in enumerate(outcomes):
        if failed is not None:
            raise CheckpointError(f"rank {rank}: {failed}") from cause
    return [result for result, _ in outcomes]  # type: ignore[misc]


def _begin(root: Path, unfinished: Path, state: State, mesh: Mesh) -> str:
    """Check what this rank wants to save, and on rank 0 make an empty folder for it. Returns the facts as text."""
    for kind, tensors in state.tensors.items():
        for name, tensor in tensors.items():
            if name not in state.entries:
                raise CheckpointError(f"{kind!r} has a tensor {name!r}, which is not among the entries")
            if tensor.shape != (own := _own_shape(state.entries[name], mesh)):
                shapes = f"{tuple(tensor.shape)}, but this rank's part has {own}"
                raise CheckpointError(f"{kind!r} of {name!r} has shape {shapes} (tp={mesh.tp.size})")
    try:
        facts = json.dumps(state.facts, sort_keys=True)
    except TypeError as error:
        raise CheckpointError(f"the facts cannot be written as JSON: {error}") from error
    if mesh.rank == 0:
        if not root.is_dir():
            with naming(root):
                root.mkdir(parents=True)
            sync_folder(root.parent)
        tidy(root)
        with naming(unfinished):
            unfinished.mkdir()
    return facts


def _own_shape(entry: Entry, mesh: Mesh) -> tuple[int, ...]:
    shape = list(entry.shape)
    if entry.cut is not None:
        shape[entry.cut.dim] = sum(section.held(mesh.tp.size) for section in entry.cut.sections)
    return tuple(shape)


def _write(folder: Path, state: State, mesh: Mesh) -> Part:
    """Write this rank's file: its parts, and where it is the first tensor rank also what is not cut."""
    file = f"pp{mesh.pp.rank:02d}-tp{mesh.tp.rank:02d}.safetensors"
    described: dict[str, tuple[Entry, dict[str, str]]] = {}
    content = {}
    for kind, tensors in state.tensors.items():
        for name, tensor in tensors.items():
            entry = state.entries[name]
            if entry.copy_of is not None:
                continue
            described.setdefault(name, (entry, {}))[1][kind] = str(tensor.dtype).removeprefix("torch.")
            if entry.cut is not None or mesh.tp.rank == 0:
                content[key(kind, name)] = tensor.detach().cpu().contiguous()
    return Part(file, write_file(folder / file, to_bytes(content)), described)


def _joined(folder: Path, step: int, state: State, parts: list[Part | None], mesh: Mesh) -> Checkpoint:
    """The checkpoint that all ranks' files are together."""
    tensors: dict[str, Saved] = {}
    files: dict[str, Written] = {}
    for pp in range(mesh.pp.size):
        ranks = [rank_of(Coords(pp, 0, tp), mesh.dp.size, mesh.tp.size) for tp in range(mesh.tp.size)]
        stage = [part for rank in ranks if (part := parts[rank]) is not None]
        for rank, part in zip(ranks, stage, strict=True):
            files[part.file] = part.written
            if part.tensors != stage[0].tensors:
                raise CheckpointError(f"ranks {ranks[0]} and {rank} hold different tensors of the same stages")
        for name, (entry, kinds) in stage[0].tensors.items():
            if name in tensors:
                raise CheckpointError(
                    f"{name!r} is in {tensors[name].files[0]} already; is it a tied copy (`copy_of`)?"
                )
            held = stage if entry.cut is not None else stage[:1]
            tensors[name] = Saved(entry, kinds, tuple(part.file for part in held))
    return Checkpoint(folder, step, state.facts, mesh.tp.size, tensors, files)


def _finish(root: Path, made: Checkpoint, keep: int) -> None:
    """Write the index, give the folder its name, and remove what is older than the last `keep`."""
    write_file(made.path / INDEX, index_of(made))
    sync_folder(made.path)
    publish(root, made.step)
    prune(root, made.step, keep)


def _search(root: Path, mesh: Mesh) -> tuple[Checkpoint | None, list[str]]:
    """The newest whole checkpoint, if there is one, and what is wrong with each newer one. All ranks get the same."""
    damaged: list[str] = []
    found = _agreed(lambda: checkpoints(root) if mesh.rank == 0 else {}, mesh)[0]  # others may see it otherwise
    for step, path in found.items():
        index = _everyone(_index_or_damage(path, step) if mesh.rank == 0 else "", mesh)[0]
        if isinstance(index, str):
            damaged.append(index)
            continue
        wrong = [damage for share in _everyone(_damaged_files(index, mesh), mesh) for damage in share]
        if not wrong:
            return index, damaged
        damaged.append("; ".join(wrong))
    return None, damaged


def _index_or_damage(path: Path, step: int) -> Checkpoint | str:
    try:
        return read_index(path, step)
    except CheckpointError as error:
        return str(error)


def _damaged_files(checkpoint: Checkpoint, mesh: Mesh) -> list[str]:
    """What is wrong with this rank's share of the files."""
    ranks, damaged = mesh.dp.size * mesh.pp.size * mesh.tp.size, []
    for name in list(checkpoint.files)[mesh.rank :: ranks]:
        try:
            check_file(checkpoint.path / name, checkpoint.files[name])
        except CheckpointError as error:
            damaged.append(str(error))
    return damaged


def _left(root: Path, mesh: Mesh) -> str:
    """Which checkpoint can still be used, in words."""
    try:
        found, _ = _search(root, mesh)
    except CheckpointError as error:
        return f"whether a good checkpoint is left cannot be seen: {error}"
    return f"the last good checkpoint is {found.path}" if found else f"there is no good checkpoint in {root}"
