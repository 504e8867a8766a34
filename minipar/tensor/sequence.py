"""Sequence parallelism: outside the split matmuls each rank holds a slice of the sequence.

The all-reduce that ends a split region becomes a reduce-scatter along the sequence, and an all-gather begins the
next one. A ring's all-reduce is just these two in a row, so the traffic is the same; but norms, dropouts and
residuals are computed once instead of n times, and their activations take an n-th of the memory.
Source: Korthikanti et al. 2022, §4.2.2.

Features are ``[batch, seq, hidden]``, and ``[batch, seq/n, hidden]`` in a slice. Each function raises `ValueError`
before it communicates where the sequence does not divide by the axis's size.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from minipar.comm import all_gather, copy_to_region, pair, reduce_scatter, scatter_to_region
from minipar.mesh import Axis

SEQUENCE = 1  # the dimension that is cut


def scatter_to_sequence(x: Tensor, axis: Axis) -> Tensor:
    """From the whole, the same on every rank, to one's own slice: slice forward, all-gather backward."""
    return scatter_to_region(x, axis, SEQUENCE)


def gather_from_sequence(x: Tensor, axis: Axis) -> Tensor:
    """From slices into a split region, where every rank uses the whole: all-gather forward, reduce-scatter backward."""
    return pair(x, axis, lambda x: all_gather(x, axis, SEQUENCE), lambda g: reduce_scatter(g, axis, SEQUENCE))


def reduce_to_sequence(x: Tensor, axis: Axis) -> Tensor:
    """From the summands of a split region to one's slice of the sum: reduce-scatter forward, all-gather backward."""
    return pair(x, axis, lambda x: reduce_scatter(x, axis, SEQUENCE), lambda g: all_gather(g, axis, SEQUENCE))


class RegionNorm(nn.LayerNorm):
    """Layer norm of replicated features, or with `sequence_parallel` of a slice of the sequence.

    In a slice a rank sees some of the tokens only, so the gradients of weight and bias are summed over the ranks.
    """

    def __init__(self, hidden: int, axis: Axis, sequence_parallel: bool, dtype: torch.dtype) -> None:
        super().__init__(hidden, dtype=dtype)
        self.axis, self.sequence_parallel = axis, sequence_parallel

    def forward(self, x: Tensor) -> Tensor:
        """Normalize the last dimension."""
        if not self.sequence_parallel:
            return super().forward(x)
        weight, bias = (copy_to_region(parameter, self.axis) for parameter in (self.weight, self.bias))
        return F.layer_norm(x, self.normalized_shape, weight, bias, self.eps)
