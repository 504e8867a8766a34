"""Random numbers that do not depend on how the model is cut: weights by name, dropout by name and moment."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from minipar.comm import slices
from minipar.mesh import Axis


def stream(*key: object, device: torch.device | str = "cpu") -> torch.Generator:
    """A stream of random numbers of its own for each key."""
    digest = hashlib.blake2b(repr(key).encode(), digest_size=7).digest()
    return torch.Generator(device).manual_seed(int.from_bytes(digest, "big"))


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


@dataclass(frozen=True)
class Moment:
    """When a dropout happens: its mask depends on this and on its layer's name, and on nothing else.

    So a recompute draws the same mask again with no state to be saved, and the mask of a split tensor is its
    slice of the unsplit model's mask: it differs over tp where the tensor is split, and agrees where it is replicated.
    `replica` is the data-parallel rank: different samples get different masks.
    """

    seed: int = 0
    step: int = 0
    micro_batch: int = 0
    replica: int = 0


def dropout(x: Tensor, p: float, moment: Moment, name: str, axis: Axis | None = None, dim: int = 1) -> Tensor:
    """x with a share `p` of its entries set to 0 and the rest divided by 1 − p.

    axis: None where x is replicated; otherwise x is this rank's slice along `dim`. `ValueError` unless 0 ≤ p < 1.
    """
    if not 0 <= p < 1:
        raise ValueError(f"dropout={p}; it is a share from 0 to just below 1")
    if p == 0:
        return x
    shape = list(x.shape)
    if axis is not None:
        shape[dim] *= axis.size
    keep = torch.rand(shape, generator=stream(moment, name, device=x.device), device=x.device) >= p
    keep = slices(keep, axis, dim)[axis.rank] if axis else keep
    return x * keep / (1 - p)
