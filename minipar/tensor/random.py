"""Random numbers that do not depend on how the model is cut."""

from __future__ import annotations

import zlib
from dataclasses import dataclass, replace

import torch
from torch import Tensor


def stream(*key: int | str) -> torch.Generator:
    """Random numbers of their own for each key. All of it is hashed: PyTorch uses only 32 bits of a CPU seed."""
    return torch.Generator().manual_seed(zlib.crc32(repr(key).encode()))


@dataclass(frozen=True)
class Draw:
    """Draws unsplit weights, each from a stream of its own that depends only on `seed` and its full name.

    A rank draws a weight whole and then cuts it, so every tp and every pp starts from the bitwise same model.
    """

    seed: int
    dtype: torch.dtype = torch.float32
    prefix: str = ""

    def under(self, name: str) -> Draw:
        """The same, for the module `name` within this one."""
        return replace(self, prefix=f"{self.prefix}{name}.")

    def normal(self, name: str, *shape: int, std: float = 0.02) -> Tensor:
        """The whole parameter `name` of this shape, normally distributed around 0."""
        return torch.randn(*shape, generator=stream(self.seed, self.prefix + name), dtype=self.dtype) * std

    def zeros(self, *shape: int) -> Tensor:
        """A whole parameter of zeros, such as a bias."""
        return torch.zeros(*shape, dtype=self.dtype)
