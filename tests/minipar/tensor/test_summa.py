"""A matrix multiplication over a grid of ranks, and the column-row pair."""

from __future__ import annotations

from math import lcm

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

import minipar
from minipar import Mesh
from minipar.ledger import Traffic
from minipar.tensor import column_row_matmul, summa_matmul
from tests.minipar.equality import assert_close, few

GRIDS = [(1, 1), (2, 2), (1, 2), (2, 1), (1, 4), (4, 1), (2, 3), (3, 2)]
ITEM = 8


def drawn(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def block(whole: Tensor, mesh: Mesh) -> Tensor:
    """The block of a matrix that this rank has: its row of the grid is its dp, its column its tp."""
    return whole.chunk(mesh.dp.size, 0)[mesh.dp.rank].chunk(mesh.tp.size, 1)[mesh.tp.rank].clone()


def multiplied(m: int, k: int, n: int, mesh: Mesh) -> tuple[list[Tensor], list[list[Traffic]]]:
    """This rank's blocks of the product and of both gradients, and what was sent forward and backward."""
    a, b = (block(t, mesh).requires_grad_() for t in (drawn(m, k), drawn(k, n, seed=1)))
    with mesh.ledger.page() as forward:
        c = summa_matmul(a, b, row=mesh.tp, column=mesh.dp)
    with mesh.ledger.page() as backward:
        c.backward(block(drawn(m, n, seed=2), mesh))
    return [c.detach(), a.grad, b.grad], [forward.rows(), backward.rows()]


def together(blocks: list[Tensor], rows: int, columns: int) -> Tensor:
    return torch.cat([torch.cat(blocks[r * columns : (r + 1) * columns], 1) for r in range(rows)])


@pytest.mark.parametrize(("rows", "columns"), GRIDS)
@settings(few, max_examples=2)  # each starts ranks, and has many sizes
@given(sizes=st.lists(st.tuples(*[st.integers(1, 3)] * 3), min_size=6, max_size=6))
def test_every_grid_gives_the_unsplit_product_and_gradients(rows: int, columns: int, sizes: list) -> None:
    shapes = [(rows * i, lcm(rows, columns) * j, columns * l) for i, j, l in sizes]  # noqa: E741

    def on_rank() -> list[list[Tensor]]:
        mesh = Mesh(dp=rows, tp=columns)
        return [multiplied(*shape, mesh)[0] for shape in shapes]

    everyone = minipar.run(on_rank, rows * columns, timeout=30, device="cpu")
    for i, (m, k, n) in enumerate(shapes):
        a, b, dc = drawn(m, k), drawn(k, n, seed=1), drawn(m, n, seed=2)
        ours = [together([rank[i][which] for rank in everyone], rows, columns) for which in range(3)]
        assert_close(ours, [a @ b, dc @ b.T, a.T @ dc])


@pytest.mark.parametrize(("rows", "columns"), [(2, 2), (2, 3), (1, 4)])
def test_the_traffic_is_what_the_docstring_says(rows: int, columns: int) -> None:
    m, k, n = 6, 12, 12

    def on_rank() -> list[dict[tuple[str, str], tuple[int, int]]]:
        pages = multiplied(m, k, n, Mesh(dp=rows, tp=columns))[1]
        return [{(row.operation, row.axis): (row.calls, row.bytes) for row in page} for page in pages]

    panels = lcm(rows, columns)
    lines = {"tp": (panels, m // rows * k * ITEM), "dp": (panels, k * (n // columns) * ITEM)}
    lines = {axis: line for axis, line in lines.items() if (columns if axis == "tp" else rows) > 1}
    forward = {("broadcast", axis): line for axis, line in lines.items()}
    expected = [forward, forward | {("reduce", axis): line for axis, line in lines.items()}]
    assert minipar.run(on_rank, rows * columns, timeout=20, device="cpu") == [expected] * (rows * columns)


@pytest.mark.parametrize("frozen", [0, 1])
def test_a_frozen_matrix_costs_no_gradient(frozen: int) -> None:
    whole, dc = [drawn(4, 4), drawn(4, 4, seed=1)], drawn(4, 4, seed=2)

    def on_rank() -> tuple[list[Tensor | None], set[str]]:
        mesh = Mesh(dp=2, tp=2)
        blocks = [block(t, mesh).requires_grad_(i != frozen) for i, t in enumerate(whole)]
        c = summa_matmul(*blocks, mesh.tp, mesh.dp)
        with mesh.ledger.page() as page:
            c.backward(block(dc, mesh))
        return [t.grad for t in blocks], {row.axis for row in page.rows() if row.operation == "reduce"}

    everyone = minipar.run(on_rank, 4, timeout=20, device="cpu")
    assert [axes for _, axes in everyone] == [{"tp"} if frozen else {"dp"}] * 4
    assert all(gradients[frozen] is None for gradients, _ in everyone)
    ours = together([gradients[1 - frozen] for gradients, _ in everyone], 2, 2)
    assert_close([ours], [dc @ whole[1].T if frozen else whole[0].T @ dc])


def test_blocks_that_do_not_fit_are_refused_before_anything_is_sent() -> None:
    def on_rank() -> int:
        mesh = Mesh(dp=2, tp=3)
        for blocks, says in (
            ([(2, 2), (4, 2)], r"inner dimension of 6.*one of 8"),
            ([(2, 2), (2, 2)], r"inner dimension of 6.*one of 4"),  # they fit each other, but not on this grid
        ):
            with pytest.raises(ValueError, match=says):
                summa_matmul(*(drawn(*shape) for shape in blocks), mesh.tp, mesh.dp)
        return len(mesh.ledger.rows())

    assert minipar.run(on_rank, 6, timeout=20, device="cpu") == [0] * 6


@pytest.mark.parametrize("tp", [1, 2, 4])
def test_the_column_row_pair_equals_unsplit_with_one_all_reduce_each_way(tp: int) -> None:
    x, w, v, dy = drawn(3, 4), drawn(4, 8, seed=1), drawn(8, 6, seed=2), drawn(3, 6, seed=3)

    def on_rank() -> tuple[list[Tensor], list[list[Traffic]]]:
        mesh = Mesh(tp=tp)
        leaves = [x.clone(), w.chunk(tp, 1)[mesh.tp.rank].clone(), v.chunk(tp, 0)[mesh.tp.rank].clone()]
        leaves = [leaf.requires_grad_() for leaf in leaves]
        with mesh.ledger.page() as forward:
            y = column_row_matmul(*leaves, mesh.tp)
        with mesh.ledger.page() as backward:
            y.backward(dy)
        return [y.detach(), *(leaf.grad for leaf in leaves)], [forward.rows(), backward.rows()]

    middle = x @ w
    expected = [middle @ v, dy @ v.T @ w.T, x.T @ (dy @ v.T), middle.T @ dy]
    for rank, ((y, of_x, of_w, of_v), pages) in enumerate(minipar.run(on_rank, tp, timeout=20, device="cpu")):
        mine = [*expected[:2], expected[2].chunk(tp, 1)[rank], expected[3].chunk(tp, 0)[rank]]
        assert_close([y, of_x, of_w, of_v], mine)
        assert pages == [[Traffic("all-reduce", "tp", tp, 1, n * ITEM)] if tp > 1 else [] for n in (3 * 6, 3 * 4)]
