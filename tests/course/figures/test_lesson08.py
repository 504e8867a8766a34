"""The figures of lesson 08: what they ask is the library's, and emulated links keep their promise."""

from itertools import permutations
from xml.etree import ElementTree

import nbformat
import pytest

from course.exercises.lesson08 import AXES, DEGREES, a_job, groups, least, placements, seconds_on_links
from course.figures.lesson08 import (
    Linked,
    Placed,
    beside,
    linked,
    predict_leaving,
    predict_order,
    predict_traffic,
    seconds_of_links,
    tensor_or_pipeline,
)
from course.lessons import find
from course.widgets.mesh import GPUS, HARDWARE, ORDERS, coordinates, traffic
from minipar import Mesh, comm, run
from minipar.layout import Layout
from minipar.links import Link
from minipar.model import GPTConfig
from minipar.pipeline import by_name

CONFIG = GPTConfig(sequence=128, hidden=64, layers=2, heads=4)
FAST, SLOW = Link(0.0, 1e9), Link(0.0, 1e7)


def layout(micro_batches: int = 4) -> Layout:
    return Layout(by_name("1f1b", 2, micro_batches), dp=2, tp=2)


@pytest.mark.parametrize("ask", [predict_traffic, predict_leaving, predict_order])
def test_a_prediction_has_its_picture_and_hides_what_is_true(ask):
    widget = ask()
    shown = widget.reveal(1.0)
    assert ElementTree.fromstring(shown["picture"]).tag.endswith("svg")
    assert f"{widget._truth:g}" not in widget.question


def test_tp_sends_most_and_pp_least_and_the_order_alone_costs_five_times():
    assert predict_traffic()._truth == pytest.approx(50, rel=0.02)
    assert predict_order()._truth == pytest.approx(3.15 / 0.557, rel=0.02)
    assert predict_leaving()._truth == pytest.approx(56.6, abs=0.05)


def test_the_predicted_experiment_finds_a_whole_node_best():
    assert "tp=8 is fastest" in tensor_or_pipeline(32).data
    assert "tp=8 is fastest" in tensor_or_pipeline(128).data


@pytest.mark.parametrize("order", list(permutations(AXES)))
def test_only_the_innermost_axis_has_the_links_inside(order):
    placed = linked(layout(), order, FAST, SLOW)
    assert sorted(placed.links.places) == list(range(8))
    steps = {"tp": 1, "dp": 2, "pp": 4}
    for axis, step in steps.items():
        assert placed.links.of(0, step) == (FAST if axis == order[0] else SLOW)


def test_the_predicted_wait_of_an_axis_is_the_slow_links_over_the_fast_ones():
    inside, outside = (
        seconds_of_links(linked(layout(), order, FAST, SLOW), CONFIG, 8)
        for order in (("tp", "dp", "pp"), ("dp", "tp", "pp"))
    )
    assert outside["tp"] == pytest.approx(100 * inside["tp"])
    assert inside["dp"] == pytest.approx(100 * outside["dp"])
    # Four micro-batches over two stages: five slots of F and B, each with two all-reduces of 32 KiB in its one block.
    assert inside["tp"] == pytest.approx(5 * 4 * 128 * 64 * 4 / 1e9)


def _all_reduce(one: Linked) -> list[float]:
    import time

    import torch

    mesh = one.mesh()
    found = []
    for axis in (mesh.tp, mesh.dp):
        began = time.perf_counter()
        comm.all_reduce(torch.zeros(25_000), axis)
        found.append(time.perf_counter() - began)
    return found


def test_a_real_message_takes_at_least_its_emulated_time():
    one = linked(Layout(by_name("1f1b", 1, 1), dp=2, tp=2), ("tp", "dp", "pp"), Link(0.0, 1e6), Link(0.0, 2e5))
    for tp, dp in run(_all_reduce, 4, one, timeout=30):
        assert tp >= 0.1
        assert dp >= 0.5


def test_predicted_and_measured_stand_beside_each_other():
    places = {axis: linked(layout(), order, FAST, SLOW) for axis, order in zip(("tp", "dp", "pp"), ORDERS, strict=True)}
    page = beside({"tp": 0.2, "dp": 0.6, "pp": 0.7}, places, CONFIG, 8, alone=0.1).data
    assert "3.50 times as long" in page
    assert page.count("measured") >= 3


def test_a_layout_without_links_is_the_layout():
    assert Linked(layout().schedule, 2, 2).ranks == 8
    assert isinstance(linked(layout(), ("tp", "dp", "pp"), FAST, SLOW).links, Placed)


def test_the_judges_groups_are_the_meshs():
    for rank in range(24):
        mesh = groups(rank, {"dp": 3, "pp": 2, "tp": 4}, ("tp", "dp", "pp"))
        pp, dp, tp = rank // 12, rank // 4 % 3, rank % 4
        assert mesh == {
            "tp": [(pp * 3 + dp) * 4 + i for i in range(4)],
            "dp": [(pp * 3 + i) * 4 + tp for i in range(3)],
            "pp": [(i * 3 + dp) * 4 + tp for i in range(2)],
        }
    assert Mesh().tp.ranks == (0,)


def test_the_notebooks_costs_are_the_judges():
    cells = {cell.id: cell.source for cell in nbformat.read(find("08").notebook, as_version=4).cells}
    names: dict = {}
    exec(cells["cost"], names)
    job = a_job(16)
    for seconds, sizes, order in placements(job):
        assert names["seconds_on_links"](sizes, order, job) == pytest.approx(seconds)


def test_what_the_exercise_counts_is_what_the_explorer_shows():
    job = {"samples": 64, "sequence": 2048, "hidden": 6144, "layers": 48, "inside": 1.0, "between": 1.0}
    for tp, pp in ((8, 2), (4, 4), (2, 8)):
        sizes = {"dp": GPUS // (tp * pp), "pp": pp, "tp": tp}
        sent = sum(traffic(axis, sizes)[0] for axis in AXES)
        assert seconds_on_links(sizes, ("tp", "dp", "pp"), job) == pytest.approx(sent, rel=0.001)


def test_links_are_inside_exactly_where_a_whole_group_shares_a_node():
    for dp, pp, tp in ((d, p, 32 // (d * p)) for d in DEGREES for p in DEGREES if 32 % (d * p) == 0):
        sizes = {"dp": dp, "pp": pp, "tp": tp}
        for order in permutations(AXES):
            apart = 1
            for axis in order:
                own = coordinates(0, sizes, order)
                ranks = [
                    r for r in range(32) if all(coordinates(r, sizes, order)[a] == own[a] for a in AXES if a != axis)
                ]
                shares = len({rank // HARDWARE.per_node for rank in ranks}) == 1
                assert shares == ((sizes[axis] - 1) * apart < 8)
                apart *= sizes[axis]


def test_the_best_placement_is_never_beaten_by_the_rule_of_thumb():
    for parts in (8, 16):
        best, sizes, _order = least(a_job(parts))
        assert 1 < sizes["tp"] < 8
        assert best > 0
