"""The index of a checkpoint: which file holds which part of which tensor, and what each was when it was written."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import torch
from safetensors import SafetensorError

from minipar.manifest import Cut, Entry, Section

FORMAT = 1
INDEX = "index.json"
CHUNK = 1 << 20  # bytes of a file that are in memory at a time while it is checked


class CheckpointError(ValueError):
    """A checkpoint that could not be written, is damaged, or is of another model."""


@dataclass(frozen=True)
class Saved:
    """One tensor of the unsplit model, as a checkpoint has it.

    kinds: those it is there in ("weights", …), each with its dtype. files: those with its parts, by the tensor rank
    that held them; one where it was not cut.
    """

    entry: Entry
    kinds: Mapping[str, str]
    files: tuple[str, ...]


class Written(NamedTuple):
    """A file as it was written: its bytes, and their BLAKE2b digest."""

    size: int
    digest: str


@dataclass(frozen=True)
class Checkpoint:
    """What a checkpoint holds, and where. tp: for how many tensor ranks its tensors were cut.

    tensors: by full name in the unsplit model, without tied copies. files: by their name in the folder `path`.
    """

    path: Path
    step: int
    facts: Mapping[str, Any]
    tp: int
    tensors: Mapping[str, Saved]
    files: Mapping[str, Written]


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """Turn what goes wrong with a file into a `CheckpointError` that names it."""
    try:
        yield
    except (OSError, SafetensorError) as error:
        raise CheckpointError(f"{path}: {getattr(error, 'strerror', None) or error}") from error


def write_file(path: Path, data: bytes) -> Written:
    """Write a file and wait until it is on the disk; `CheckpointError` with its name where that fails."""
    with naming(path), open(path, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    return Written(len(data), hashlib.blake2b(data).hexdigest())


def sync_folder(path: Path) -> None:
    """Wait until the names in a folder are on the disk."""
    with naming(path):
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def check_file(path: Path, written: Written) -> None:
    """Raise `CheckpointError` unless the file is there as it was written."""
    with naming(path), open(path, "rb") as file:
        size = os.fstat(file.fileno()).st_size
        if size != written.size:
            raise CheckpointError(f"{path}: it has {size} bytes, but {written.size} were written")
        digest = hashlib.blake2b()
        while chunk := file.read(CHUNK):
            digest.update(chunk)
    if digest.hexdigest() != written.digest:
        raise CheckpointError(f"{path}: its bytes are not those that were written (another BLAKE2b digest)")


def key(kind: str, name: str) -> str:
    """What a tensor is called in a file."""
    return f"{kind}/{name}"


def _digest(content: dict[str, Any]) -> str:
    return hashlib.blake2b(json.dumps(content, sort_keys=True).encode()).hexdigest()


def index_of(checkpoint: Checkpoint) -> bytes:
    """The checkpoint's index as JSON, which has a digest of itself."""
    content = {
        "format": FORMAT,
        "step": checkpoint.step,
        "tp": checkpoint.tp,
        "facts": checkpoint.facts,
        "files": {name: written._asdict() for name, written in checkpoint.files.items()},
        "tensors": {name: _to_json(saved) for name, saved in checkpoint.tensors.items()},
    }
    content = json.loads(json.dumps(content))  # as it will be read: keys become text, tuples lists
    return json.dumps({"digest": _digest(content), **content}, indent=1).encode()


def read_index(path: Path, step: int) -> Checkpoint:
    """The checkpoint in a folder; `CheckpointError` unless its index is there, as it was written, and of that step."""
    file = path / INDEX
    with naming(file):
        data = file.read_bytes()
    try:
        content = json.loads(data)
    except (ValueError, RecursionError):
        raise CheckpointError(f"{file}: it is not JSON") from None
    if not isinstance(content, dict) or "format" not in content:
        raise CheckpointError(f"{file}: it is no index of a checkpoint")
    if content["format"] != FORMAT:
        raise CheckpointError(f"{file}: it has format {content['format']!r}; this release reads format {FORMAT}")
    if content.pop("digest", None) != _digest(content):
        raise CheckpointError(f"{file}: it is not what was written (another BLAKE2b digest)")
    if content["step"] != step:
        raise CheckpointError(f"{file}: it is of step {content['step']}, but its folder of step {step}")
    tensors = {name: _from_json(saved) for name, saved in content["tensors"].items()}
    files = {name: Written(**written) for name, written in content["files"].items()}
    return Checkpoint(path, step, content["facts"], content["tp"], tensors, files)


def _to_json(saved: Saved) -> dict[str, Any]:
    cut = saved.entry.cut
    cut_facts = None if cut is None else {"dim": cut.dim, "sections": [s._asdict() for s in cut.sections]}
    return {"shape": list(saved.entry.shape), "cut": cut_facts, "kinds": saved.kinds, "files": saved.files}


def _from_json(facts: dict[str, Any]) -> Saved:
    cut = facts["cut"] and Cut(facts["cut"]["dim"], tuple(Section(**s) for s in facts["cut"]["sections"]))
    return Saved(Entry(torch.Size(facts["shape"]), cut), facts["kinds"], tuple(facts["files"]))
