from __future__ import annotations

import math
import os
import warnings
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import minipar
from minipar import Mesh, comm
from minipar.mesh import Coords, check_degrees, coords, fitting, rank_of, tp_spans_nodes

degree = st.integers(1, 6)


@given(degree, degree, degree)
def test_ranks_count_through_the_mesh_with_tp_innermost(dp: int, pp: int, tp: int) -> None:
    grid = [Coords(p, d, t) for p in range(pp) for d in range(dp) for t in range(tp)]
    assert [rank_of(at, dp, tp) for at in grid] == list(range(dp * pp * tp))
    assert [coords(rank, dp, tp) for rank in range(dp * pp * tp)] == grid


def test_rank_order_is_the_documented_formula() -> None:
    assert rank_of(Coords(pp=1, dp=2, tp=3), dp=4, tp=5) == (1 * 4 + 2) * 5 + 3
    assert coords(33, dp=4, tp=5) == Coords(pp=1, dp=2, tp=3)


@pytest.fixture(scope="module")
def grid() -> list[dict[str, Any]]:
    """What each rank of a 2 × 2 × 2 mesh sees."""

    def facts() -> dict[str, Any]:
        mesh = Mesh(dp=2, pp=2, tp=2)
        axes = {name: getattr(mesh, name) for name in ("dp", "pp", "tp")}
        return {
            "rank": mesh.rank,
            "coords": mesh.coords,
            "neighbours": mesh.neighbours,
            "repr": repr(mesh),
            "axes": {name: (axis.name, axis.size, axis.rank, axis.ranks) for name, axis in axes.items()},
            "met": {name: tuple(comm.gather_objects(mesh.rank, axis)) for name, axis in axes.items()},
        }

    return minipar.run(facts, 8, timeout=30, device="cpu")


def test_eight_ranks_take_their_places(grid: list[dict[str, Any]]) -> None:
    assert [facts["rank"] for facts in grid] == list(range(8))
    assert [tuple(facts["coords"]) for facts in grid] == [(p, d, t) for p in (0, 1) for d in (0, 1) for t in (0, 1)]


def test_an_axis_holds_the_ranks_that_differ_only_along_it(grid: list[dict[str, Any]]) -> None:
    stride = {"tp": 1, "dp": 2, "pp": 4}
    for rank, facts in enumerate(grid):
        for name, step in stride.items():
            index = rank // step % 2
            first = rank - index * step
            assert facts["axes"][name] == (name, 2, index, (first, first + step))


def test_the_groups_join_the_ranks_that_the_axes_name(grid: list[dict[str, Any]]) -> None:
    assert all(met == facts["axes"][name][3] for facts in grid for name, met in facts["met"].items())


def test_neighbours_are_the_stages_before_and_after(grid: list[dict[str, Any]]) -> None:
    assert [facts["neighbours"] for facts in grid] == [(None, r + 4) for r in range(4)] + [(r, None) for r in range(4)]


def test_a_middle_stage_has_both_neighbours() -> None:
    assert minipar.run(lambda: tuple(Mesh(pp=3).neighbours), 3, timeout=20) == [(None, 1), (0, 2), (1, None)]


def test_repr_says_where_on_what_and_why(grid: list[dict[str, Any]]) -> None:
    assert grid[5]["repr"] == "Mesh(dp=2, pp=2, tp=2): rank 5 at pp=1, dp=0, tp=1, on cpu with gloo (asked for)"


def test_one_rank_alone_needs_no_process_group() -> None:
    mesh = Mesh()
    assert (mesh.rank, mesh.coords, mesh.neighbours) == (0, (0, 0, 0), (None, None))
    for axis in (mesh.dp, mesh.pp, mesh.tp):
        assert (axis.size, axis.rank, axis.ranks, axis.group) == (1, 0, (0,), None)
    assert repr(mesh).startswith("Mesh(dp=1, pp=1, tp=1): rank 0 at pp=0, dp=0, tp=0, on ")


