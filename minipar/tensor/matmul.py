"""A matrix multiplication split over n ranks: by the columns of w, by its rows, by both in turn, or over a grid.

Sizes: x is ``[batch, in]`` (any leading dimensions), w is ``[in, out]``, y is ``[batch, out]``.
Source: Shoeybi et al. 2019 (Megatron-LM), §3; for the grid van de Geijn and Watts 1997 (SUMMA).
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from minipar.comm import broadcast, copy_to_region, gather_from_region, reduce, reduce_from_region
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


def column_row_matmul(x: Tensor, w_columns: Tensor, v_rows: Tensor, axis: Axis) -> Tensor:
    """``(x w) v`` with w cut by columns and v by rows: what one leaves split, the other takes split.

    x: ``[batch, in]``, the same on every rank. w_columns: ``[in, middle/n]``. v_rows: ``[middle/n, out]``.
    Returns ``[batch, out]``, the same on every rank.

    Forward: one all-reduce of batch · out numbers, at the end. Backward: one of batch · in, at the start.
    """
    return row_parallel_matmul(column_parallel_matmul(x, w_columns, axis), v_rows, axis)


def summa_matmul(a: Tensor, b: Tensor, row: Axis, column: Axis) -> Tensor:
    """``c = a b`` on a grid of R × C ranks, where every rank has one block of a, of b and of c.

    row: the axis along which the ranks of one row of the grid lie (C of them); column: the same for a column (R).
    a: ``[M/R, K/C]``, b: ``[K/R, N/C]``; returns ``[M/R, N/C]``. No rank ever holds a whole row or column of blocks.

    The inner dimension is taken in lcm(R, C) panels. For each, the ranks that have it broadcast their panel of a
    along the rows and of b along the columns, and every rank adds their product to its block of c.
    Forward: broadcasts of M/R · K numbers along the row and K · N/C along the column. Backward: for each of the two
    gradients one set of broadcasts again, and sums (reduce) of the same size to the rank whose block it is.

    Raises `ValueError`, before it communicates, where the blocks do not fit each other or the grid.
    """
    inner = a.shape[1] * row.size
    if b.shape[0] * column.size != inner:
        raise ValueError(
            f"a's blocks {tuple(a.shape)} on {row.size} columns have an inner dimension of {inner}, "
            f"b's {tuple(b.shape)} on {column.size} rows one of {b.shape[0] * column.size}"
        )
    result: Tensor = _Summa.apply(a, b, row, column)  # type: ignore[no-untyped-call]
    return result


class _Panels:
    """The inner dimension in panels: where each lies in the blocks, and broadcasting one of them."""

    def __init__(self, a: Tensor, b: Tensor, row: Axis, column: Axis) -> None:
        self.a, self.b, self.row, self.column = a, b, row, column
        self.count = math.lcm(row.size, column.size)
        self.width = a.shape[1] * row.size // self.count

    def place(self, panel: int, axis: Axis) -> tuple[int, slice]:
        """The index on `axis` of the rank that has the panel, and where in its block."""
        owner, within = divmod(panel, self.count // axis.size)
        return owner, slice(within * self.width, (within + 1) * self.width)

    def of_a(self, panel: int) -> Tensor:
        """The panel of a, ``[M/R, width]``, on every rank of the row."""
        owner, where = self.place(panel, self.row)
        mine = self.a[:, where] if owner == self.row.rank else self.a.new_empty(len(self.a), self.width)
        return broadcast(mine, self.row, owner)

    def of_b(self, panel: int) -> Tensor:
        """The panel of b, ``[width, N/C]``, on every rank of the column."""
        owner, where = self.place(panel, self.column)
        mine = self.b[where] if owner == self.column.rank else self.b.new_empty(self.width, self.b.shape[1])
        return broadcast(mine, self.column, owner)


class _Summa(torch.autograd.Function):
    """``c = a b``; ``∂a = ∂c bᵀ`` and ``∂b = aᵀ ∂c`` are the same dance with a sum in place of a broadcast."""

    @staticmethod
    def forward(ctx: Any, a: Tensor, b: Tensor, row: Axis, column: Axis) -> Tensor:
        ctx.save_for_backward(a, b)
        ctx.axes = row, column
        panels = _Panels(a, b, row, column)
        c = a.new_zeros(a.shape[0], b.shape[1])
        for panel in range(panels.count):
            c.addmm_(panels.of_a(panel), panels.of_b(panel))
        return c

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, Tensor | None, None, None]:
        a, b = ctx.saved_tensors
        row, column = ctx.axes
        panels = _Panels(a, b, row, column)
        a_wants, b_wants, *_ = ctx.needs_input_grad
        of_a = torch.empty_like(a) if a_wants else None
        of_b = torch.empty_like(b) if b_wants else None
        for panel in range(panels.count):
            if of_a is not None:
                owner, where = panels.place(panel, row)
                if (summed := reduce(gradient @ panels.of_b(panel).T, row, owner)) is not None:
                    of_a[:, where] = summed
            if of_b is not None:
                owner, where = panels.place(panel, column)
                if (summed := reduce(panels.of_a(panel).T @ gradient, column, owner)) is not None:
                    of_b[where] = summed
        return of_a, of_b, None, None
