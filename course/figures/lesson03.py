"""Lesson 03: a product cut each way on real ranks, beside the whole one, with what was sent for it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from html import escape
from typing import NamedTuple

import torch
from IPython.display import HTML
from torch import Tensor

from course.widgets.home import STYLE
from course.widgets.predict import Prediction
from course.widgets.units import bytes_in_words
from minipar import Mesh, comm, run
from minipar.ledger import Ledger, Traffic
from minipar.mesh import Axis
from minipar.tensor import column_row_matmul, summa_matmul
from minipar.words import _

LESSON = "03-matmul"
RANKS = 4
BATCH, FEATURES, WIDE = 16, 64, 128  # of x [batch, in], w [in, wide], v [wide, in]
SINGLE = 4  # bytes of a number in float32

Way = Callable[[Tensor, Tensor, Tensor, Axis], Tensor]


def predict_backward(batch: int = 64, features: int = 1024) -> Prediction:
    """Ask what a column split sends in its backward."""
    sent = Traffic("all-reduce", "tp", RANKS, 1, SINGLE * batch * features).sent
    question = _(
        "`x` is [{batch}, {features:,}] in float32, and `w` is cut by columns over {ranks} ranks. `dx` is needed "
        "on every "
        "rank. How many KiB does each rank send in the backward?"
    ).format(batch=batch, features=features, ranks=RANKS)
    because = _(
        "The {ranks} summands of `dx` are all-reduced. It is as large as `x`, {size}, and a ring sends "
        "2 · {less}/{ranks} of it. The backward is not free."
    ).format(ranks=RANKS, size=bytes_in_words(SINGLE * batch * features), less=RANKS - 1)
    return Prediction(f"{LESSON}/backward", question, "KiB", sent / 1024, because)


def predict_pair() -> Prediction:
    """Ask how many all-reduces a feed-forward with two cuts needs in its forward."""
    question = _(
        "`gelu(x @ w) @ v` over {ranks} ranks: two products, both of them cut. How many all-reduces does the "
        "forward need, "
        "at least?"
    ).format(ranks=RANKS)
    because = _(
        "`w` by columns leaves columns of the middle, and `v` by rows wants just those. Only the end must be summed."
    )
    return Prediction(f"{LESSON}/pair", question, "", 1, because)


def line_sent(batch: int, features: int, ranks: int = RANKS) -> float:
    """Bytes that each rank sends forward for ``x w v`` on a line, columns then rows, in float32: one all-reduce."""
    return Traffic("all-reduce", "tp", ranks, 1, SINGLE * batch * features).sent


def grid_sent(batch: int, features: int, side: int = 2) -> float:
    """Bytes that each rank sends forward for the same by SUMMA on a square grid, in float32; w is 4 times as wide.

    For each product its blocks of the left matrix go along the rows and those of the right one along the columns.
    """
    wide = 4 * features
    blocks = batch * features, features * wide, batch * wide, wide * features
    return sum(Traffic("broadcast", "tp", side, 1, SINGLE * block // side).sent for block in blocks)


def predict_grid(batch: int = 2048, features: int = 4096) -> Prediction:
    """Ask how much more a grid sends than a line in a usual feed-forward."""
    line, grid = line_sent(batch, features), grid_sent(batch, features)
    question = _(
        "A feed-forward `x @ w @ v` for {batch:,} tokens, {features:,} features, four times as wide inside. On a "
        "line of "
        "{ranks} ranks, columns then rows, each rank sends {line} forward. On a 2 × 2 grid, how many times as much?"
    ).format(batch=batch, features=features, ranks=RANKS, line=bytes_in_words(line))
    because = _("{grid}. More than half of that are blocks of the weights, which a line never sends.").format(
        grid=bytes_in_words(grid)
    )
    return Prediction(f"{LESSON}/grid", question, _("times"), round(grid / line, 2), because)


class Beside(NamedTuple):
    """One cut beside the whole product: relative errors, and bytes that each rank sent forward and backward."""

    result: float
    gradients: float
    forward: float
    backward: float


def beside_whole(*ways: Way) -> HTML:
    """Run each cut on real ranks, forward and backward, and show it beside the whole product."""
    rows = [(way.__name__, _worst(run(_measure, RANKS, way))) for way in ways]
    heads = (
        _("cut"),
        _("error of the result"),
        _("error of the gradients"),
        _("each rank sends, forward"),
        _("backward"),
    )
    cells = [
        (name, f"{one.result:.0e}", f"{one.gradients:.0e}", bytes_in_words(one.forward), bytes_in_words(one.backward))
        for name, one in rows
    ]
    return table(heads, cells)


def _worst(measured: Sequence[Beside]) -> Beside:
    return Beside(*map(max, zip(*measured, strict=True)))


def _measure(way: Way) -> Beside:
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
    pairs = [(ours.grad, theirs.grad) for ours, theirs in zip(split, whole, strict=True) if theirs.grad is not None]
    gradients = max(_error(_joined(ours, theirs, mesh.tp), theirs) for ours, theirs in pairs)
    return Beside(_error(y, wanted), gradients, _sent(forward), _sent(backward))


def _joined(ours: Tensor | None, theirs: Tensor, tp: Axis) -> Tensor:
    """A gradient whole: put together, where each rank has its own shard and zeros elsewhere."""
    assert ours is not None
    return ours if _error(ours, theirs) < 1e-6 else comm.all_reduce(ours, tp)


def _error(ours: Tensor, theirs: Tensor) -> float:
    return ((ours - theirs).abs().max() / theirs.abs().max()).item()


def _sent(page: Ledger) -> float:
    return sum(row.sent for row in page.rows())


def grid_beside_line(samples: Sequence[int], features: int = 128) -> HTML:
    """Run ``x w v`` on a line and on a grid of real ranks for each number of samples, and show what each rank sent."""
    cells = []
    for batch in samples:
        line, grid = (_worst(run(measure, RANKS, batch, features)) for measure in (_on_line, _on_grid))
        times = _("{times:.2f} times").format(times=grid.forward / line.forward)
        error = f"{max(line.result, grid.result):.0e}"
        cells.append((f"{batch:,}", bytes_in_words(line.forward), bytes_in_words(grid.forward), times, error))
    heads = (
        _("samples"),
        _("line of 4: each rank sends"),
        _("grid of 2 × 2: each rank sends"),
        _("that is"),
        _("error beside the whole"),
    )
    return table(heads, cells)


def _product(batch: int, features: int) -> tuple[Tensor, Tensor, Tensor]:
    draw = torch.Generator().manual_seed(0)
    sizes = (batch, features), (features, 4 * features), (4 * features, features)
    x, w, v = (torch.randn(*size, generator=draw, dtype=torch.float64) for size in sizes)
    return x, w, v


def _on_line(batch: int, features: int) -> Beside:
    mesh = Mesh(tp=RANKS)
    tp, (x, w, v) = mesh.tp, _product(batch, features)
    with mesh.ledger.page() as page:
        y = column_row_matmul(x, w.chunk(RANKS, 1)[tp.rank], v.chunk(RANKS, 0)[tp.rank], tp)
    return Beside(_error(y, x @ w @ v), 0.0, _sent(page), 0.0)


def _on_grid(batch: int, features: int) -> Beside:
    mesh = Mesh(dp=2, tp=2)
    row, column, (x, w, v) = mesh.tp, mesh.dp, _product(batch, features)

    def block(whole: Tensor) -> Tensor:
        return whole.chunk(column.size, 0)[column.rank].chunk(row.size, 1)[row.rank]

    with mesh.ledger.page() as page:
        y = summa_matmul(summa_matmul(block(x), block(w), row, column), block(v), row, column)
    return Beside(_error(y, block(x @ w @ v)), 0.0, _sent(page), 0.0)


def table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> HTML:
    """A table; every text in it is escaped."""
    head = "".join(f"<th scope='col'>{escape(text)}</th>" for text in heads)
    body = "".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    table = f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
    return HTML(f"<style>{STYLE}</style><div class='course-home'>{table}</div>")  # type: ignore[no-untyped-call]
