from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor

import minipar
from minipar import Mesh, comm
from minipar.manifest import gather, manifest
from minipar.model import GPT, GPTConfig, token_loss
from minipar.pipeline import even_cuts, gpipe, run
from minipar.train import ByteText
from tests.minipar.equality import assert_close, assert_close_by_name, relative_error
from tests.minipar.model.dense import DenseGPT, mean_loss

CONFIG = GPTConfig(vocabulary=256, sequence=6, hidden=16, layers=4, heads=4)
STEPS, BATCH = 3, 5
# Where a gradient is smaller than eps, AdamW's step is the gradient times rate/eps: with the default 1e-8 it makes
# rounding, 1e-18 here, visible in the twelfth digit, whether or not anything is split.
ADAM = {"lr": 1e-3, "eps": 1e-6}
MESHES = pytest.mark.parametrize(("pp", "tp"), [(1, 1), (1, 2), (1, 4), (2, 1), (4, 1), (2, 2)])


def named(model: torch.nn.Module) -> dict[str, Tensor]:
    return {name: parameter.detach().clone() for name, parameter in model.named_parameters()}


class Training(NamedTuple):
    """Weights at the start and the end; the loss and the gradients of every step."""

    start: dict[str, Tensor]
    losses: list[float]
    gradients: list[dict[str, Tensor]]
    end: dict[str, Tensor]


@pytest.fixture(scope="module")
def dense() -> Training:
    """Three steps of the independent model, from the weights of the unsplit GPT."""
    model, text = DenseGPT(CONFIG), ByteText()
    model.load_state_dict(GPT(CONFIG, Mesh(), dtype=torch.float64).state_dict())
    optimizer, start = torch.optim.AdamW(model.parameters(), **ADAM), named(model)
    losses, gradients = [], []
    for step in range(STEPS):
        inputs, targets = text.batch(step * BATCH, BATCH, CONFIG.sequence)
        loss = mean_loss(model(inputs), targets)
        optimizer.zero_grad()
        loss.backward()
        losses.append(loss.item())
        gradients.append({name: p.grad.clone() for name, p in model.named_parameters()})
        optimizer.step()
    return Training(start, losses, gradients, named(model))


def trained(pp: int, tp: int) -> Training:
    """The same on a mesh, gathered from all its ranks."""

    def on_rank() -> tuple[Any, ...]:
        mesh, text = Mesh(pp=pp, tp=tp), ByteText()
        model = GPT(CONFIG, mesh, even_cuts(CONFIG.layers, pp)[mesh.pp.rank], dtype=torch.float64)
        entries, optimizer = manifest(model), torch.optim.AdamW(model.parameters(), **ADAM)

        def whole(of_gradients: bool = False) -> dict[str, Tensor]:
            tensors = ((name, p.grad if of_gradients else p) for name, p in model.named_parameters())
            stages = comm.gather_objects(gather(tensors, entries, mesh.tp), mesh.pp)
            return {name: tensor for stage in stages for name, tensor in stage.items()}

        start, losses, gradients = whole(), [], []
        for step in range(STEPS):
            batch = text.batch(step * BATCH, BATCH, CONFIG.sequence)
            optimizer.zero_grad()
            losses.append(run(gpipe(pp, 3), {mesh.pp.rank: model}, batch, token_loss(CONFIG, mesh), mesh).loss)
            gradients.append(whole(of_gradients=True))
            optimizer.step()
        return start, losses, gradients, whole()

    first, *others = (Training(*result) for result in minipar.run(on_rank, pp * tp, timeout=30, device="cpu"))
    for other in others:
        assert other.losses == first.losses
        for ours, theirs in [(first.end, other.end), *zip(first.gradients, other.gradients, strict=True)]:
            assert all(torch.equal(ours[name], theirs[name]) for name in first.end)
    return first


def test_the_unsplit_model_equals_the_independent_one() -> None:
    ours, theirs = GPT(CONFIG, Mesh(), dtype=torch.float64), DenseGPT(CONFIG)
    theirs.load_state_dict(ours.state_dict())
    inputs, targets = ByteText().batch(0, BATCH, CONFIG.sequence)
    y, z = ours(inputs), theirs(inputs)
    assert_close([y], [z])
    token_loss(CONFIG, Mesh())(y, targets).backward()
    mean_loss(z, targets).backward()
    assert_close_by_name(*({name: p.grad for name, p in model.named_parameters()} for model in (ours, theirs)))


@MESHES
def test_on_every_mesh_training_equals_the_independent_model(pp: int, tp: int, dense: Training) -> None:
    ours = trained(pp, tp)
    assert ours.start.keys() == dense.start.keys()
    assert all(torch.equal(ours.start[name], dense.start[name]) for name in dense.start), "bitwise at the start"
    assert ours.losses == pytest.approx(dense.losses, rel=1e-12, abs=0)
    for mine, theirs in zip(ours.gradients, dense.gradients, strict=True):
        assert_close_by_name(mine, theirs)
    assert_close_by_name(ours.end, dense.end)


def test_training_moves_every_weight(dense: Training) -> None:
    assert all(relative_error(dense.end[name], dense.start[name]) > 1e-3 for name in dense.start)
    assert len(set(dense.losses)) == STEPS


def test_weights_depend_on_the_seed_and_on_their_name() -> None:
    zero, again, one = (named(GPT(CONFIG, Mesh(), seed=seed)) for seed in (0, 0, 1))
    drawn = [name for name in zero if zero[name].std() > 0]
    assert len(drawn) == 3 + 4 * CONFIG.layers
    assert all(torch.equal(zero[name], again[name]) for name in zero)
    assert not any(torch.equal(zero[name], one[name]) for name in drawn)
    values = [tuple(zero[name].flatten()[:4].tolist()) for name in drawn]
    assert len(set(values)) == len(values)


def test_no_token_sees_a_later_one() -> None:
    model = GPT(CONFIG, Mesh())
    tokens = torch.arange(CONFIG.sequence)[None]
    changed = tokens.clone()
    changed[0, 3] = 99
    before, after = model(tokens), model(changed)
    assert torch.equal(before[:, :3], after[:, :3])
    assert not torch.equal(before[:, 3:], after[:, 3:])


def test_heads_that_do_not_divide_are_refused() -> None:
    with pytest.raises(ValueError, match="hidden=16 is not divisible by heads=3"):
        GPT(replace(CONFIG, heads=3), Mesh())

    def on_rank() -> str:
        try:
            GPT(replace(CONFIG, hidden=18, heads=6), Mesh(tp=4))
        except ValueError as error:
            return str(error)
        return "accepted"

    assert minipar.run(on_rank, 4, timeout=20) == ["heads=6 is not divisible by tp=4; tp can be 1, 2, 3, 6"] * 4
