from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

import minipar
from minipar import Mesh
from minipar.comm import slices
from minipar.ledger import Traffic
from minipar.tensor import column_parallel_matmul, row_parallel_matmul
from tests.minipar.equality import assert_close, few


class Case(NamedTuple):
    """Unsplit x, w and the gradient of y = x w."""

    x: Tensor
    w: Tensor
    dy: Tensor

    def unsplit(self) -> tuple[Tensor, Tensor, Tensor]:
        """y and the gradients of x and w."""
        x, w = self.x.clone().requires_grad_(), self.w.clone().requires_grad_()
        y = x @ w
        return (y.detach(), *torch.autograd.grad(y, (x, w), self.dy))


def case(leading: list[int], inputs: int, outputs: int, seed: int) -> Case:
    """Sizes are multiples of four, so that every tp fits."""
    stream = torch.Generator().manual_seed(seed)
    shapes = (*leading, 4 * inputs), (4 * inputs, 4 * outputs), (*leading, 4 * outputs)
    return Case(*(torch.randn(shape, generator=stream, dtype=torch.float64) for shape in shapes))


cases = st.lists(
    st.builds(
        case, st.lists(st.integers(1, 4), max_size=2), st.integers(1, 4), st.integers(1, 4), st.integers(0, 2**32)
    ),
    min_size=2,
    max_size=5,
)
ONE = case([3, 2], inputs=2, outputs=3, seed=0)  # x is 3 × 2 × 8, w is 8 × 12


def on_ranks(split: str, cases: list[Case]) -> Iterator[tuple[Case, int, int, list[Tensor], list[list[Traffic]]]]:
    """Multiply on four ranks, once with each tp that fits them.

    Yields for each case, tp and rank: the case, tp, the rank's place on the axis; y and the gradients of
    x and w as this rank holds them; the traffic forward and backward.
    """
    plain = [tuple(case) for case in cases]  # so that no rank has to import this file

    def on_rank() -> list[tuple[Any, ...]]:
        results = []
        for tp in (1, 2, 4):
            mesh = Mesh(dp=4 // tp, tp=tp)
            axis, ledger = mesh.tp, mesh.ledger
            for i, (x, w, dy) in enumerate(plain):
                x = (slices(x, axis, -1)[axis.rank] if split == "row" else x).clone().requires_grad_()
                w = slices(w, axis, 0 if split == "row" else 1)[axis.rank].clone().requires_grad_()
                with ledger.page() as forward:
                    if split == "row":
                        y = row_parallel_matmul(x, w, axis)
                    else:
                        y = column_parallel_matmul(x, w, axis, gather=split == "gathered")
                with ledger.page() as backward:
                    y.backward(slices(dy, axis, -1)[axis.rank] if split == "column" else dy)
                results.append((i, tp, axis.rank, [y.detach(), x.grad, w.grad], [forward.rows(), backward.rows()]))
        return results

    for results in minipar.run(on_rank, 4, timeout=20, device="cpu"):
        assert len(results) == 3 * len(cases)
        for i, *result in results:
            yield (cases[i], *result)


@few
@given(cases)
def test_by_columns_equals_unsplit(cases: list[Case]) -> None:
    for case, tp, rank, ours, _ in on_ranks("column", cases):
        y, dx, dw = case.unsplit()
        assert_close(ours, [y.chunk(tp, -1)[rank], dx, dw.chunk(tp, 1)[rank]])


@few
@given(cases)
def test_by_columns_and_gathered_equals_unsplit(cases: list[Case]) -> None:
    for case, tp, rank, ours, _ in on_ranks("gathered", cases):
        y, dx, dw = case.unsplit()
        assert_close(ours, [y, dx, dw.chunk(tp, 1)[rank]])


@few
@given(cases)
def test_by_rows_equals_unsplit(cases: list[Case]) -> None:
    for case, tp, rank, ours, _ in on_ranks("row", cases):
        y, dx, dw = case.unsplit()
        assert_close(ours, [y, dx.chunk(tp, -1)[rank], dw.chunk(tp, 0)[rank]])


@pytest.mark.parametrize(
    ("split", "forward", "backward"),
    [
        ("column", [], [("all-reduce", ONE.x)]),
        ("gathered", [("all-gather", ONE.dy)], [("all-reduce", ONE.x)]),
        ("row", [("all-reduce", ONE.dy)], []),
    ],
)
def test_the_traffic_is_what_the_docstring_says(split: str, forward: list, backward: list) -> None:
    for _, tp, _, _, traffic in on_ranks(split, [ONE]):
        wanted = [
            [Traffic(operation, "tp", tp, 1, 8 * about.numel()) for operation, about in way]
            for way in (forward, backward)
        ]
        assert traffic == (wanted if tp > 1 else [[], []])
