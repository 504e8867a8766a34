"""Every cut of the GPT trains as the independent, unsplit model does."""

from __future__ import annotations

from itertools import product
from typing import NamedTuple

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

import minipar
from minipar import Mesh, comm
from minipar.manifest import gather, manifest
from minipar.mesh import Axis
from minipar.model import GPT, GPTConfig, Recompute, token_loss
from minipar.model.gpt import Block, Cutting
from minipar.pipeline import even_cuts, gpipe, run
from minipar.tensor import Draw, Moment
from minipar.train import ByteText
from tests.minipar.equality import assert_close, assert_close_by_name, few
from tests.minipar.model.dense import DenseGPT, mean_loss
from tests.minipar.model.test_gpt import ADAM

STEPS = 3


class Way(NamedTuple):
    """How the model is cut and run."""

    sequence_parallel: bool = False
    recompute: Recompute = Recompute.NONE


class Step(NamedTuple):
    """One training step: its loss, and the unsplit gradients and weights after it."""

    loss: float
    gradients: dict[str, Tensor]
    weights: dict[str, Tensor]


WAYS = [Way(*way) for way in product((False, True), Recompute)]


def batch_of(config: GPTConfig, step: int, samples: int, sequence: int) -> tuple[Tensor, Tensor]:
    inputs, targets = ByteText().batch(step * samples, samples, sequence)
    return inputs % config.vocabulary, targets % config.vocabulary


def dense(config: GPTConfig, samples: int, sequence: int) -> list[Step]:
    """The training of the independent model, from the weights of the unsplit GPT."""
    model = DenseGPT(config)
    model.load_state_dict(GPT(config, Mesh(), dtype=torch.float64).state_dict())
    optimizer, steps = torch.optim.AdamW(model.parameters(), **ADAM), []
    for step in range(STEPS):
        inputs, targets = batch_of(config, step, samples, sequence)
        optimizer.zero_grad()
        loss = mean_loss(model(inputs), targets)
        loss.backward()
        gradients = {name: p.grad.clone() for name, p in model.named_parameters()}
        optimizer.step()
        steps.append(Step(loss.item(), gradients, {n: p.detach().clone() for n, p in model.named_parameters()}))
    return steps


def split(config: GPTConfig, mesh: Mesh, way: Way, samples: int, sequence: int, micro_batches: int = 1) -> list[Step]:
    """The same on a rank of a mesh, gathered over its tensor ranks and stages."""
    layers = even_cuts(config.layers, mesh.pp.size)[mesh.pp.rank]
    model = GPT(config, mesh, layers, 0, torch.float64, way.sequence_parallel, way.recompute)
    optimizer, entries, steps = torch.optim.AdamW(model.parameters(), **ADAM), manifest(model), []

    def whole(gradients: bool) -> dict[str, Tensor]:
        tensors = ((name, p.grad if gradients else p) for name, p in model.named_parameters())
        stages = comm.gather_objects(gather(tensors, entries, mesh.tp), mesh.pp)
        return {name: tensor.cpu() for stage in stages for name, tensor in stage.items()}

    for step in range(STEPS):
        optimizer.zero_grad()
        batch, schedule = batch_of(config, step, samples, sequence), gpipe(mesh.pp.size, micro_batches)
        loss = run(schedule, {mesh.pp.rank: model}, batch, token_loss(config, mesh), mesh).loss
        gradients = whole(gradients=True)
        optimizer.step()
        steps.append(Step(loss, gradients, whole(gradients=False)))
    return steps


def assert_same_training(ours: list[Step], expected: list[Step]) -> None:
    for mine, theirs in zip(ours, expected, strict=True):
        assert mine.loss == pytest.approx(theirs.loss, rel=1e-12, abs=0)
        assert_close_by_name(mine.gradients, theirs.gradients)
        assert_close_by_name(mine.weights, theirs.weights)


