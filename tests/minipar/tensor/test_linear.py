from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

import minipar
from minipar import Mesh
from minipar.comm import slices
from minipar.ledger import Traffic
from minipar.manifest import Section, gather, manifest
from minipar.tensor import ColumnParallelLinear, RowParallelLinear
from tests.minipar.equality import assert_close, few


class Case(NamedTuple):
    """An unsplit layer's input, weight, bias (or None) and output's gradient, and its sections of outputs."""

    x: Tensor
    weight: Tensor
    bias: Tensor | None
    dy: Tensor
    sections: tuple[int, ...]

    def unsplit(self) -> tuple[Tensor, ...]:
        """The output and the gradients of input, weight and bias."""
        leaves = [t.clone().requires_grad_() for t in (self.x, self.weight, self.bias) if t is not None]
        y = nn.functional.linear(*leaves)
        return (y.detach(), *torch.autograd.grad(y, leaves, self.dy))


def case(leading: list[int], inputs: int, sections: list[int], bias: bool, seed: int) -> Case:
    """Sizes are multiples of four, so that every tp fits."""
    stream = torch.Generator().manual_seed(seed)

    def draw(*shape: int) -> Tensor:
        return torch.randn(shape, generator=stream, dtype=torch.float64)

    inside, outside = 4 * inputs, 4 * sum(sections)
    x, weight, dy = draw(*leading, inside), draw(outside, inside), draw(*leading, outside)
    return Case(x, weight, draw(outside) if bias else None, dy, tuple(4 * s for s in sections))


def drawn(most_sections: int) -> st.SearchStrategy[list[Case]]:
    small = st.integers(1, 3)
    leading, sections = st.lists(small, max_size=2), st.lists(small, min_size=1, max_size=most_sections)
    one = st.builds(case, leading, small, sections, st.booleans(), st.integers(0, 2**32))
    return st.lists(one, min_size=2, max_size=5)


FUSED = case([2, 3], inputs=2, sections=[2, 2, 2], bias=True, seed=0)