def test_a_mesh_of_several_needs_as_many_ranks() -> None:
    with pytest.raises(ValueError, match=r"dp=1 × pp=1 × tp=2 needs 2 ranks, but there are 1"):
        Mesh(tp=2)


@given(degree, degree, degree, st.integers(1, 64))
def test_degrees_that_do_not_fit_are_refused_with_some_that_do(dp: int, pp: int, tp: int, world: int) -> None:
    if dp * pp * tp == world:
        check_degrees(dp, pp, tp, world)
        return
    with pytest.raises(ValueError, match=f"needs {dp * pp * tp} ranks, but there are {world}") as error:
        check_degrees(dp, pp, tp, world)
    shown = fitting(dp, pp, tp, world)
    assert shown
    assert all(f"dp={d} pp={p} tp={t}" in str(error.value) for d, p, t in shown)


@given(degree, degree, degree, st.integers(1, 64))
def test_fitting_degrees_multiply_to_the_world_and_change_least(dp: int, pp: int, tp: int, world: int) -> None:
    wanted, fits = (dp, pp, tp), fitting(dp, pp, tp, world)
    assert all(math.prod(fit) == world for fit in fits)
    assert len(set(fits)) == len(fits)

    def changed(fit: tuple[int, ...]) -> int:
        return sum(a != b for a, b in zip(fit, wanted, strict=True))

    every = [(d, p, world // d // p) for d in range(1, 65) for p in range(1, 65) if world % (d * p) == 0]
    assert [changed(fit) for fit in fits] == sorted(map(changed, every))[:4]


@pytest.mark.parametrize("wrong", [0, -1, 2.0, "2", None])
@pytest.mark.parametrize("name", ["dp", "pp", "tp"])
def test_a_degree_is_a_whole_number_of_at_least_one(name: str, wrong: Any) -> None:
    with pytest.raises(ValueError, match=rf"{name}={wrong!r}; a degree is a whole number"):
        Mesh(**{name: wrong})


def test_the_error_on_real_ranks_names_what_fits() -> None:
    def refused() -> str:
        with pytest.raises(ValueError, match="there are 2") as error:
            Mesh(dp=2, tp=2)
        return str(error.value)

    for message in minipar.run(refused, 2, timeout=20):
        assert "dp=2 pp=1 tp=1" in message
        assert "dp=1 pp=1 tp=2" in message


@given(st.integers(1, 8), st.integers(1, 8))
def test_tp_spans_nodes_exactly_if_some_group_has_ranks_on_two(tp: int, ranks_per_node: int) -> None:
    firsts = range(0, tp * ranks_per_node, tp)
    spans = any(first // ranks_per_node != (first + tp - 1) // ranks_per_node for first in firsts)
    assert tp_spans_nodes(tp, ranks_per_node) == spans


def warned(tp: int, ranks_per_node: int) -> list[list[str]]:
    """The warnings of each of four ranks that make a mesh in nodes of `ranks_per_node`."""

    def on_rank() -> list[str]:
        os.environ["LOCAL_WORLD_SIZE"] = str(ranks_per_node)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            Mesh(pp=4 // tp, tp=tp)
        return [str(w.message) for w in caught if "node" in str(w.message)]

    return minipar.run(on_rank, 4, timeout=20)


def test_a_tensor_group_that_spans_nodes_warns_once_and_names_the_cost() -> None:
    first, *others = warned(tp=4, ranks_per_node=2)
    assert len(first) == 1
    assert "tp=4" in first[0]
    assert "nodes of 2 ranks" in first[0]
    assert "all-reduces of every transformer layer" in first[0]
    assert not any(others)


def test_a_tensor_group_inside_a_node_does_not_warn() -> None:
    assert not any(warned(tp=2, ranks_per_node=2))


def test_the_mesh_computes_where_its_placement_says() -> None:
    [device] = minipar.run(lambda: str(Mesh().device), 1, timeout=20, device="cpu")
    assert torch.device(device) == torch.device("cpu")
