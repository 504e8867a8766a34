"""A byte model that sees one byte back: what a trained model must beat to have learned more than pairs of letters."""

from __future__ import annotations

import math

import torch
from torch import Tensor


def bigram_bits(train: Tensor, held_out: Tensor) -> float:
    """Bits per byte of `held_out` (all but its first byte), uint8 ``[bytes]`` each, under counts from `train`.

    p(b after a) = (pairs(a, b) + w·p(b)) / (pairs(a, ·) + w): counts drawn towards single bytes (MacKay & Peto 1995),
    which are smoothed by one. The weight w is the power of two under which each pair of `train` is likeliest when
    that one pair is left out of the counts, so nothing is chosen on `held_out`.
    """
    pairs = _pairs(train)
    single = (torch.bincount(train.long(), minlength=256).double() + 1) / (len(train) + 256)

    def probabilities(weight: float, without: int) -> Tensor:
        """Of b after a, ``[256, 256]``, from counts with so many of that pair left out."""
        counts = (pairs - without).clamp(min=0)
        return (counts + weight * single) / ((pairs.sum(1, keepdim=True) - without).clamp(min=0) + weight)

    weights = [2.0**power for power in range(-4, 12)]
    best = max(weights, key=lambda weight: (pairs * probabilities(weight, without=1).log()).sum().item())
    seen = _pairs(held_out)
    return -(seen * probabilities(best, without=0).log()).sum().item() / seen.sum().item() / math.log(2)


def _pairs(text: Tensor) -> Tensor:
    """How often b follows a, ``[256, 256]``."""
    return torch.bincount(text[:-1].long() * 256 + text[1:].long(), minlength=256**2).double().view(256, 256)
