"""A matrix multiplication over a grid of ranks, and the column-row pair."""

from __future__ import annotations

from math import lcm

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

import minipar
from minipar import Mesh
from minipar.comm import Traffic
from minipar.tensor import column_row_matmul, summa_matmul
from tests.minipar.equality import assert_close, few

GRIDS = [(1, 1), (2, 2), (1, 2), (2, 1), (1, 4), (4, 1), (2, 3), (3, 2)]
ITEM = 8


def drawn(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def block(whole: Tensor, mesh: Mesh) -> Tensor:
    """The block of a matrix that this rank has: its row of the grid is its dp, its column its tp."""
    return whole.chunk(mesh.dp.size, 0)[mesh.dp.rank].chunk(mesh.tp.size, 1)[mesh.tp.rank].clone()


def multiplied(m: int, k: int, n: int, mesh: Mesh) -> tuple[list[Tensor], list[Traffic]]:
    """This rank's blocks of the product and of both gradients, and what was sent."""
    a, b = (block(t, mesh).requires_grad_() for t in (drawn(m, k), drawn(k, n, seed=1)))
    with mesh.ledger.page() as page:
        c = summa_matmul(a, b, row=mesh.tp, column=mesh.dp)
        c.backward(block(drawn(m, n, seed=2), mesh))
    return [c.detach(), a.grad, b.grad], page.rows()


def together(blocks: list[Tensor], rows: int, columns: int) -> Tensor:
    return torch.cat([torch.cat(blocks[r * columns : (r + 1) * columns], 1) for r in range(rows)])


@pytest.mark.parametrize(("rows", "columns"), GRIDS)
@few
@given(sizes=st.lists(st.tuples(*[st.integers(1, 3)] * 3), min_size=3, max_size=3))
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

    def on_rank() -> dict[tuple[str, str], int]:
        ledger = multiplied(m, k, n, Mesh(dp=rows, tp=columns))[1]
        return {(row.operation, row.axis): row.bytes for row in ledger}

    along_row, along_column = m // rows * k * ITEM, k * (n // columns) * ITEM
    expected = {("broadcast", "tp"): 2 * along_row, ("reduce", "tp"): along_row} if columns > 1 else {}
    if rows > 1:
        expected |= {("broadcast", "dp"): 2 * along_column, ("reduce", "dp"): along_column}
    assert minipar.run(on_rank, rows * columns, timeout=20, device="cpu") == [expected] * (rows * columns)


def test_blocks_that_do_not_fit_are_refused_before_anything_is_sent() -> None:
    def on_rank() -> int:
        mesh = Mesh(dp=2, tp=3)
        with pytest.raises(ValueError, match=r"inner dimension of 6.*one of 8"):
            summa_matmul(drawn(2, 2), drawn(4, 2), mesh.tp, mesh.dp)
        return len(mesh.ledger.rows())

    assert minipar.run(on_rank, 6, timeout=20, device="cpu") == [0] * 6


@pytest.mark.parametrize("tp", [1, 2, 4])
def test_the_column_row_pair_equals_unsplit_with_one_all_reduce_each_way(tp: int) -> None:
    x, w, v, dy = drawn(3, 4), drawn(4, 8, seed=1), drawn(8, 6, seed=2), drawn(3, 6, seed=3)

    def on_rank() -> tuple[list[Tensor], list[Traffic]]:
        mesh = Mesh(tp=tp)
        leaves = [x.clone(), w.chunk(tp, 1)[mesh.tp.rank].clone(), v.chunk(tp, 0)[mesh.tp.rank].clone()]
        leaves = [leaf.requires_grad_() for leaf in leaves]
        y = column_row_matmul(*leaves, mesh.tp)
        y.backward(dy)
        return [y.detach(), *(leaf.grad for leaf in leaves)], mesh.ledger.rows()

    middle = x @ w
    expected = [middle @ v, dy @ v.T @ w.T, x.T @ (dy @ v.T), middle.T @ dy]
    for rank, ((y, of_x, of_w, of_v), rows) in enumerate(minipar.run(on_rank, tp, timeout=20, device="cpu")):
        mine = [*expected[:2], expected[2].chunk(tp, 1)[rank], expected[3].chunk(tp, 0)[rank]]
        assert_close([y, of_x, of_w, of_v], mine)
        total = (3 * 6 + 3 * 4) * ITEM
        assert rows == ([Traffic("all-reduce", "tp", tp, 2, total)] if tp > 1 else [])
