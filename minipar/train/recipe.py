"""The recipe: everything that decides what a training computes, however it is laid out over ranks."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

import torch


class Precision(Enum):
    """What the model computes in. Below float32, weights and gradients are kept in float32 besides (the main ones).

    Micikevicius et al. 2018: half-precision sums of many small gradients, and small updates of large weights, are lost.
    """

    FLOAT64 = "float64"
    FLOAT32 = "float32"
    BF16 = "bf16"
    FP16 = "fp16"

    @property
    def model(self) -> torch.dtype:
        """The type of the model's weights and activations."""
        types = {"float64": torch.float64, "float32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
        return types[self.value]

    @property
    def main(self) -> torch.dtype:
        """The type of the main weights and gradients, and of the optimizer's states."""
        return torch.float64 if self is Precision.FLOAT64 else torch.float32


@dataclass(frozen=True)
class Recipe:
    """How long, on how much at once, and how to update.

    steps: until the learning rate has come down. batch: samples of a step, over all replicas and micro-batches.
    rate: the highest learning rate, reached after `warm_up` steps; it falls to `floor` times that in a cosine.
    decay: AdamW's weight decay, of matrices only: norms and biases have none.
    clip: the largest norm of all gradients together; None does not clip. seed: of weights, data order and dropout.
    """

    steps: int = 200
    batch: int = 16
    rate: float = 3e-3
    warm_up: int = 20
    floor: float = 0.1
    decay: float = 0.1
    betas: tuple[float, float] = (0.9, 0.95)
    eps: float = 1e-8
    clip: float | None = 1.0
    precision: Precision = Precision.FLOAT32
    seed: int = 0

    def check(self) -> None:
        """Raise `ValueError` for a number that cannot be meant."""
        for name in ("steps", "batch"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name}={getattr(self, name)}; it must be at least 1")
        for name in ("rate", "eps"):
            if not 0 < getattr(self, name) < float("inf"):
                raise ValueError(f"{name}={getattr(self, name)}; it must be above 0")
        if not 0 <= self.decay < float("inf"):
            raise ValueError(f"decay={self.decay}; it must be at least 0")
        if self.clip is not None and not self.clip > 0:
            raise ValueError(f"clip={self.clip}; it must be above 0, or None not to clip")
        if not 0 <= self.warm_up <= self.steps:
            raise ValueError(f"warm_up={self.warm_up}; it is a number of the {self.steps} steps")
        if not 0 <= self.floor <= 1:
            raise ValueError(f"floor={self.floor}; it is a share of the highest rate, from 0 to 1")
