"""Tensors that skip stages: which skips there can be, in which order they come, and the way their gradients take."""

from __future__ import annotations

import sys
from typing import Any

import cloudpickle
import pytest
import torch
from torch import Tensor, nn

import minipar
from minipar import Mesh
from minipar.ledger import Traffic
from minipar.pipeline import Action, Schedule, evaluate, gpipe, run
from tests.minipar.pipeline.models import WIDTH, Case, Skips, assert_equal_to_dense, batch_of, held, layers, published
from tests.minipar.pipeline.stages import squared

cloudpickle.register_pickle_by_value(sys.modules[__name__])  # so that no rank imports this file, and pytest with it

LEADS_FORWARD = "a skip leads forward over at least one stage (the next one is fed anyway)"


def test_skips_that_cannot_be_are_refused_before_anything_is_sent() -> None:
    wrong: list[Skips] = [((0, 1),), ((2, 0),), ((1, 1),), ((0, 4),), ((-1, 2),), ((0, 2), (0, 2))]

    def on_rank() -> list[str]:
        mesh, said, schedule = Mesh(pp=2), [], published(2, 2)[-1]
        for skips in wrong if mesh.pp.rank == 0 else []:  # alone: a message would wait here for ever
            for call in (run, evaluate):
                try:
                    call(schedule, held(schedule, mesh, layers), batch_of(2), squared, mesh, skips=skips)
                except ValueError as error:
                    said.append(str(error))
        assert mesh.ledger.rows() == []
        return said

    said = minipar.run(on_rank, 2, timeout=20, device="cpu")[0]
    assert said[::2] == said[1::2]
    skips = [f"Skip(source={source}, target={target})" for [(source, target)] in wrong[:-1]]
    assert said[:-2:2] == [f"{skip} of 4 stages; {LEADS_FORWARD}" for skip in skips]
    assert "has a skip twice; each carries one tensor" in said[-1]
    assert "Skip(source=0, target=2)" in said[-1]


def test_a_stage_that_gives_no_tensor_for_its_skip_is_refused_by_number() -> None:
    stages = {stage: layers(stage, 3) for stage in range(3)}
    row = [Action("F", s, 0) for s in (0, 1, 2)] + [Action("B", s, 0) for s in (2, 1, 0)]
    alone = Schedule("alone", (tuple(row),), (0, 0, 0))
    expected = r"stage 0 gave 1 tensors, of which the last 1 skip to stages \[2\]; the next stage would get none"
    for call in (run, evaluate):
        with pytest.raises(ValueError, match=expected):
            call(alone, stages, batch_of(1), squared, Mesh(), skips=[(0, 2)])


class Weighted(nn.Module):
    """Gives different tensors for its skips, and uses each of those that it gets differently."""

    def __init__(self, stage: int, stages: int, skips: Skips) -> None:
        super().__init__()
        self.inner = layers(stage, stages)
        self.leaving = [target for source, target in skips if source == stage]
        self.arriving = [source for source, target in skips if target == stage]

    def forward(self, x: Tensor, *skipped: Tensor) -> Any:
        assert len(skipped) == len(self.arriving)
        for source, other in zip(self.arriving, skipped, strict=True):
            x = x * torch.cos(other * (source + 2))
        y = self.inner(x)
        if not self.leaving:
            return y
        return (y, *(torch.sin(y * (target + 3)) for target in self.leaving))


def test_skips_take_their_tensors_in_the_order_in_which_they_are_listed() -> None:
    orders: list[Skips] = [((0, 2), (0, 3), (1, 3)), ((1, 3), (0, 3), (0, 2)), ((0, 3), (0, 2))]
    schedules = [s for s in published(2, 3) if s.stages == 4]
    cases = [
        Case(schedule, (batch_of(4),), lambda s, n, skips=skips: Weighted(s, n, skips), skips)
        for skips in orders
        for schedule in schedules
    ]
    assert_equal_to_dense(cases)
    losses = [Case(c.schedule, c.batches, c.make, c.skips).dense()[0] for c in cases[:: len(schedules)]]
    assert losses[0] == pytest.approx(losses[1], rel=1e-12), "the order is no part of the model"


class Kinds(nn.Module):
    """What skips is a mask, a float without gradient, an input that is passed on, or what nobody heeds."""

    def __init__(self, stage: int, stages: int, kind: str) -> None:
        super().__init__()
        self.inner, self.stage, self.kind = layers(stage, stages), stage, kind

    def forward(self, x: Tensor, *skipped: Tensor) -> Any:
        y = self.inner(x)
        if self.stage == 0:
            skips = {"mask": y > 0, "constant": y.detach(), "input": x, "unheeded": y**2, "same": y}
            return y, skips[self.kind]
        if self.stage == 2:
            [other] = skipped
            assert other.requires_grad == (self.kind in ("unheeded", "same"))
            y = y.masked_fill(other, 0.5) if self.kind == "mask" else y + (self.kind != "unheeded") * torch.sin(other)
        return y


def test_every_kind_of_tensor_skips() -> None:
    cases = [
        Case(s, (batch_of(4),), lambda s, n, kind=kind: Kinds(s, n, kind), ((0, 2),))
        for kind in ("mask", "constant", "input", "unheeded", "same")
        for s in published(2, 2)
        if s.stages == 4
    ]
    assert_equal_to_dense(cases)


def test_a_skip_goes_straight_to_its_target_and_not_by_the_ranks_between() -> None:
    skips, samples, m = ((0, 2),), 6, 3

    def on_rank() -> list[Traffic]:
        mesh = Mesh(pp=3)
        stages = held(gpipe(3, m), mesh, lambda s, n: Weighted(s, n, skips))
        return run(gpipe(3, m), stages, batch_of(samples), squared, mesh, skips=skips).traffic

    size = samples * 3 * WIDTH * 8
    rows = [[Traffic("send", "pp", 3, times * m, times * size)] for times in (2, 2, 2)]
    # Rank 0 sends its result and what skips; rank 1 forward and back; rank 2 two gradients.
    assert minipar.run(on_rank, 3, timeout=20, device="cpu") == rows
