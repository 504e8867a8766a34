"""The optimizer: one gradient norm of the unsplit model on all ranks, and steps that are skipped whole."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import replace

import cloudpickle
import pytest
import torch
from torch import Tensor

import minipar
from minipar import Mesh
from minipar.layout import Layout
from minipar.model import GPT, GPTConfig, token_loss
from minipar.pipeline import by_name, naive
from minipar.train import ByteText, Diverged, LossScale, Precision, Recipe, Trainer

cloudpickle.register_pickle_by_value(sys.modules[__name__])

CONFIG = GPTConfig(vocabulary=259, sequence=8, hidden=16, layers=4, heads=4, kv_heads=1, gated=True, tied=True)
RECIPE = Recipe(steps=10, batch=8, warm_up=0, precision=Precision.FLOAT64, eps=1e-6)


def trainer_of(layout: Layout, recipe: Recipe = RECIPE, config: GPTConfig = CONFIG) -> Trainer:
    return Trainer(config, layout, ByteText(), recipe)


def dense_norm() -> float:
    """The norm by PyTorch, of the unsplit model's first gradients."""
    model = GPT(CONFIG, Mesh(), dtype=torch.float64)
    inputs, targets = ByteText().batch(0, RECIPE.batch, CONFIG.sequence)
    token_loss(CONFIG, Mesh())(model(inputs), targets).backward()
    return torch.nn.utils.clip_grad_norm_(model.parameters(), 1e9).item()


@pytest.mark.parametrize("zero", [False, True])
@pytest.mark.parametrize("sequence_parallel", [False, True])
def test_every_rank_has_the_unsplit_models_norm_to_the_bit(zero: bool, sequence_parallel: bool) -> None:
    """torchtitan#596: replicated, repeated (one key-value head over tp=2) and tied parameters count once."""
    layout = Layout(by_name("1f1b", 2, 2), 2, 2, sequence_parallel, zero=zero)

    def on_rank() -> float:
        trainer = trainer_of(layout)
        trainer.backward()
        return trainer.optimizer.norm()

    norms = minipar.run(on_rank, 8, timeout=30, device="cpu")
    assert len(set(norms)) == 1
    assert norms[0] == pytest.approx(dense_norm(), rel=1e-12, abs=0)


def test_both_copies_of_a_tied_weight_stay_equal_to_the_bit() -> None:
    """Megatron-LM#844."""

    def on_rank() -> list[Tensor]:
        trainer = trainer_of(Layout(by_name("1f1b", 2, 2), dp=2))
        for _ in range(5):
            trainer.train_step()
        names = ("embedding.token.weight", "head.logits.weight")
        named = [dict(stage.named_parameters()) for stage in trainer.stages.values()]
        return [held[name].detach().clone() for held in named for name in names if name in held]

    copies = [copy for held in minipar.run(on_rank, 4, timeout=30, device="cpu") for copy in held]
    assert len(copies) == 4
    assert all(torch.equal(copy, copies[0]) for copy in copies)


def test_tied_on_one_stage_is_one_tensor_and_one_entry() -> None:
    """torchtitan#2252."""
    trainer = trainer_of(Layout(naive(1)))
    stage = trainer.stages[0]
    assert stage.head.logits.weight is stage.embedding.token.weight
    sizes = sum(p.numel() for p in stage.parameters())
    assert sum(share.kinds["weights"].numel() for share in trainer.optimizer.shares) == sizes
    trainer.train_step()
    assert torch.equal(stage.head.logits.weight, stage.embedding.token.weight)


def everything(trainer: Trainer) -> Mapping[str, Tensor]:
    """Weights, main weights, moments and counters."""
    kinds = {f"{kind} {name}": t for kind, named in trainer.optimizer.state().items() for name, t in named.items()}
    model = {n: p.detach() for stage in trainer.stages.values() for n, p in stage.named_parameters()}
    counters = {f"step {i}": state["step"] for i, state in enumerate(trainer.optimizer.adam.state.values())}
    return {name: tensor.clone() for name, tensor in (kinds | model | counters).items()}


