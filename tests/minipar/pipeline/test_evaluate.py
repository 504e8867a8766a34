"""Evaluation: the dense loss in evaluation mode on every rank, and everything else as it was."""

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
from minipar.pipeline import defer_batch_norms, evaluate, gpipe, naive, run
from tests.minipar.pipeline.models import WIDTH, Case, Skips, batch_of, held, layers, published, seeded, through
from tests.minipar.pipeline.stages import gradients, squared

cloudpickle.register_pickle_by_value(sys.modules[__name__])  # so that no rank imports this file, and pytest with it


class Rich(nn.Module):
    """Batch norm, dropout, a random number in either mode, and a tensor that skips from stage 0 to 2."""

    def __init__(self, stage: int, stages: int, skips: Skips) -> None:
        super().__init__()
        self.norm = seeded(stage, lambda: nn.BatchNorm1d(3))
        self.inner, self.drop, self.leaving = layers(stage, stages), nn.Dropout(0.5), (0, 2) in skips and stage == 0
        with torch.no_grad():
            self.norm.running_mean.add_(stage + 0.5)

    def forward(self, x: Tensor, *skipped: Tensor) -> Any:
        y = self.drop(self.inner(self.norm(x))) + 0 * torch.rand(())
        y = y + sum(skipped) if skipped else y
        return (y, torch.cos(y)) if self.leaving else y


@pytest.mark.parametrize("p", [1, 2, 3])
def test_the_loss_is_the_dense_one_in_evaluation_mode_whatever_the_schedule(p: int) -> None:
    schedules, skips = published(p, 3), ((0, 2),)
    cases = [(s, skips if s.stages > 2 else ()) for s in schedules]

    def on_rank() -> list[tuple[list[float], bool]]:
        mesh, results = Mesh(pp=p), []
        for schedule, over in cases:
            stages = held(schedule, mesh, lambda s, n, over=over: defer_batch_norms(Rich(s, n, over)))
            before = {n: t.clone() for s in stages.values() for n, t in s.state_dict().items()}
            losses = [evaluate(schedule, stages, batch_of(samples), squared, mesh, over) for samples in (5, 3)]
            after = {n: t for s in stages.values() for n, t in s.state_dict().items()}
            same = all(torch.equal(before[n], after[n]) for n in before)
            results.append((losses, same and not gradients(stages)))
        return results

    everyone = minipar.run(on_rank, p, timeout=30, device="cpu")
    assert all(results == everyone[0] for results in everyone)
    for (schedule, over), (losses, untouched) in zip(cases, everyone[0], strict=True):
        model = [Rich(s, schedule.stages, over).eval() for s in range(schedule.stages)]
        expected = [squared(through(model, x, over), y).item() for x, y in (batch_of(5), batch_of(3))]
        assert losses == pytest.approx(expected, rel=1e-12, abs=0)
        assert untouched


def test_only_forwards_are_sent() -> None:
    schedules = published(2, 3)

    def on_rank() -> list[list[Traffic]]:
        mesh, rows = Mesh(pp=2), []
        for schedule in schedules:
            with mesh.ledger.page() as page:
                evaluate(schedule, held(schedule, mesh, layers), batch_of(6), squared, mesh)
            rows.append(page.rows())
        return rows

    for rank, results in enumerate(minipar.run(on_rank, 2, timeout=20, device="cpu")):
        for schedule, rows in zip(schedules, results, strict=True):
            onward = zip(schedule.holder, schedule.holder[1:], strict=False)
            borders = sum(source == rank != to for source, to in onward)
            size = borders * 6 * 3 * WIDTH * 8
            assert rows == ([Traffic("send", "pp", 2, 3 * borders, size)] if borders else [])


def test_gradients_that_are_accumulated_stay_as_they_are() -> None:
    stages, mesh, schedule = {0: layers(0, 1)}, Mesh(), naive(1, 2)
    run(schedule, stages, batch_of(4), squared, mesh, whole=8)
    before = {name: gradient.clone() for name, gradient in gradients(stages).items()}
    evaluate(schedule, stages, batch_of(5), squared, mesh)
    assert all(torch.equal(gradient, before[name]) for name, gradient in gradients(stages).items())
    run(schedule, stages, batch_of(4), squared, mesh, whole=8)
    _, twice = Case(schedule, (batch_of(4), batch_of(4)), whole=8).dense()
    assert gradients(stages).keys() == twice.keys()
    assert all(torch.allclose(gradient, twice[name], rtol=1e-12) for name, gradient in gradients(stages).items())


@pytest.mark.parametrize("fails", [False, True])
def test_modes_and_random_streams_are_restored_also_after_an_error(fails: bool) -> None:
    model = nn.Sequential(nn.Dropout(0.5), nn.Sequential(nn.BatchNorm1d(3), nn.Dropout(0.5)), layers(0, 1))
    model[1].eval()
    model[1][1].train()
    modes, state = [module.training for module in model.modules()], torch.get_rng_state()
    seen: list[bool] = []

    def loss(output: Tensor, target: Tensor) -> Tensor:
        seen.extend([torch.is_grad_enabled(), *(module.training for module in model.modules())])
        torch.rand(3)
        if fails:
            raise ZeroDivisionError
        return squared(output, target)

    try:
        evaluate(naive(1, 1), {0: model.double()}, batch_of(2), loss, Mesh())
    except ZeroDivisionError:
        assert fails
    assert not any(seen)
    assert seen
    assert [module.training for module in model.modules()] == modes
    assert torch.equal(torch.get_rng_state(), state)
    assert torch.is_grad_enabled()


def test_what_does_not_fit_is_refused_before_anything_is_sent() -> None:
    def on_rank() -> list[str]:
        mesh, said = Mesh(pp=2), []
        one = {0: layers(0, 2)}
        x, y = batch_of(4)
        wrong: list[Any] = [
            (gpipe(2, 5), one, (x, y)),
            (gpipe(2, 2), {}, (x, y)),
            (gpipe(3, 2), one, (x, y)),
            (gpipe(2, 2), one, (x, y[:3])),
        ]
        for schedule, stages, batch in wrong if mesh.pp.rank == 0 else []:  # alone: a message would wait for ever
            try:
                evaluate(schedule, stages, batch, squared, mesh)
            except ValueError as error:
                said.append(str(error))
        assert mesh.ledger.rows() == []
        assert all(module.training for stage in one.values() for module in stage.modules())
        return said

    assert minipar.run(on_rank, 2, timeout=20, device="cpu")[0] == [
        "5 micro-batches need at least as many samples; the batch has 4",
        "pipeline rank 0 holds stages [0], but was given []",
        "schedule 'GPipe' is for pp=3, but the mesh has pp=2",
        "a batch of 4 inputs and 3 targets; every input needs its target",
    ]
