"""Real text as bytes: the standard library's help topics, or any file."""

from __future__ import annotations

import copy
import errno
import mmap
import os
import stat
import warnings
from pathlib import Path
from pydoc_data.topics import topics

import torch
from torch import Tensor

from minipar.tensor.random import stream


class ByteText:
    """A text whose tokens are its bytes, so the vocabulary is 256, and the order in which training sees it.

    path: a file; it is mapped into memory read-only, so a part is read when a batch needs it, and the file may be
    larger than the memory. Without one, about 0.7 MB of English that every Python brings along.
    `bytes` is the text, uint8 ``[bytes]``; writing to a file's is a fault. Raises `ValueError` for a file that cannot
    be read.
    """

    def __init__(self, path: str | Path | None = None) -> None:
        self.name = "pydoc_data.topics" if path is None else str(path)
        try:
            self.bytes = _english() if path is None else _mapped(path)
        except OSError as error:
            raise ValueError(f"the text {str(path)!r} cannot be read: {error.strerror}") from None
        self._orders: dict[tuple[int, int, int], Tensor] = {}

    def batch(self, first: int, count: int, sequence: int, seed: int = 0) -> tuple[Tensor, Tensor]:
        """Inputs and targets ``[count, sequence]``: `count` samples from number `first` on, of an endless order.

        The samples are the text's windows of sequence + 1 bytes, each beginning with the last byte of the one before;
        a rest shorter than that is left out. An epoch is a random permutation of them all. Sample n is the same
        whatever the batches, the mesh, and where a run was resumed. A permutation takes 8 bytes a window.
        Raises `ValueError` for a text shorter than one window, first < 0, count < 1 or sequence < 1.
        """
        for name, value, least in (("first", first, 0), ("count", count, 1), ("sequence", sequence, 1)):
            if value < least:
                raise ValueError(f"{name}={value}; it must be at least {least}")
        if len(self.bytes) <= sequence:
            raise ValueError(f"{self.name} has {len(self.bytes)} bytes; a sequence of {sequence} needs {sequence + 1}")
        windows = self.bytes.unfold(0, sequence + 1, sequence)  # [windows, sequence + 1], a view
        size, end = len(windows), first + count
        chosen = [
            self._order(seed, epoch, size)[max(first - epoch * size, 0) : end - epoch * size]
            for epoch in range(first // size, (end - 1) // size + 1)
        ]
        samples = windows[torch.cat(chosen)].long()
        return samples[:, :-1], samples[:, 1:]

    def split(self, held_out: float) -> tuple[ByteText, ByteText]:
        """The text for training and its last share `held_out` for evaluation, with no byte in both and none copied.

        Raises `ValueError` unless 0 < held_out < 1, and where a part would be empty.
        """
        if not 0 < held_out < 1:
            raise ValueError(f"held_out={held_out}; it is a share between 0 and 1")
        last = round(len(self.bytes) * held_out)
        if not 0 < last < len(self.bytes):
            raise ValueError(f"held_out={held_out} of the {len(self.bytes)} bytes of {self.name} leaves a part empty")
        training, evaluation = self.bytes.tensor_split([len(self.bytes) - last])
        return self._part(training, "training"), self._part(evaluation, "evaluation")

    def _part(self, part: Tensor, use: str) -> ByteText:
        text = copy.copy(self)
        text.name, text.bytes, text._orders = f"{self.name} ({use})", part, {}
        return text

    def _order(self, seed: int, epoch: int, size: int) -> Tensor:
        """The order of the windows in an epoch; the last two are kept, as a batch may straddle them."""
        key = (seed, epoch, size)
        if key not in self._orders:
            if len(self._orders) == 2:
                del self._orders[next(iter(self._orders))]
            self._orders[key] = torch.randperm(size, generator=stream(seed, "epoch", epoch))
        return self._orders[key]


def _english() -> Tensor:
    return torch.frombuffer(bytearray("\n".join(topics.values()).encode()), dtype=torch.uint8)


def _mapped(path: str | Path) -> Tensor:
    """A file's bytes, read when they are looked at."""
    kind = os.stat(path).st_mode
    if not stat.S_ISREG(kind) and not stat.S_ISDIR(kind):  # open says what a folder is; of a pipe it waits for a writer
        raise OSError(errno.ENODEV, "not a regular file")
    with open(path, "rb") as file:
        if os.fstat(file.fileno()).st_size == 0:
            return torch.empty(0, dtype=torch.uint8)  # nothing cannot be mapped
        # Not a private copy (mmap.ACCESS_COPY, `torch.from_file`): Linux refuses one larger than the memory.
        mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "The given buffer is not writable")
        return torch.frombuffer(mapped, dtype=torch.uint8)
