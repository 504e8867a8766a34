"""The explorer of lesson 03: its pictures are whole, and its numbers are what the library sends."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import minipar
from course.widgets.matmul import BATCH, COLUMNS, DEGREES, FEATURES, PAIR, ROWS, WIDE, look, matmul
from course.widgets.units import bytes_in_words
from minipar import Mesh
from minipar.tensor.matmul import column_parallel_matmul, column_row_matmul, row_parallel_matmul

SVG = "{http://www.w3.org/2000/svg}"


@given(way=st.integers(0, 2), degree=st.integers(0, len(DEGREES) - 1))
def test_every_matrix_is_drawn_in_as_many_parts_as_there_are_ranks(way: int, degree: int) -> None:
    n = DEGREES[degree]
    picture = ElementTree.fromstring(look(way, degree).picture)
    boxes = [box for box in picture.iter(f"{SVG}rect") if box.get("stroke") == "currentColor"]
    whole, cut = {COLUMNS: (1, 2), ROWS: (0, 3), PAIR: (1, 4)}[way]
    assert len(boxes) == whole + cut * n
    for box in boxes:
        assert float(box.get("x", "")) >= 0
        assert float(box.get("x", "")) + float(box.get("width", "")) <= 900


def real(way: int) -> tuple[int, int, float]:
    """On a rank: bytes all-reduced in the forward and in the backward, and sent in both."""
    mesh = Mesh(tp=torch.distributed.get_world_size())
    axis, n = mesh.tp, mesh.tp.size
    x = torch.ones(BATCH, WIDE // n if way == ROWS else FEATURES, requires_grad=True)
    w = torch.ones(*((WIDE // n, FEATURES) if way == ROWS else (FEATURES, WIDE // n)), requires_grad=True)
    with mesh.ledger.page() as forward:
        if way == COLUMNS:
            y = column_parallel_matmul(x, w, axis)
        elif way == ROWS:
            y = row_parallel_matmul(x, w, axis)
        else:
            y = column_row_matmul(x, w, torch.ones(WIDE // n, FEATURES, requires_grad=True), axis)
    with mesh.ledger.page() as backward:
        torch.autograd.backward(y.sum())
    rows = [*forward.rows(), *backward.rows()]
    assert {row.operation for row in rows} == {"all-reduce"}
    there, back = (sum(row.bytes for row in page.rows()) for page in (forward, backward))
    return there, back, sum(row.sent for row in rows)


@pytest.mark.parametrize("way", [COLUMNS, ROWS, PAIR])
@pytest.mark.parametrize("degree", [1, 2])
def test_what_is_all_reduced_is_what_the_library_sends(way: int, degree: int) -> None:
    forward, backward, sent = minipar.run(real, DEGREES[degree], way, timeout=30, device="cpu")[0]
    facts = [value for _, value in look(way, degree).facts]
    assert facts[1:] == [
        bytes_in_words(forward) if forward else "nothing",
        bytes_in_words(backward) if backward else "nothing",
        bytes_in_words(sent),
    ]


def test_sliders_move_the_picture() -> None:
    explorer = matmul()
    before = explorer.picture
    explorer.values = {"way": PAIR, "degree": 3}
    assert explorer.picture != before
    assert "Columns, then rows, over 8 ranks" in explorer.picture
