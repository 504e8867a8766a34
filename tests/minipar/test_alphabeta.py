"""Latency and bandwidth of links: recovered from made-up times, measured on emulated links, where they are known."""

from __future__ import annotations

import json
import math
import sys
from typing import Any

import cloudpickle
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

import minipar
from minipar import Mesh
from minipar.alphabeta import SIZES, LinkMeasure, fit, links_of, measure_links
from minipar.links import Link, Links
from minipar.mesh import check_degrees

cloudpickle.register_pickle_by_value(sys.modules[__name__])

NEAR, FAR = Link(latency=0, bandwidth=1e12), Link(latency=0.005, bandwidth=2e7)
FEW = (64, 1 << 16, 1 << 18)


def seconds(operation: str, ranks: int, alpha: float, beta: float, size: int) -> float:
    if operation == "send":
        return alpha + size * beta
    return 2 * (ranks - 1) * alpha + 2 * (ranks - 1) / ranks * size * beta


def times(operation: str, ranks: int, alpha: float, beta: float) -> dict[int, float]:
    return {size: seconds(operation, ranks, alpha, beta, size) for size in SIZES}


operations = st.sampled_from(["all-reduce", "send"])
latencies = st.floats(-7, 0).map(lambda power: 10**power)
paces = st.floats(-12, -6).map(lambda power: 10**power)


@given(operations, st.integers(2, 64), latencies, paces)
def test_exact_times_give_back_alpha_and_beta(operation: str, ranks: int, alpha: float, beta: float) -> None:
    found = fit("dp", ranks, operation, times(operation, ranks, alpha, beta))
    assert (found.axis, found.ranks, found.operation) == ("dp", ranks, operation)
    assert (found.alpha, found.beta) == pytest.approx((alpha, beta), rel=1e-6)
    for size in (1, 12345, 1 << 30):
        assert found.seconds(size) == pytest.approx(seconds(operation, ranks, alpha, beta, size), rel=1e-6)


def test_an_error_of_the_largest_size_does_not_hide_alpha() -> None:
    alpha, beta = 20e-6, 1e-9
    measured = times("send", 2, alpha, beta)
    measured[SIZES[-1]] *= 1.2
    found = fit("pp", 2, "send", measured)
    assert found.alpha == pytest.approx(alpha, rel=0.05)
    assert found.beta == pytest.approx(beta, rel=0.1)
    _, in_seconds = np.polyfit(list(measured), list(measured.values()), 1)
    assert abs(in_seconds - alpha) > 2 * alpha, "as an ordinary fit does"


@pytest.mark.parametrize("measured", [{8: 2.0, 16: 1.0}, {8: 1.0, 16: 0.4, 32: 0.3}])
def test_times_that_fall_with_the_size_make_beta_zero(measured: dict[int, float]) -> None:
    found = fit("tp", 2, "send", measured)
    assert found.beta == 0
    assert min(measured.values()) < found.alpha < max(measured.values())


def test_times_that_start_below_zero_make_alpha_zero() -> None:
    found = fit("tp", 2, "all-reduce", {8: 1.0, 16: 9.0})
    assert found.alpha == 0
    assert 1 / 8 < found.beta < 9 / 16


@given(
    operations,
    st.integers(2, 8),
    st.dictionaries(st.integers(1, 1 << 24), st.floats(1e-6, 10), min_size=2, max_size=8),
)
def test_no_costs_of_at_least_zero_are_closer(operation: str, ranks: int, measured: dict[int, float]) -> None:
    found = fit("dp", ranks, operation, measured)

    def error(alpha: float, beta: float) -> float:
        return sum((seconds(operation, ranks, alpha, beta, size) / took - 1) ** 2 for size, took in measured.items())

    best = error(found.alpha, found.beta)
    assert min(found.alpha, found.beta) >= 0
    # The error is convex: it is least where every small step makes it larger.
    for alpha in (found.alpha, found.alpha * 1.01, found.alpha * 0.99, found.alpha + 1e-8):
        for beta in (found.beta, found.beta * 1.01, found.beta * 0.99, found.beta + 1e-15):
            assert error(alpha, beta) >= best - 1e-9 * (1 + best)


