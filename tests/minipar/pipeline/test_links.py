"""Emulated links: a step with them takes what the simulator says it takes."""

from __future__ import annotations

import pytest

import minipar
from minipar import Mesh
from minipar.links import Link, Links
from minipar.pipeline import Costs, StepResult, one_f_one_b, run, simulate
from tests.minipar.pipeline.stages import Stage, batch_of, squared

NEAR, FAR = Link(latency=0.001, bandwidth=1e12), Link(latency=0.06, bandwidth=1e12)
NODES = Links(inside=NEAR, between=FAR, ranks_per_node=2)


def test_a_link_between_nodes_delays_those_messages_that_cross_it() -> None:
    pace = Costs(0.05, 0.1, send=lambda source, to: NODES.of(source, to).seconds(0))
    schedule = one_f_one_b(4, 4)
    predicted = simulate(schedule, pace)

    def on_rank() -> list[StepResult]:
        mesh = Mesh(pp=4, links=NODES)
        assert "emulated" in repr(mesh)
        stages = {mesh.pp.rank: Stage(mesh.pp.rank, 4)}
        return [run(schedule, stages, batch_of(4, 4), squared, mesh, pace) for _ in range(3)]

    timelines = [result.timeline for result in minipar.run(on_rank, 4, timeout=30, device="cpu")[0]]
    assert all(timeline.emulated for timeline in timelines)
    assert min(timeline.duration for timeline in timelines) == pytest.approx(predicted.duration, rel=0.08)
    without = simulate(schedule, Costs(0.05, 0.1)).duration
    assert all(timeline.duration > without + 0.1 for timeline in timelines), "two crossings at least"
    [waited] = [min(timeline.parts().communication for timeline in timelines)]
    assert waited == pytest.approx(predicted.parts().communication, abs=0.03)


def test_a_collective_takes_the_time_of_its_ring() -> None:
    ring = NODES.collective([0, 1, 2, 3], sent=1e12, rounds=6)
    assert ring == pytest.approx(6 * 0.06 + 1)
    assert NODES.collective([0, 1], sent=1e12, rounds=2) == pytest.approx(2 * 0.001 + 1)


@pytest.mark.parametrize("wrong", [(-1.0, 1.0), (0.0, 0.0)])
def test_a_link_that_cannot_be_is_refused(wrong: tuple[float, float]) -> None:
    with pytest.raises(ValueError, match="a latency is at least 0 seconds"):
        Link(*wrong)
