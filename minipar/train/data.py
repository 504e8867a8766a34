"""Real text as bytes: the standard library's help topics, or any file."""

from __future__ import annotations

from pathlib import Path
from pydoc_data.topics import topics

import torch
from torch import Tensor

from minipar.tensor.random import stream


class ByteText:
    """Batches of consecutive bytes from a text; token = byte, so the vocabulary is 256.

    path: a file, read whole; without one, about 0.7 MB of English that every Python brings along.
    Raises `ValueError` for a file that cannot be read or is too short for the sequence asked for.
    """

    def __init__(self, path: str | Path | None = None) -> None:
        self.name = str(path) if path else "pydoc_data.topics"
        try:
            data = Path(path).read_bytes() if path else "\n".join(topics.values()).encode()
        except OSError as error:
            raise ValueError(f"the text {str(path)!r} cannot be read: {error.strerror}") from None
        self.bytes = torch.frombuffer(bytearray(data), dtype=torch.uint8) if data else torch.empty(0, dtype=torch.uint8)

    def batch(self, step: int, batch: int, sequence: int, seed: int = 0) -> tuple[Tensor, Tensor]:
        """Inputs and targets ``[batch, sequence]`` of a step: the same on every rank, whatever the mesh."""
        room = len(self.bytes) - sequence
        if room < 1:
            raise ValueError(f"{self.name} has {len(self.bytes)} bytes; a sequence of {sequence} needs {sequence + 1}")
        starts = torch.randint(room, (batch,), generator=stream(seed, step))
        windows = torch.stack([self.bytes[s : s + sequence + 1] for s in starts.tolist()]).long()
        return windows[:, :-1], windows[:, 1:]
