"""The explorer of lesson 08: ranks lie where the library puts them, and traffic is what the planner counts."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from course.widgets.mesh import (
    CHOSEN,
    DEGREES,
    GPUS,
    HARDWARE,
    MODEL,
    ORDERS,
    SAMPLES,
    SCALE,
    coordinates,
    degrees,
    group,
    look,
    mesh,
    seconds_of,
    traffic,
)
from minipar.draw.mesh import BAR, MOST
from minipar.plan import Bench, Numbers
from minipar.plan.generations import MEGATRON_2021
from minipar.plan.time import message
from minipar.plan.work import block

SVG = "{http://www.w3.org/2000/svg}"
PLACES = st.integers(0, len(DEGREES) - 1)
ORDER = st.integers(0, len(ORDERS) - 1)


@given(tp=PLACES, pp=PLACES, order=ORDER)
def test_the_groups_of_an_axis_part_all_ranks(tp: int, pp: int, order: int) -> None:
    sizes, axes = degrees(tp, pp), ORDERS[order]
    assert sizes["dp"] * sizes["pp"] * sizes["tp"] == GPUS
    places = {tuple(sorted(coordinates(rank, sizes, axes).items())) for rank in range(GPUS)}
    assert len(places) == GPUS
    for axis in axes:
        groups = {tuple(group(axis, sizes, axes, rank)) for rank in range(GPUS)}
        assert sorted(rank for own in groups for rank in own) == list(range(GPUS))
        assert {len(own) for own in groups} == {sizes[axis]}


@given(tp=PLACES, pp=PLACES)
def test_with_tp_innermost_ranks_are_those_of_the_library(tp: int, pp: int) -> None:
    sizes = degrees(tp, pp)
    for rank in range(GPUS):
        at = coordinates(rank, sizes, ORDERS[0])
        assert rank == (at["pp"] * sizes["dp"] + at["dp"]) * sizes["tp"] + at["tp"]  # as `minipar.Mesh` counts


@given(tp=PLACES, pp=PLACES, order=ORDER)
def test_every_position_has_its_picture(tp: int, pp: int, order: int) -> None:
    view, sizes = look(tp, pp, order), degrees(tp, pp)
    picture = ElementTree.fromstring(view.picture)
    boxes = [box for box in picture.iter(f"{SVG}rect") if box.get("height") == "46"]
    assert len(boxes) == GPUS
    coloured = sum(box.get("fill") != "none" for box in boxes)
    assert coloured == sum(size - 1 for size in sizes.values())
    assert [name for name, _ in view.facts] == ["mesh", "dp", "pp", "tp", "its links are busy"]
    for axis in sizes:
        alone = dict(view.facts)[axis] == "nothing to send"
        assert alone == (sizes[axis] == 1)


@given(tp=PLACES, pp=PLACES)
def test_traffic_takes_as_long_as_the_planner_says(tp: int, pp: int) -> None:
    sizes = degrees(tp, pp)
    micro_batches = SAMPLES // sizes["dp"]
    layout = Numbers(**sizes, micro_batches=micro_batches)
    bench = Bench(HARDWARE, MEGATRON_2021)  # it hides no message behind its products
    one = block(MODEL, layout, bench)
    blocks = -(-MODEL.layers // sizes["pp"])
    sent, messages = traffic("tp", sizes)
    link = HARDWARE.link(sizes["tp"], 1)
    expected = micro_batches * blocks * (one.forward.links + one.backward.links)
    assert messages * link.alpha + sent * link.beta == pytest.approx(expected)
    sent, messages = traffic("pp", sizes)
    link = HARDWARE.link(sizes["pp"], sizes["dp"] * sizes["tp"])
    expected = 2 * micro_batches * message(MODEL, layout, bench)
    assert messages * link.alpha + sent * link.beta == pytest.approx(expected)


@given(tp=PLACES, pp=PLACES, order=ORDER)
def test_bars_are_as_long_as_links_are_busy_and_hatched_between_nodes(tp: int, pp: int, order: int) -> None:
    sizes, axes = degrees(tp, pp), ORDERS[order]
    seconds = {axis: seconds_of(axis, sizes, group(axis, sizes, axes)) for axis in ("dp", "pp", "tp")}
    picture = ElementTree.fromstring(look(tp, pp, order).picture)
    bars = [float(box.get("width", "")) for box in picture.iter(f"{SVG}rect") if box.get("height") == f"{BAR}"]
    longest = max(SCALE, *seconds.values())
    assert bars == pytest.approx([MOST * time / longest for time in seconds.values()], abs=0.06)
    hatched = [path for path in picture.iter(f"{SVG}path") if path.get("d")]
    leave = [axis for axis in seconds if len({r // HARDWARE.per_node for r in group(axis, sizes, axes)}) > 1]
    assert len(hatched) == len(leave)


def test_tensor_ranks_across_nodes_cost_most() -> None:
    inside, across = (dict(look(3, 1, order).facts)["tp"] for order in (0, 1))
    assert "inside the node" in inside
    assert "between nodes" in across


def test_sliders_move_the_picture() -> None:
    explorer = mesh()
    before = explorer.picture
    explorer.values = {"tp": 2, "pp": 2, "order": 1}
    assert explorer.picture != before
    assert f"GPU {CHOSEN} and those it works with, dp innermost" in explorer.picture