def on_ranks(kind: str, cases: list[Case]) -> Iterator[tuple[Case, int, int, list[Tensor], list[list[Traffic]]]]:
    """Apply a layer on four ranks, once with each tp that fits them.

    Yields for each case, tp and rank: the case, tp, the rank's place on the axis; the output and the
    gradients of input, and of weight and bias gathered; the traffic forward and backward.
    """
    plain = [tuple(case) for case in cases]  # so that no rank has to import this file

    def on_rank() -> list[tuple[Any, ...]]:
        results = []
        for tp in (1, 2, 4):
            mesh = Mesh(dp=4 // tp, tp=tp)
            axis, ledger = mesh.tp, mesh.ledger
            for i, (x, weight, bias, dy, sections) in enumerate(plain):
                if kind == "row":
                    layer, x = RowParallelLinear(weight, bias, axis), slices(x, axis, -1)[axis.rank]
                else:
                    layer = ColumnParallelLinear(
                        weight, bias, axis, [Section(n) for n in sections], gather_output=kind == "gathered"
                    )
                if kind == "column":
                    dy = torch.cat([slices(piece, axis, -1)[axis.rank] for piece in dy.split(sections, -1)], -1)
                x = x.clone().requires_grad_()
                with ledger.page() as forward:
                    y = layer(x)
                with ledger.page() as backward:
                    y.backward(dy)
                gradients = [(name, parameter.grad) for name, parameter in layer.named_parameters()]
                whole = gather(gradients, manifest(layer), axis).values()
                results.append((i, tp, axis.rank, [y.detach(), x.grad, *whole], [forward.rows(), backward.rows()]))
        return results

    for results in minipar.run(on_rank, 4, timeout=20, device="cpu"):
        assert len(results) == 3 * len(cases)
        for i, *result in results:
            yield (cases[i], *result)


@few
@given(drawn(most_sections=3))
def test_a_column_linear_gives_each_rank_its_part_of_every_section(cases: list[Case]) -> None:
    for case, tp, rank, ours, _ in on_ranks("column", cases):
        y, *gradients = case.unsplit()
        part = torch.cat([piece.chunk(tp, -1)[rank] for piece in y.split(case.sections, -1)], -1)
        assert_close(ours, [part, *gradients])


@few
@given(drawn(most_sections=3))
def test_a_gathered_column_linear_equals_unsplit(cases: list[Case]) -> None:
    for case, _, _, ours, _ in on_ranks("gathered", cases):
        assert_close(ours, case.unsplit())


@few
@given(drawn(most_sections=1))
def test_a_row_linear_equals_unsplit_bias_and_all(cases: list[Case]) -> None:
    for case, tp, rank, ours, _ in on_ranks("row", cases):
        y, dx, *gradients = case.unsplit()
        assert_close(ours, [y, dx.chunk(tp, -1)[rank], *gradients])


def test_a_row_linears_bias_is_added_once_and_its_gradient_is_whole() -> None:
    ones = Case(torch.zeros(5, 4), torch.zeros(4, 4), torch.ones(4), torch.ones(5, 4), (4,))
    for *_, (y, _, _, bias_gradient), _ in on_ranks("row", [ones]):
        assert y.tolist() == [[1.0] * 4] * 5
        assert bias_gradient.tolist() == [5.0] * 4


@pytest.mark.parametrize(
    ("kind", "forward", "backward"),
    [
        ("column", [], [("all-reduce", FUSED.x)]),
        ("gathered", [("all-gather", FUSED.dy)], [("all-reduce", FUSED.x)]),
        ("row", [("all-reduce", FUSED.dy)], []),
    ],
)
def test_the_traffic_is_that_of_the_matmuls(kind: str, forward: list, backward: list) -> None:
    for _, tp, _, _, traffic in on_ranks(kind, [FUSED]):
        wanted = [
            [Traffic(operation, "tp", tp, 1, 8 * about.numel()) for operation, about in way]
            for way in (forward, backward)
        ]
        assert traffic == (wanted if tp > 1 else [[], []])


def test_a_layer_has_its_own_copy_of_what_it_was_made_from() -> None:
    axis = Mesh().tp
    for make in (ColumnParallelLinear, RowParallelLinear):
        weight, bias = torch.ones(4, 4), torch.ones(4)
        layer = make(weight, bias, axis)
        weight.zero_(), bias.zero_()
        assert all(bool((parameter == 1).all()) for parameter in layer.parameters())


def test_what_does_not_divide_is_refused() -> None:
    def on_rank() -> list[str]:
        axis, messages = Mesh(tp=4).tp, []
        for make in (
            lambda: ColumnParallelLinear(torch.zeros(6, 8), None, axis),
            lambda: ColumnParallelLinear(torch.zeros(16, 8), None, axis, sections=(Section(8), Section(6), Section(2))),
            lambda: RowParallelLinear(torch.zeros(8, 6), None, axis),
        ):
            try:
                make()
            except ValueError as error:
                messages.append(str(error))
        return messages

    assert minipar.run(on_rank, 4, timeout=20) == [["a dimension of 6 cannot be cut into 4 equal parts (tp=4)"] * 3] * 4


def test_the_backward_communicates_while_it_computes_the_weights_gradient() -> None:
    def on_rank() -> list[str]:
        layer = ColumnParallelLinear(torch.ones(4, 2), None, Mesh(tp=2).tp)
        y = layer(torch.ones(3, 2, requires_grad=True)).sum()
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
            y.backward()
        events = sorted(profile.events(), key=lambda event: event.time_range.start)
        return [event.name for event in events if event.name in ("aten::mm", "c10d::allreduce_")]

    order = ["aten::mm", "c10d::allreduce_", "aten::mm"]  # the input's gradient, its sum, the weight's gradient
    assert minipar.run(on_rank, 2, timeout=20, device="cpu") == [order] * 2


def test_it_runs_under_autocast() -> None:
    def on_rank() -> tuple[torch.dtype, torch.dtype]:
        layer = ColumnParallelLinear(torch.ones(4, 2), torch.ones(4), Mesh(tp=2).tp)
        with torch.autocast("cpu", torch.bfloat16):
            y = layer(torch.ones(3, 2, requires_grad=True))
        y.float().sum().backward()
        return y.dtype, layer.weight.grad.dtype

    assert minipar.run(on_rank, 2, timeout=20, device="cpu") == [(torch.bfloat16, torch.float32)] * 2
