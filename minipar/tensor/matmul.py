"""A matrix multiplication ``y = x w`` split over n ranks: by the columns of w, or by its rows.

Sizes: x is ``[batch, in]`` (any leading dimensions), w is ``[in, out]``, y is ``[batch, out]``.
Source: Shoeybi et al. 2019 (Megatron-LM), §3.
"""

from __future__ import annotations

from torch import Tensor

from minipar.comm import copy_to_region, gather_from_region, reduce_from_region
from minipar.mesh import Axis


def column_parallel_matmul(x: Tensor, w_columns: Tensor, axis: Axis, gather: bool = False) -> Tensor:
    """Each rank multiplies by its own columns of w, and so has those columns of y.

    x: ``[batch, in]``, the same on every rank. w_columns: ``[in, out/n]``, this rank's columns.
    Returns ``[batch, out/n]``, or with `gather` the whole ``[batch, out]`` on every rank.

    Forward: no communication; with `gather` one all-gather of batch · out numbers.
    Backward: the gradient of w's columns is local, xᵀ ∂y. The gradient of x is the sum over the ranks
    of ∂y w_columnsᵀ, as every rank used all of x: one all-reduce of batch · in numbers.
    """
    y = copy_to_region(x, axis) @ w_columns
    return gather_from_region(y, axis) if gather else y


def row_parallel_matmul(x_columns: Tensor, w_rows: Tensor, axis: Axis) -> Tensor:
    """Each rank multiplies its columns of x by its rows of w; the results are summands of y.

    x_columns: ``[batch, in/n]``, this rank's columns of x. w_rows: ``[in/n, out]``, its rows of w.
    Returns ``[batch, out]``, the sum, the same on every rank.

    Forward: one all-reduce of batch · out numbers. Backward: no communication, as ∂y is the same everywhere.
    """
    return reduce_from_region(x_columns @ w_rows, axis)
