"""The folders of checkpoints: one has its name when it is whole, and hidden names before and after."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

from minipar.train.index import naming, sync_folder

WRITING, REPLACED, REMOVING = ".writing-", ".replaced-", ".removing-"
"""Before a folder's name: it is not whole yet; it is whole, and another is about to take its name; it is half gone."""


def folder_of(root: Path, step: int, prefix: str = "") -> Path:
    """The folder of a step's checkpoint, or with a prefix its hidden one."""
    return root / f"{prefix}step-{step:08d}"


def folders(root: Path, prefix: str = "") -> dict[int, Path]:
    """The folders with that prefix by step, newest first; none where there is no `root`."""
    with naming(root):
        names = set(os.listdir(root)) if root.is_dir() else set()
    found = (re.fullmatch(re.escape(prefix) + r"step-([0-9]{8,})", name) for name in names)
    steps = sorted((int(match[1]) for match in found if match), reverse=True)
    return {step: path for step in steps if (path := folder_of(root, step, prefix)).name in names}


def checkpoints(root: Path) -> dict[int, Path]:
    """Where each step's checkpoint is, newest first.

    After a crash between the two renames of `publish`, the replaced one is the checkpoint of its step.
    """
    found = folders(root, REPLACED) | folders(root)
    return {step: found[step] for step in sorted(found, reverse=True)}


def tidy(root: Path) -> None:
    """Remove what a crash left unfinished or half gone, and put back what it was about to replace."""
    for prefix in (WRITING, REMOVING):
        for path in folders(root, prefix).values():
            with naming(path):
                shutil.rmtree(path)
    for step, path in folders(root, REPLACED).items():
        if folder_of(root, step).exists():
            remove(root, step, path)
        else:
            with naming(path):
                os.rename(path, folder_of(root, step))


def remove(root: Path, step: int, path: Path) -> None:
    """Remove a checkpoint's folder. It is hidden first, so that a crash leaves none that only looks whole."""
    hidden = folder_of(root, step, REMOVING)
    with naming(path):
        os.rename(path, hidden)
        shutil.rmtree(hidden)


def publish(root: Path, step: int) -> Path:
    """Give the folder that was written its name, in place of one of the same step; returns it when that is on disk."""
    path = folder_of(root, step)
    with naming(path):
        if path.exists():
            os.rename(path, folder_of(root, step, REPLACED))
        os.rename(folder_of(root, step, WRITING), path)
    sync_folder(root)
    for other, old in folders(root, REPLACED).items():
        remove(root, other, old)
    return path


def prune(root: Path, step: int, keep: int) -> None:
    """Remove all checkpoints but that of `step` and the newest of the others, `keep` in all."""
    others = [(other, path) for other, path in folders(root).items() if other != step]
    for other, path in others[keep - 1 :]:
        remove(root, other, path)