@pytest.mark.parametrize("zero", [False, True])
def test_an_overflow_on_one_rank_skips_the_step_on_all_and_leaves_everything_as_it_was(zero: bool) -> None:
    """zero-bubble PR#26, #16."""
    layout = Layout(by_name("1f1b", 2, 2), 2, zero=zero)

    def on_rank() -> tuple[list[bool], float, int, bool]:
        trainer = trainer_of(layout, replace(RECIPE, precision=Precision.FP16))
        updated = [trainer.train_step().updated]
        before, scale = everything(trainer), trainer.scale.factor
        loss = trainer._loss
        if trainer.mesh.rank == 3:
            trainer._loss = lambda logits, targets: loss(logits, targets) * 1e30
        trainer.backward()
        trainer._loss = loss
        updated.append(trainer.optimizer.update(1e-3, trainer.scale).done)
        after = everything(trainer)
        same = before.keys() == after.keys() and all(torch.equal(before[name], after[name]) for name in before)
        assert trainer.scale.factor == scale / 2
        updated.append(trainer.train_step().updated)
        return updated, trainer.scale.factor / scale, trainer.optimizer.steps, same

    for result in minipar.run(on_rank, 4, timeout=30, device="cpu"):
        assert result == ([True, False, True], 0.5, 2, True)


def test_the_loss_scale_halves_at_once_and_doubles_after_an_interval() -> None:
    scale = LossScale(8.0, interval=3)
    factors = []
    for finite in (True, True, True, False, True, True, False, True, True, True):
        scale.heard(finite)
        factors.append(scale.factor)
    assert factors == [8, 8, 16, 8, 8, 8, 4, 4, 4, 8]


@pytest.mark.parametrize("precision", [Precision.BF16, Precision.FP16])
def test_half_precision_trains_nearly_as_float32(precision: Precision) -> None:
    config = GPTConfig(sequence=16, hidden=32, layers=2)

    def on_rank(precision: Precision) -> tuple[list[float], list[torch.dtype]]:
        recipe = Recipe(steps=20, batch=8, warm_up=0, precision=precision)
        trainer = trainer_of(Layout(by_name("1f1b", 2, 2)), recipe, config)
        losses = [trainer.train_step().loss for _ in range(20)]
        return losses, sorted({p.dtype for s in trainer.stages.values() for p in s.parameters()}, key=str)

    half, full = (minipar.run(on_rank, 2, p, timeout=30, device="cpu")[0] for p in (precision, Precision.FLOAT32))
    assert half[1] == [precision.model]
    assert half[0] != full[0]
    assert half[0] == pytest.approx(full[0], rel=0.02)
    assert half[0][-1] < half[0][0] - 0.5


def test_small_updates_of_large_weights_are_kept_in_the_main_weights() -> None:
    """An update of a thousandth of a bfloat16 weight is rounded away each time without them."""
    trainer = trainer_of(Layout(naive(1)), replace(RECIPE, precision=Precision.BF16, decay=0.0))
    weight = trainer.stages[0].get_parameter("blocks.0.norm1.weight")
    for _ in range(10):
        trainer.buckets.zero()
        weight.main_grad.fill_(1.0)
        trainer.optimizer.update(1e-3)
    main = trainer.optimizer.state()["weights"]["blocks.0.norm1.weight"]
    assert main.dtype == torch.float32
    assert main.mean().item() == pytest.approx(0.99, abs=1e-4)
    assert torch.equal(weight, main.bfloat16())


@pytest.mark.parametrize("rank", [0, 3])
def test_numbers_that_are_lost_stop_every_rank_in_the_same_step(rank: int) -> None:
    def on_rank() -> str:
        trainer = trainer_of(Layout(by_name("1f1b", 2, 2), dp=2))
        trainer.train_step()
        if trainer.mesh.rank == rank:
            next(iter(trainer.stages.values())).get_parameter(
                "blocks.0.norm1.weight" if rank == 0 else "blocks.3.norm1.weight"
            ).data.fill_(torch.nan)
        before = everything(trainer)
        try:
            trainer.train_step()
        except Diverged as error:
            after = everything(trainer)
            assert all(torch.equal(before[n].nan_to_num(7), after[n].nan_to_num(7)) for n in before)
            return str(error)
        return "went on"

    said = minipar.run(on_rank, 4, timeout=30, device="cpu")
    assert len(set(said)) == 1
    assert said[0].startswith("step 1: the loss is nan and the gradients' norm nan; the weights are as the step found")


def test_zero_keeps_a_share_of_the_moments_on_each_replica() -> None:
    def on_rank(zero: bool) -> int:
        trainer = trainer_of(Layout(naive(1), dp=2, zero=zero))
        return sum(t.numel() for state in trainer.optimizer.adam.state.values() for t in state.values() if t.dim())

    whole, shared = (minipar.run(on_rank, 2, zero, timeout=30, device="cpu")[0] for zero in (False, True))
    assert whole / 2 <= shared <= whole / 2 + 20
