"""Prove a layout right: train the same GPT split and unsplit, and compare losses, gradients and weights."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor, nn

from minipar.layout import Layout
from minipar.manifest import gather
from minipar.mesh import Mesh
from minipar.model import GPT, GPTConfig, token_loss
from minipar.rank import report
from minipar.train import ByteText, Precision, Recipe, Trainer, rate_at
from minipar.world import run


@dataclass(frozen=True)
class Snapshot:
    """One training step as one rank saw it: its loss, and the unsplit tensors of its stages by full name."""

    loss: float
    gradients: Mapping[str, Tensor]
    weights: Mapping[str, Tensor]


class Errors(NamedTuple):
    """Largest relative errors: max |a − b| over max |b|, a tensor at a time."""

    loss: float
    gradients: float
    weights: float


# With the default eps of 1e-8, AdamW lets the rounding of gradients near zero grow to the twelfth digit.
RECIPE = Recipe(batch=8, precision=Precision.FLOAT64, eps=1e-6, warm_up=0, clip=0.5)


def train(
    layout: Layout, config: GPTConfig, recipe: Recipe, steps: int, compared: int, text: Path | None = None
) -> tuple[list[float], list[Snapshot]]:
    """On a rank: train in this layout, reporting each loss; with a snapshot of the first steps."""
    trainer = Trainer(config, layout, ByteText(text), recipe)
    losses, snapshots = [], []
    for step in range(steps):
        loss, _bubble = trainer.backward()
        losses.append(loss)
        gradients = _whole(trainer, of_gradients=True) if step < compared else {}
        trainer.optimizer.update(_rate(recipe, step))
        trainer.step, trainer.samples = trainer.step + 1, trainer.samples + recipe.batch
        if step < compared:
            snapshots.append(Snapshot(loss, gradients, _whole(trainer, of_gradients=False)))
        report(loss)
    return losses, snapshots


def _rate(recipe: Recipe, step: int) -> float:
    return rate_at(step, recipe.steps, recipe.rate, recipe.warm_up, recipe.floor)


def _whole(trainer: Trainer, of_gradients: bool) -> dict[str, Tensor]:
    """The unsplit gradients or weights of this rank's stages."""
    named: Iterable[tuple[str, Tensor]]
    if of_gradients:
        named = trainer.optimizer.gradients().items()
    else:
        named = [item for stage in trainer.stages.values() for item in stage.named_parameters()]
    return gather(named, trainer.entries, trainer.mesh.tp)


def train_unsplit(config: GPTConfig, recipe: Recipe, steps: int, text: Path | None = None) -> list[Snapshot]:
    """On one rank: the same training by PyTorch's own means alone, as anyone would write it for one device."""
    model = GPT(config, Mesh(), seed=recipe.seed, dtype=recipe.precision.model)
    matrices = [p for p in model.parameters() if p.dim() > 1]
    vectors = [p for p in model.parameters() if p.dim() == 1]
    groups = [{"params": matrices, "weight_decay": recipe.decay}, {"params": vectors, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, recipe.rate, recipe.betas, recipe.eps)
    data, loss_of, snapshots = ByteText(text), token_loss(config, Mesh()), []
    for step in range(steps):
        inputs, targets = data.batch(step * recipe.batch, recipe.batch, config.sequence, recipe.seed)
        optimizer.zero_grad()
        loss = loss_of(model(inputs), targets)
        torch.autograd.backward(loss)
        gradients = {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}
        if recipe.clip is not None:
            nn.utils.clip_grad_norm_(model.parameters(), recipe.clip)
        for group in optimizer.param_groups:
            group["lr"] = _rate(recipe, step)
        optimizer.step()
        weights = {name: p.detach().clone() for name, p in model.named_parameters()}
        snapshots.append(Snapshot(loss.item(), gradients, weights))
    return snapshots


def errors(split: Sequence[Sequence[Snapshot]], unsplit: Sequence[Snapshot]) -> Errors:
    """The largest relative errors of what every rank saw, beside the unsplit model.

    Raises `ValueError` where the split model lacks a tensor or has one too many.
    """
    worst = dict.fromkeys(Errors._fields, 0.0)
    for step, want in enumerate(unsplit):
        got = [snapshots[step] for snapshots in split]
        worst["loss"] = max(worst["loss"], *(abs(g.loss - want.loss) / abs(want.loss) for g in got))
        for part in ("gradients", "weights"):
            wanted: dict[str, Tensor] = getattr(want, part)
            if {name for g in got for name in getattr(g, part)} != wanted.keys():
                raise ValueError(f"the split model's {part} have other names than the unsplit model's")
            pairs = [(tensor, wanted[name]) for g in got for name, tensor in getattr(g, part).items()]
            worst[part] = max(worst[part], *(((a - b).abs().max() / b.abs().max()).item() for a, b in pairs))
    return Errors(**worst)


def verify(layout: Layout, steps: int = 3) -> Errors:
    """Train a GPT with tied embeddings in this layout and unsplit on one rank, with clipping, and compare.

    The model is as small as the layout lets it be. Its micro-batches differ in size, so that their weights count.
    Raises `ValueError`, before a rank starts, for a layout that cannot run.
    """
    heads = layout.tp * -(-4 // layout.tp)
    config = GPTConfig(
        sequence=2 * heads, hidden=8 * heads, layers=max(4, layout.schedule.stages), heads=heads, tied=True
    )
    recipe = replace(RECIPE, batch=layout.dp * (layout.schedule.micro_batches + 1))
    layout.check(config, recipe.batch)
    split = run(train, layout.ranks, layout, config, recipe, steps, steps, timeout=300)
    unsplit = run(train_unsplit, 1, config, recipe, steps, timeout=300)[0]
    return errors([snapshots for _, snapshots in split], unsplit)