@pytest.mark.parametrize(
    ("measured", "says"),
    [
        ({}, "0 sizes cannot tell"),
        ({8: 1.0}, "1 size cannot tell"),
        ({8: 1.0, 16: 0.0}, "16 bytes took 0.0 s"),
        ({8: -1.0, 16: 1.0}, "8 bytes took -1.0 s"),
        ({8: 1.0, 16: float("nan")}, "16 bytes took nan s"),
        ({8: float("inf"), 16: 1.0}, "8 bytes took inf s"),
    ],
)
def test_times_that_tell_nothing_are_refused(measured: dict[int, float], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        fit("dp", 2, "send", measured)


@pytest.mark.parametrize(
    ("ranks", "operation", "alpha", "beta", "says"),
    [
        (2, "gather", 0.0, 0.0, "operation 'gather' has no cost here; it can be 'all-reduce' or 'send'"),
        (1, "send", 0.0, 0.0, "dp=1 has no link"),
        (2, "send", -1.0, 0.0, "alpha=-1.0"),
        (2, "send", 0.0, float("inf"), "beta=inf"),
    ],
)
def test_a_measure_that_cannot_be_is_refused(ranks: int, operation: str, alpha: float, beta: float, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        LinkMeasure("dp", ranks, operation, alpha, beta)


def measured_on(degrees: tuple[int, int, int], ranks_per_node: int) -> list[LinkMeasure]:
    """What all ranks of a mesh whose nodes are far from each other find, which is the same everywhere."""

    def on_rank() -> list[LinkMeasure]:
        return links_of(Mesh(*degrees, Links(NEAR, FAR, ranks_per_node)), FEW, repeats=3)

    first, *others = minipar.run(on_rank, math.prod(degrees), timeout=30, device="cpu")
    assert all(other == first for other in others), "one list, on every rank"
    return first  # type: ignore[no-any-return]


def assert_far(measure: LinkMeasure) -> None:
    """What is emulated, and not twice as much: a sleep is a little too long, and longer on a busy machine."""
    for size in FEW:
        emulated = seconds(measure.operation, measure.ranks, FAR.latency, 1 / FAR.bandwidth, size)
        assert 0.95 * emulated <= measure.seconds(size) <= 1.8 * emulated, (size, measure)
    assert 0.95 <= measure.alpha / FAR.latency <= 1.8, measure
    assert 0.7 <= measure.beta * FAR.bandwidth <= 1.8, measure


def test_emulated_links_are_found_between_the_slowest_neighbours_of_an_axis() -> None:
    found = measured_on((3, 1, 1), ranks_per_node=2)  # 0 and 1 share a node, 2 is far
    assert [(m.axis, m.ranks, m.operation) for m in found] == [("dp", 3, "all-reduce"), ("dp", 3, "send")]
    for measure in found:
        assert_far(measure)


def test_the_slowest_group_of_each_axis_counts() -> None:
    # Ranks 0, 1 and 2 share a node: of the groups 0-1 and 2-3, and of 0-2 and 1-3, only the second one is far apart.
    found = measured_on((1, 2, 2), ranks_per_node=3)
    assert [(m.axis, m.operation) for m in found] == [
        (axis, operation) for axis in ("pp", "tp") for operation in ("all-reduce", "send")
    ]
    for measure in found:
        assert_far(measure)


def test_each_axis_has_links_of_its_own() -> None:
    for measure in measured_on((1, 2, 2), ranks_per_node=2):  # as it should be: only stages are far apart
        if measure.axis == "pp":
            assert_far(measure)
        else:
            emulated = seconds(measure.operation, 2, FAR.latency, 1 / FAR.bandwidth, FEW[-1])
            assert measure.seconds(FEW[-1]) < emulated / 2


def test_one_rank_alone_has_no_links() -> None:
    assert links_of(Mesh()) == []


@pytest.mark.parametrize("degrees", [(0, 1, 1), (1, -2, 1), (1, 1, 2.0)])
def test_bad_degrees_are_refused_before_a_rank_starts(degrees: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("minipar.alphabeta.run", lambda *_, **__: pytest.fail("a rank was started"))
    with pytest.raises(ValueError, match="a degree is a whole number of at least 1"):
        measure_links(*degrees)


@pytest.mark.parametrize("sizes", [(), (64,), (64, 64), (64, 0), (64, 66), (-4, 4)])
def test_sizes_that_cannot_be_measured_are_refused(sizes: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match=r"sizes=\(.*\); at least two different ones"):
        links_of(Mesh(), sizes)


def test_no_timing_at_all_is_refused() -> None:
    with pytest.raises(ValueError, match="repeats=0"):
        links_of(Mesh(), repeats=0)


def doctor(*arguments: str) -> Any:
    from minipar.cli import app

    return CliRunner().invoke(app, ["doctor", *arguments])


def test_the_doctor_measures_real_links_and_one_rank_speaks_for_all() -> None:
    """In ranks that are there, as under torchrun."""

    def on_rank() -> tuple[int, str]:
        result = doctor("--links", "--tp", "2", "--json")
        return result.exit_code, result.stdout

    (code, said), *others = minipar.run(on_rank, 2, timeout=30, device="cpu")
    assert (code, others) == (0, [(0, "")])
    found = json.loads(said)
    assert [(link["axis"], link["ranks"], link["operation"]) for link in found] == [
        ("tp", 2, "all-reduce"),
        ("tp", 2, "send"),
    ]
    for link in found:
        measure = LinkMeasure(*link.values())
        assert 1e-6 < measure.seconds(8) < 0.1
        assert 1e-4 < measure.seconds(8 << 20) < 2


MADE_UP = [
    LinkMeasure("pp", 4, "send", 12.34e-6, 1e-9 / 25),
    LinkMeasure("tp", 2, "all-reduce", 3e-3, 0.0),
]


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, int]]:
    """The degrees of every measurement that the command asks for; each gives what is made up."""
    degrees: list[dict[str, int]] = []

    def measure(**wanted: int) -> list[LinkMeasure]:
        check_degrees(**wanted, world=math.prod(wanted.values()))
        degrees.append(wanted)
        return MADE_UP

    monkeypatch.setattr("minipar.commands.doctor.measure_links", measure)
    return degrees


def test_the_doctor_prints_units(asked: list[dict[str, int]]) -> None:
    result = doctor("--links", "--pp", "4", "--tp", "2")
    assert (result.exit_code, asked) == (0, [{"dp": 1, "pp": 4, "tp": 2}])
    assert "links of dp=1, pp=4, tp=2, on " in result.stdout
    rows = [[cell.strip() for cell in line.strip("│").split("│")] for line in result.stdout.splitlines() if "│" in line]
    assert rows == [
        ["pp", "4", "send", "12.3 µs", "25.00 GB/s"],
        ["tp", "2", "all-reduce", "3000.0 µs", "too fast to tell"],
    ]


def test_the_doctors_json_names_units_in_its_keys(asked: list[dict[str, int]]) -> None:
    result = doctor("--links", "--json")
    assert asked == [{"dp": 1, "pp": 2, "tp": 2}], "four ranks, if nothing else is said"
    assert json.loads(result.stdout) == [
        {
            "axis": measure.axis,
            "ranks": measure.ranks,
            "operation": measure.operation,
            "alpha_seconds": measure.alpha,
            "beta_seconds_per_byte": measure.beta,
        }
        for measure in MADE_UP
    ]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--tp", "2"], "--tp 2 says which links to measure: add --links, or leave it out"),
        (["--dp", "1", "--pp", "3", "--json"], "--dp 1 --pp 3 says which links"),
        (["--links", "--tp", "1"], "dp=1, pp=1, tp=1 is one rank, which has no links"),
        (["--links", "--tp", "0"], "tp=0; a degree is a whole number of at least 1"),
        (["--links", "--pp", "-1", "--json"], "pp=-1; a degree is a whole number of at least 1"),
    ],
)
def test_the_doctor_refuses_degrees_in_one_clear_sentence(
    arguments: list[str], says: str, asked: list[dict[str, int]]
) -> None:
    result = doctor(*arguments)
    assert (result.exit_code, result.stdout, asked) == (1, "", [])
    assert says in " ".join(result.stderr.split())
    assert "Traceback" not in result.stderr
