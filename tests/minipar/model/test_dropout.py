"""Dropout does not depend on the cut, and survives a recompute."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import Tensor

import minipar
from minipar import Mesh
from minipar.manifest import gather, manifest
from minipar.model import GPT, GPTConfig, Recompute, token_loss
from minipar.pipeline import gpipe, run
from minipar.tensor import Moment, dropout
from tests.minipar.equality import assert_close_by_name

CONFIG = GPTConfig(vocabulary=13, sequence=8, hidden=16, layers=2, heads=4, kv_heads=2, dropout=0.3)
TOKENS = torch.arange(24).reshape(3, 8) % 13


def gradients(
    tp: int, sequence_parallel: bool = False, recompute: Recompute = Recompute.NONE, moment: Moment | None = None
) -> dict[str, Tensor]:
    """The unsplit gradients of one backward, and the loss."""

    def on_rank() -> dict[str, Tensor]:
        mesh = Mesh(tp=tp)
        model = GPT(CONFIG, mesh, None, 0, torch.float64, sequence_parallel, recompute)
        model.moment = moment or model.moment
        before = torch.random.get_rng_state()
        loss = token_loss(CONFIG, mesh)(model(TOKENS), TOKENS)
        loss.backward()
        assert torch.equal(torch.random.get_rng_state(), before), "nobody else's random numbers are touched"
        named = ((name, p.grad) for name, p in model.named_parameters())
        return gather(named, manifest(model), mesh.tp) | {"loss": loss.detach()}

    first, *others = minipar.run(on_rank, tp, timeout=30, device="cpu")
    assert all(torch.equal(first[name], other[name]) for other in others for name in first)
    return first


@pytest.mark.parametrize(("tp", "sequence_parallel"), [(1, False), (2, False), (2, True)])
def test_a_recompute_gives_bitwise_the_same_gradients(tp: int, sequence_parallel: bool) -> None:
    kept = gradients(tp, sequence_parallel)
    for recompute in (Recompute.SELECTIVE, Recompute.FULL):
        again = gradients(tp, sequence_parallel, recompute)
        assert all(torch.equal(kept[name], again[name]) for name in kept), recompute


def test_every_cut_has_the_unsplit_models_masks() -> None:
    unsplit = gradients(1)
    for tp, sequence_parallel in ((2, False), (2, True), (4, False), (4, True)):
        assert_close_by_name(gradients(tp, sequence_parallel), unsplit)


def test_masks_differ_by_seed_step_micro_batch_replica_and_layer() -> None:
    losses = {gradients(1)["loss"].item()}
    for change in ({"seed": 1}, {"step": 1}, {"micro_batch": 1}, {"replica": 1}):
        losses.add(gradients(1, moment=replace(Moment(), **change))["loss"].item())
    assert len(losses) == 5
    x = torch.ones(4, 50)
    assert not torch.equal(dropout(x, 0.5, Moment(), "a"), dropout(x, 0.5, Moment(), "b"))


def test_masks_differ_over_tp_where_split_agree_where_replicated_and_differ_over_dp() -> None:
    def on_rank() -> tuple[Tensor, Tensor, int]:
        mesh = Mesh(dp=2, tp=2)
        moment = GPT(CONFIG, mesh).moment
        x = torch.ones(2, 40, 8)
        return dropout(x, 0.5, moment, "x"), dropout(x, 0.5, moment, "x", mesh.tp), mesh.dp.rank

    (r0, s0, d0), (r1, s1, d1), (r2, s2, d2), (r3, s3, d3) = minipar.run(on_rank, 4, timeout=20, device="cpu")
    assert (d0, d1, d2, d3) == (0, 0, 1, 1)
    assert torch.equal(r0, r1)
    assert torch.equal(r2, r3)
    assert not torch.equal(r0, r2)
    for one, other in ((s0, s1), (s2, s3), (s0, s2), (s1, s3)):
        assert not torch.equal(one, other)


def test_the_share_that_is_dropped_is_p_and_the_mean_is_kept() -> None:
    x = torch.ones(100_000)
    for p in (0.1, 0.5):
        y = dropout(x, p, Moment(), "x")
        assert (y == 0).double().mean().item() == pytest.approx(p, abs=0.01)
        assert y.mean().item() == pytest.approx(1, abs=0.01)
    assert dropout(x, 0.0, Moment(), "x") is x


def test_evaluation_drops_nothing() -> None:
    model = GPT(CONFIG, Mesh()).eval()
    without = GPT(replace(CONFIG, dropout=0.0), Mesh())
    assert torch.equal(model(TOKENS), without(TOKENS))
    assert not torch.equal(model.train()(TOKENS), without(TOKENS))


def test_each_micro_batch_and_each_step_has_masks_of_its_own() -> None:
    model, mesh, moments = GPT(CONFIG, Mesh()), Mesh(), []
    batch = TOKENS[[0, 0, 0]], TOKENS[[0, 0, 0]]
    for step in range(2):
        model.moment = replace(model.moment, step=step)
        model.blocks["0"].register_forward_pre_hook(lambda _, inputs: moments.append(inputs[1]))
        run(gpipe(1, 3), {0: model}, batch, token_loss(CONFIG, mesh), mesh, before=model.at)
        model.blocks["0"]._forward_pre_hooks.clear()
    assert [(moment.step, moment.micro_batch) for moment in moments] == [(s, m) for s in (0, 1) for m in range(3)]
