"""Small models cut into stages, what they give unsplit in one process, and what every schedule makes of them."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import cloudpickle
import pytest
import torch
from torch import Tensor, nn

import minipar
from minipar import Mesh
from minipar.pipeline import Schedule, run
from minipar.pipeline.names import LOOPED, NAMES, by_name
from minipar.pipeline.step import Loss
from tests.minipar.equality import assert_close_by_name
from tests.minipar.pipeline.stages import gradients, squared

cloudpickle.register_pickle_by_value(sys.modules[__name__])  # so that no rank has to import from the tests

Batch = tuple[Tensor, Tensor]
Make = Callable[[int, int], nn.Module]
"""From a stage's number and how many there are, always with the same weights."""
Skips = tuple[tuple[int, int], ...]

WIDTH = 4


def seeded(seed: int, make: Callable[..., nn.Module], *args: Any) -> nn.Module:
    """A module in float64 whose weights come from this seed alone."""
    with torch.random.fork_rng([]):
        torch.manual_seed(seed)
        return make(*args).double()


def layers(stage: int, _: int) -> nn.Module:
    """A stage that ends with a linear layer."""
    return seeded(stage, lambda: nn.Sequential(nn.Linear(WIDTH, WIDTH + 1), nn.Tanh(), nn.Linear(WIDTH + 1, WIDTH)))


def batch_of(samples: int, sequence: int = 3, seed: int = 0) -> Batch:
    stream = torch.Generator().manual_seed(100 * samples + seed)
    x, y = torch.randn(2, samples, sequence, WIDTH, generator=stream, dtype=torch.float64)
    return x, y


def published(ranks: int, micro_batches: int, *virtual: int) -> list[Schedule]:
    """Every published schedule, those that loop with these numbers of stages a rank."""
    wanted = [(name, v) for name in NAMES for v in ((virtual or (2,)) if name in LOOPED else (None,))]
    return [by_name(name, ranks, micro_batches, v) for name, v in wanted]


def held(schedule: Schedule, mesh: Mesh, make: Make) -> dict[int, nn.Module]:
    """This rank's stages."""
    return {s: make(s, schedule.stages) for s, rank in enumerate(schedule.holder) if rank == mesh.pp.rank}


def through(model: Sequence[nn.Module], x: Tensor, skips: Skips = ()) -> Tensor:
    """What the stages, one after another, make of x."""
    carried: dict[tuple[int, int], Tensor] = {}
    between: tuple[Tensor, ...] = (x,)
    for number, stage in enumerate(model):
        made = stage(*between, *(carried[skip] for skip in skips if skip[1] == number))
        outputs = made if isinstance(made, tuple) else (made,)
        leaving = [skip for skip in skips if skip[0] == number]
        main = len(outputs) - len(leaving)
        carried |= zip(leaving, outputs[main:], strict=True)
        between = outputs[:main]
    return between[0]


@dataclass(frozen=True)
class Case:
    """A schedule and what it is to do: batches whose gradients add up."""

    schedule: Schedule
    batches: tuple[Batch, ...]
    make: Make = layers
    skips: Skips = ()
    loss: Loss = squared
    whole: int | None = None

    def dense(self) -> tuple[list[float], dict[str, Tensor]]:
        """The losses and the sum of the gradients of the model in one process."""
        model = [self.make(stage, self.schedule.stages) for stage in range(self.schedule.stages)]
        losses = []
        for x, target in self.batches:
            loss = self.loss(through(model, x, self.skips), target) * (len(x) / (self.whole or len(x)))
            loss.backward()
            losses.append(loss.item())
        return losses, gradients(dict(enumerate(model)))

    def split(self, mesh: Mesh) -> tuple[list[float], dict[str, Tensor]]:
        """The same on a rank of a pipeline."""
        stages = held(self.schedule, mesh, self.make)
        losses = [
            run(self.schedule, stages, batch, self.loss, mesh, skips=self.skips, whole=self.whole).loss
            for batch in self.batches
        ]
        return losses, gradients(stages)


def assert_equal_to_dense(cases: Sequence[Case], timeout: float = 30) -> None:
    """All cases, of as many ranks each, give every rank the dense losses, and the dense gradients together."""
    ranks = cases[0].schedule.ranks

    def on_rank() -> list[tuple[list[float], dict[str, Tensor]]]:
        mesh = Mesh(pp=ranks)
        return [case.split(mesh) for case in cases]

    everyone = minipar.run(on_rank, ranks, timeout=timeout, device="cpu")
    for i, case in enumerate(cases):
        losses, whole = case.dense()
        assert whole
        ours: dict[str, Tensor] = {}
        for ours_losses, mine in (results[i] for results in everyone):
            assert ours_losses == pytest.approx(losses, rel=1e-12, abs=0), case.schedule.name
            assert ours_losses == everyone[0][i][0], f"{case.schedule.name}: the loss is the same on every rank"
            ours |= mine
        assert_close_by_name(ours, whole)
