"""The explorer of lesson 03: its pictures are whole, and its numbers are what the library sends."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import minipar
from course.widgets.matmul import (
    BATCH,
    COLUMNS,
    DEGREES,
    FEATURES,
    GRID,
    PAIR,
    ROWS,
    WIDE,
    grid_of,
    look,
    matmul,
    moved,
)
from minipar import Mesh
from minipar.tensor.matmul import column_parallel_matmul, column_row_matmul, row_parallel_matmul, summa_matmul

SVG = "{http://www.w3.org/2000/svg}"


@given(way=st.integers(0, 3), degree=st.integers(0, len(DEGREES) - 1))
def test_every_matrix_is_drawn_in_as_many_parts_as_there_are_ranks(way: int, degree: int) -> None:
    n = DEGREES[degree]
    picture = ElementTree.fromstring(look(way, degree).picture)
    boxes = [box for box in picture.iter(f"{SVG}rect") if box.get("stroke") == "currentColor"]
    whole, cut = {COLUMNS: (1, 2), ROWS: (0, 3), PAIR: (1, 4), GRID: (0, 3)}[way]
    assert len(boxes) == whole + cut * n
    for box in boxes:
        assert float(box.get("x", "")) >= 0
        assert float(box.get("x", "")) + float(box.get("width", "")) <= 900


def real(way: int) -> tuple[int, int, float]:
    """On a rank: bytes communicated in the forward and in the backward, and sent in both."""
    n = torch.distributed.get_world_size()
    rows, columns = grid_of(n)
    mesh = Mesh(dp=rows, tp=columns) if way == GRID else Mesh(tp=n)
    axis = mesh.tp
    x = torch.ones(BATCH, WIDE // n if way == ROWS else FEATURES, requires_grad=True)
    w = torch.ones(*((WIDE // n, FEATURES) if way == ROWS else (FEATURES, WIDE // n)), requires_grad=True)
    if way == GRID:
        x = torch.ones(BATCH // rows, FEATURES // columns, requires_grad=True)
        w = torch.ones(FEATURES // rows, WIDE // columns, requires_grad=True)
    with mesh.ledger.page() as forward:
        if way == COLUMNS:
            y = column_parallel_matmul(x, w, axis)
        elif way == ROWS:
            y = row_parallel_matmul(x, w, axis)
        elif way == GRID:
            y = summa_matmul(x, w, mesh.tp, mesh.dp)
        else:
            y = column_row_matmul(x, w, torch.ones(WIDE // n, FEATURES, requires_grad=True), axis)
    with mesh.ledger.page() as backward:
        torch.autograd.backward(y.sum())
    lines = [*forward.rows(), *backward.rows()]
    assert {line.operation for line in lines} == ({"broadcast", "reduce"} if way == GRID else {"all-reduce"})
    there, back = (sum(line.bytes for line in page.rows() if line.ranks > 1) for page in (forward, backward))
    return there, back, sum(line.sent for line in lines)


@pytest.mark.parametrize(("way", "degree"), [(COLUMNS, 1), (ROWS, 1), (PAIR, 2), (GRID, 1), (GRID, 2)])
def test_what_is_moved_is_what_the_library_sends(way: int, degree: int) -> None:
    ranks = DEGREES[degree]
    assert minipar.run(real, ranks, way, timeout=30, device="cpu") == [moved(way, ranks)] * ranks


def test_the_numbers_say_what_is_moved() -> None:
    columns, rows, grid = ([value for _, value in look(way, 2).facts] for way in (COLUMNS, ROWS, GRID))
    assert columns == ["4 MiB", "nothing", "all-reduce of dx, 256 KiB", "384 KiB"]
    assert rows == ["4 MiB", "all-reduce of y, 256 KiB", "nothing", "384 KiB"]
    # a rank's row has half of x, its column half of w: 128 KiB and 8 MiB; half of that is sent, thrice in all
    assert grid == ["4 MiB", "blocks, 8.12 MiB", "blocks and sums, 16.2 MiB", "12.2 MiB"]
    assert [value for _, value in look(GRID, 0).facts][1:] == ["nothing", "nothing", "0 B"]


def test_sliders_move_the_picture() -> None:
    explorer = matmul()
    before = explorer.picture
    explorer.values = {"way": PAIR, "degree": 3}
    assert explorer.picture != before
    assert "Columns, then rows, over 8 ranks" in explorer.picture
