"""What the ranks of lesson 03 do: a product cut some way, forward and backward, beside the whole one.

It stands apart from the pictures so that a rank need not import what only a notebook shows.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from minipar import Mesh, comm
from minipar.ledger import Ledger
from minipar.mesh import Axis
from minipar.tensor import column_row_matmul, summa_matmul

RANKS = 4
BATCH, FEATURES, WIDE = 16, 64, 128  # of x [batch, in], w [in, wide], v [wide, in]

Way = Callable[[Tensor, Tensor, Tensor, Axis], Tensor]


class Beside(NamedTuple):
    """One cut beside the whole product: relative errors, and bytes that each rank sent forward and backward."""

    result: float
    gradients: float
    forward: float
    backward: float


def measure(way: Way) -> Beside:
    """On a rank: the cut product with autograd, beside the whole one, in float64."""
    mesh = Mesh(tp=RANKS)
    draw = torch.Generator().manual_seed(0)
    sizes = (BATCH, FEATURES), (FEATURES, WIDE), (WIDE, FEATURES)
    whole = [torch.randn(*size, generator=draw, dtype=torch.float64, requires_grad=True) for size in sizes]
    split = [tensor.detach().clone().requires_grad_() for tensor in whole]
    with mesh.ledger.page() as forward:
        y = way(split[0], split[1], split[2], mesh.tp)
    wanted = whole[0] @ whole[1]
    if y.shape != wanted.shape:
        wanted = wanted @ whole[2]
    dy = torch.randn(y.shape, generator=draw, dtype=torch.float64)
    with mesh.ledger.page() as backward:
        torch.autograd.backward(y, dy)
    torch.autograd.backward(wanted, dy)
    pairs = [(ours.grad, theirs.grad) for ours, theirs in zip(split, whole, strict=True)]
    gradients = max(gradient_error(ours, theirs, mesh.tp) for ours, theirs in pairs if theirs is not None)
    return Beside(relative_error(y, wanted), gradients, sent(forward), sent(backward))


def gradient_error(ours: Tensor | None, theirs: Tensor, tp: Axis) -> float:
    """How far a rank's gradient is from the whole one, as a share of the largest entry.

    A rank may have a shard, and zeros elsewhere. What it has must be right, so summands are an error; and what no
    rank has is missing.
    """
    found = torch.zeros_like(theirs) if ours is None else ours
    here = found != 0
    anywhere = comm.all_reduce(here.to(theirs.dtype), tp) > 0
    wrong = torch.where(here | ~anywhere, found - theirs, 0)
    return (wrong.abs().max() / theirs.abs().max()).item()


def relative_error(ours: Tensor, theirs: Tensor) -> float:
    """The largest difference, as a share of the largest entry."""
    return ((ours - theirs).abs().max() / theirs.abs().max()).item()


def sent(page: Ledger) -> float:
    """Bytes that this rank put on the wire."""
    return sum(row.sent for row in page.rows())


def on_line(batch: int, features: int) -> Beside:
    """On a rank of four: ``x w v`` with w by columns and v by rows."""
    mesh = Mesh(tp=RANKS)
    tp = mesh.tp

    def columns(whole: Tensor) -> Tensor:
        return whole.chunk(RANKS, 1)[tp.rank]

    def rows(whole: Tensor) -> Tensor:
        return whole.chunk(RANKS, 0)[tp.rank]

    def same(whole: Tensor) -> Tensor:
        return whole

    return _product(
        mesh, (batch, features), lambda x, w, v: column_row_matmul(x, w, v, tp), (same, columns, rows, same)
    )


def on_grid(batch: int, features: int) -> Beside:
    """On a rank of 2 × 2: ``x w v`` with all three in blocks, by SUMMA."""
    mesh = Mesh(dp=2, tp=2)
    row, column = mesh.tp, mesh.dp

    def block(whole: Tensor) -> Tensor:
        return whole.chunk(column.size, 0)[column.rank].chunk(row.size, 1)[row.rank]

    def product(x: Tensor, w: Tensor, v: Tensor) -> Tensor:
        return summa_matmul(summa_matmul(x, w, row, column), v, row, column)

    return _product(mesh, (batch, features), product, (block, block, block, block))


def _product(
    mesh: Mesh,
    sizes: tuple[int, int],
    product: Callable[[Tensor, Tensor, Tensor], Tensor],
    shards: tuple[Callable[[Tensor], Tensor], ...],
) -> Beside:
    """On a rank: ``x w v`` from its shards of x, w and v, beside the same shard (the last) of the whole, in float64."""
    batch, features = sizes
    draw = torch.Generator().manual_seed(0)
    shapes = (batch, features), (features, 4 * features), (4 * features, features)
    whole = [torch.randn(*shape, generator=draw, dtype=torch.float64) for shape in shapes]
    dy = torch.randn(batch, features, generator=draw, dtype=torch.float64)
    *cuts, of_result = shards
    x, w, v = (cut(tensor).clone().requires_grad_() for cut, tensor in zip(cuts, whole, strict=True))
    with mesh.ledger.page() as forward:
        y = product(x, w, v)
    with mesh.ledger.page() as backward:
        torch.autograd.backward(y, of_result(dy).clone())
    ours = [tensor.grad for tensor in (x, w, v)]
    x, w, v = (tensor.requires_grad_() for tensor in whole)
    wanted = x @ w @ v
    torch.autograd.backward(wanted, dy)
    pairs = [
        (mine, cut(tensor.grad)) for mine, cut, tensor in zip(ours, cuts, whole, strict=True) if tensor.grad is not None
    ]
    gradients = max(relative_error(mine, theirs) for mine, theirs in pairs if mine is not None)
    return Beside(relative_error(y, of_result(wanted)), gradients, sent(forward), sent(backward))
