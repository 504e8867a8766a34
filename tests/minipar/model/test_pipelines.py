"""Every schedule trains a GPT, embedding and head tied and with dropout, as the unsplit one."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from itertools import product
from typing import NamedTuple

import pytest
import torch
from torch import Tensor

import minipar
from minipar import Mesh
from minipar.manifest import gather, manifest
from minipar.model import GPT, GPTConfig, Recompute, ties, token_loss
from minipar.pipeline import Action, Schedule, even_cuts, run
from minipar.pipeline.names import LOOPED, NAMES, by_name
from minipar.pipeline.run import split_batch
from minipar.train import ByteText
from tests.minipar.equality import assert_close_by_name
from tests.minipar.model.test_gpt import ADAM

SAMPLES = 9


class Trained(NamedTuple):
    """One step: its loss, and the unsplit gradients before and weights after it."""

    loss: float
    gradients: dict[str, Tensor]
    weights: dict[str, Tensor]


def config_of(layers: int) -> GPTConfig:
    return GPTConfig(vocabulary=11, sequence=4, hidden=8, layers=layers, heads=2, tied=True, dropout=0.2)


def batch_of(config: GPTConfig) -> tuple[Tensor, Tensor]:
    inputs, targets = ByteText().batch(0, SAMPLES, config.sequence)
    return inputs % config.vocabulary, targets % config.vocabulary


@cache
def unsplit(layers: int, micro_batches: int) -> Trained:
    """The same step of the whole model: a plain loop over the micro-batches, as each has its own dropout."""
    config = config_of(layers)
    model = GPT(config, Mesh(), dtype=torch.float64)
    optimizer, loss, total = torch.optim.AdamW(model.parameters(), **ADAM), token_loss(config, Mesh()), 0.0
    for i, (inputs, targets) in enumerate(split_batch(batch_of(config), micro_batches)):
        model.at(Action("F", 0, i))
        share = loss(model(inputs), targets) * len(inputs) / SAMPLES
        share.backward()
        total += share.item()
    gradients = {name: p.grad.clone() for name, p in model.named_parameters()}
    optimizer.step()
    return Trained(total, gradients, {name: p.detach().clone() for name, p in model.named_parameters()})


def split(schedule: Schedule, mesh: Mesh, layers: int, sequence_parallel: bool, recompute: Recompute) -> Trained:
    """This rank's part of the step, gathered over its tensor ranks."""
    config, cuts = config_of(layers), even_cuts(layers, schedule.stages)
    held = [stage for stage, rank in enumerate(schedule.holder) if rank == mesh.pp.rank]
    stages = {s: GPT(config, mesh, cuts[s], 0, torch.float64, sequence_parallel, recompute) for s in held}
    optimizer = torch.optim.AdamW([p for stage in stages.values() for p in stage.parameters()], **ADAM)
    loss = run(
        schedule,
        stages,
        batch_of(config),
        token_loss(config, mesh),
        mesh,
        before=lambda action: stages[action.stage].at(action),
        ties=ties(config, schedule.stages),
    ).loss

    def whole(of_gradients: bool) -> dict[str, Tensor]:
        tensors: dict[str, Tensor] = {}
        for stage in stages.values():
            named = [(name, p.grad if of_gradients else p) for name, p in stage.named_parameters()]
            tensors |= gather(named, manifest(stage), mesh.tp)
        return tensors

    gradients = whole(of_gradients=True)
    optimizer.step()
    copies = [
        stages[s].get_parameter(name) for tie in ties(config, schedule.stages) for s, name in tie.items() if s in stages
    ]
    assert all(torch.equal(copies[0], copy) for copy in copies)
    return Trained(loss, gradients, whole(of_gradients=False))


def all_equal(
    schedules: list[Schedule],
    layers: int,
    tp: int = 1,
    ways: tuple[tuple[bool, Recompute], ...] = ((False, Recompute.NONE),),
) -> None:
    ranks = schedules[0].ranks

    def on_rank() -> list[Trained]:
        mesh = Mesh(pp=ranks, tp=tp)
        return [split(schedule, mesh, layers, *way) for schedule in schedules for way in ways]

    everyone = minipar.run(on_rank, ranks * tp, timeout=30, device="cpu")
    cases = [(schedule, way) for schedule in schedules for way in ways]
    for (schedule, way), results in zip(cases, zip(*everyone, strict=True), strict=True):
        expected = unsplit(layers, schedule.micro_batches)
        where = schedule.name, schedule.micro_batches, way
        assert [r.loss for r in results] == pytest.approx([expected.loss] * len(results), rel=1e-12, abs=0), where
        for part in ("gradients", "weights"):
            ours = {name: tensor for r in results for name, tensor in getattr(r, part).items()}
            assert_close_by_name(ours, getattr(expected, part))


def variants(name: str) -> Iterator[int | None]:
    return iter((1, 2, 3)) if name in LOOPED else iter((None,))


@pytest.mark.parametrize("p", [1, 2, 3, 4])
@pytest.mark.parametrize("name", NAMES)
def test_every_schedule_trains_a_tied_gpt_with_dropout_as_the_unsplit_one(name: str, p: int) -> None:
    schedules = [by_name(name, p, m, v) for m in range(1, 9) for v in variants(name)]
    all_equal(schedules, layers=max(schedule.stages for schedule in schedules))


@pytest.mark.parametrize("name", NAMES)
def test_each_stage_may_be_split_over_tensor_ranks_too(name: str) -> None:
    ways = tuple(product((False, True), Recompute))
    all_equal([by_name(name, 2, 3)], layers=4, tp=2, ways=ways)
