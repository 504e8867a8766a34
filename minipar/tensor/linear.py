"""Linear layers that hold a part of an unsplit weight: `ColumnParallelLinear` and `RowParallelLinear`."""

from __future__ import annotations

from collections.abc import Sequence

import torch.nn.functional as F
from torch import Tensor, nn

from minipar.comm import copy_to_region, gather_from_region, reduce_from_region
from minipar.manifest import Cut
from minipar.mesh import Axis


class ColumnParallelLinear(nn.Module):
    """``y = x Wᵀ + b`` where each rank of `axis` holds an equal part of the outputs.

    Made from the whole `weight` ``[out, in]`` and `bias` ``[out]`` (or None), of which it keeps this
    rank's part. Where several matrices are fused along `out`, `sections` gives the outputs of each.
    Takes ``[…, in]``, the same on every rank, and gives ``[…, out/n]``, or ``[…, out]`` with `gather_output`.

    Backward sends one all-reduce of the input's gradient (see `minipar.tensor.matmul`).
    Raises `ValueError` where a section does not divide by the axis's size. Source: Shoeybi et al. 2019, §3.
    """

    def __init__(
        self,
        weight: Tensor,
        bias: Tensor | None,
        axis: Axis,
        sections: Sequence[int] | None = None,
        gather_output: bool = False,
    ) -> None:
        super().__init__()
        cut = Cut(0, tuple(sections or (weight.shape[0],)))
        self.axis, self.gather_output = axis, gather_output
        self.cuts = {"weight": cut, "bias": cut}
        self.weight = nn.Parameter(cut.take(weight, axis.rank, axis.size))
        self.bias = None if bias is None else nn.Parameter(cut.take(bias, axis.rank, axis.size))

    def forward(self, x: Tensor) -> Tensor:
        """Multiply by this rank's part; with `gather_output` put the parts of each section together again."""
        y = F.linear(copy_to_region(x, self.axis), self.weight, self.bias)
        if not self.gather_output:
            return y
        parts = gather_from_region(y, self.axis).chunk(self.axis.size, -1)
        return Cut(-1, self.cuts["weight"].sections).join(parts)


class RowParallelLinear(nn.Module):
    """``y = x Wᵀ + b`` where each rank of `axis` holds an equal part of the inputs.

    Made from the whole `weight` ``[out, in]`` and `bias` ``[out]`` (or None). Takes ``[…, in/n]``, this
    rank's part of the input, and gives ``[…, out]``, the same on every rank.

    Forward sends one all-reduce. The bias is whole on every rank and added once, after the sum: its
    gradient is then whole everywhere too. Source: Shoeybi et al. 2019, §3.
    """

    def __init__(self, weight: Tensor, bias: Tensor | None, axis: Axis) -> None:
        super().__init__()
        cut = Cut(1, (weight.shape[1],))
        self.axis = axis
        self.cuts = {"weight": cut}
        self.weight = nn.Parameter(cut.take(weight, axis.rank, axis.size))
        self.bias = None if bias is None else nn.Parameter(bias.clone())

    def forward(self, x: Tensor) -> Tensor:
        """Multiply by this rank's part, add the ranks' results, then the bias."""
        y = reduce_from_region(F.linear(x, self.weight), self.axis)
        return y if self.bias is None else y + self.bias
