"""The same stages, batch and weights through PyTorch's own pipelines: another implementation says the same."""

from __future__ import annotations

import sys
from typing import Any, NamedTuple

import cloudpickle
import pytest
import torch
import torch.distributed.pipelining as theirs
from torch import Tensor

import minipar
from minipar import Mesh
from minipar.pipeline import Schedule, by_name, run
from tests.minipar.equality import assert_close_by_name
from tests.minipar.pipeline.models import Batch, Case, batch_of, held, layers
from tests.minipar.pipeline.stages import gradients, squared

cloudpickle.register_pickle_by_value(sys.modules[__name__])  # so that no rank imports this file, and pytest with it

# Before, the V schedules hang on gloo or are not there.
OLD = tuple(map(int, torch.__version__.split(".")[:2])) < (2, 9)
pytestmark = pytest.mark.skipif(OLD, reason="PyTorch's pipelines take these stages and run on gloo from 2.9 on")


class Pair(NamedTuple):
    """One of PyTorch's schedules, and ours."""

    theirs: str
    ours: str

    def pipeline(self, p: int, m: int) -> Schedule:
        return by_name(self.ours, p, m)


PAIRS = [
    Pair("ScheduleGPipe", "gpipe"),
    Pair("Schedule1F1B", "1f1b"),
    Pair("ScheduleInterleaved1F1B", "interleaved"),
    Pair("ScheduleLoopedBFS", "breadth-first"),
    Pair("ScheduleInterleavedZeroBubble", "interleaved"),
    Pair("ScheduleZBVZeroBubble", "zb-v"),
    Pair("ScheduleDualPipeV", "dualpipe-v"),
]


def flat(samples: int) -> Batch:
    """Without a sequence: of a linear layer's output, PyTorch's split backward takes no view."""
    x, target = batch_of(samples)
    return x[:, 0].clone(), target[:, 0].clone()


def through_theirs(pair: Pair, schedule: Schedule, mesh: Mesh) -> tuple[list[float], dict[str, Tensor]]:
    """Each micro-batch's loss on the last stage's rank, and this rank's gradients."""
    x, target = flat(2 * schedule.micro_batches)
    modules = held(schedule, mesh, layers)
    stages: Any = [theirs.PipelineStage(module, s, schedule.stages, mesh.device) for s, module in modules.items()]
    make: Any = getattr(theirs, pair.theirs)
    single = schedule.stages == schedule.ranks
    pipeline = make(stages[0] if single else stages, schedule.micro_batches, loss_fn=squared)
    losses: list[Tensor] = []
    pipeline.step(
        *([x] if 0 in modules else []),
        **({"target": target, "losses": losses} if schedule.stages - 1 in modules else {}),
    )
    return [loss.item() for loss in losses], gradients(modules)


def through_ours(schedule: Schedule, mesh: Mesh) -> tuple[float, dict[str, Tensor]]:
    modules = held(schedule, mesh, layers)
    return run(schedule, modules, flat(2 * schedule.micro_batches), squared, mesh).loss, gradients(modules)


@pytest.mark.parametrize("p", [2, 4])
def test_losses_and_gradients_are_those_of_pytorchs_own_pipelines(p: int) -> None:
    # PyTorch's V schedules want 2p micro-batches.
    schedules = [pair.pipeline(p, 2 * p) for pair in PAIRS]

    def on_rank() -> list[tuple[Any, Any]]:
        mesh = Mesh(pp=p)
        return [
            (through_theirs(*both, mesh), through_ours(both[1], mesh)) for both in zip(PAIRS, schedules, strict=True)
        ]

    everyone = minipar.run(on_rank, p, timeout=30, device="cpu")
    for i, schedule in enumerate(schedules):
        [their_losses] = [losses for ((losses, _), _) in (results[i] for results in everyone) if losses]
        assert len(their_losses) == 2 * p
        expected: dict[str, Tensor] = {}
        actual: dict[str, Tensor] = {}
        for (_, their_gradients), (loss, our_gradients) in (results[i] for results in everyone):
            assert loss == pytest.approx(sum(their_losses) / len(their_losses), rel=1e-12)
            expected |= their_gradients
            actual |= our_gradients
        assert len(expected) == 4 * schedule.stages
        assert_close_by_name(actual, expected)
        assert_close_by_name(actual, Case(schedule, (flat(4 * p),)).dense()[1])