@pytest.mark.parametrize("tp", [1, 2, 4])
def test_every_way_of_running_trains_as_the_unsplit_model(tp: int) -> None:
    config = GPTConfig(vocabulary=13, sequence=8, hidden=16, layers=2, heads=4, kv_heads=2, gated=True, tied=True)
    for results in minipar.run(lambda: [split(config, Mesh(tp=tp), way, 3, 8) for way in WAYS], tp, timeout=30):
        for ours in results:
            assert_same_training(ours, dense(config, 3, 8))


@st.composite
def cases(draw: st.DrawFn) -> tuple[GPTConfig, Way, int, int, int]:
    """A model, a way to run it, the tensor ranks, the samples and the sequence."""
    tp = draw(st.sampled_from([1, 2, 4]))
    heads = tp * draw(st.integers(1, 2))
    fits = [kv for kv in range(1, heads + 1) if heads % kv == 0 and (kv % tp == 0 or tp % kv == 0)]
    way = draw(st.sampled_from(WAYS))
    sequence = draw(st.integers(1, 3)) * (tp if way.sequence_parallel else 1)
    config = GPTConfig(
        vocabulary=draw(st.integers(5, 40)),
        sequence=sequence + draw(st.integers(0, 2)),
        hidden=heads * draw(st.sampled_from([2, 4])),
        layers=draw(st.integers(1, 2)),
        heads=heads,
        kv_heads=draw(st.sampled_from(fits)),
        gated=draw(st.booleans()),
        tied=draw(st.booleans()),
    )
    return config, way, tp, draw(st.integers(1, 3)), sequence


@few
@given(st.lists(cases(), min_size=4, max_size=4))
def test_any_model_on_any_number_of_tensor_ranks_trains_as_the_unsplit_model(
    drawn: list[tuple[GPTConfig, Way, int, int, int]],
) -> None:
    for tp in {case[2] for case in drawn}:
        mine = [case for case in drawn if case[2] == tp]

        def on_rank(mine: list = mine, tp: int = tp) -> list[list[Step]]:
            mesh = Mesh(tp=tp)
            return [split(config, mesh, way, samples, length) for config, way, _, samples, length in mine]

        for results in minipar.run(on_rank, tp, timeout=30):
            for ours, (config, _, _, samples, length) in zip(results, mine, strict=True):
                assert_same_training(ours, dense(config, samples, length))


@pytest.mark.parametrize("way", [Way(), Way(True, Recompute.FULL)])
def test_stages_of_split_models_train_as_the_unsplit_model(way: Way) -> None:
    config = GPTConfig(vocabulary=13, sequence=8, hidden=16, layers=2, heads=4, kv_heads=1)
    for ours in minipar.run(lambda: split(config, Mesh(pp=2, tp=2), way, 5, 8, micro_batches=3), 4, timeout=30):
        assert_same_training(ours, dense(config, 5, 8))


@pytest.mark.parametrize("tp", [2, 4])
def test_a_block_alone_has_the_unsplit_blocks_output_and_gradients(tp: int) -> None:
    config = GPTConfig(hidden=16, heads=4, kv_heads=2)
    x = torch.randn(2, 8, 16, dtype=torch.float64)

    def block(way: Way, axis: Axis | None = None) -> tuple[list[Tensor], dict[str, Tensor]]:
        axis = axis or Mesh().tp
        model = Block(config, Cutting(axis, Draw(0, torch.float64), way.sequence_parallel, way.recompute))
        mine = x.chunk(axis.size, 1)[axis.rank] if way.sequence_parallel else x
        leaf = mine.clone().requires_grad_()
        y = model(leaf, Moment())
        (y**2).sum().backward()
        named = ((name, p.grad) for name, p in model.named_parameters())
        whole = gather(named, manifest(model), axis)
        if way.sequence_parallel:
            return [comm.all_gather(t.detach(), axis, 1) for t in (y, leaf.grad)], whole
        return [y.detach(), leaf.grad], whole

    expected, gradients = block(Way())
    for results in minipar.run(lambda: [block(way, Mesh(tp=tp).tp) for way in WAYS], tp, timeout=30, device="cpu"):
        for ours, whole in results:
            assert_close(ours, expected)
            assert_close_by_name(whole, gradients)
