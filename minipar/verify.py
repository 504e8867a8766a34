"""Prove a layout right: train the same GPT split and unsplit, and compare losses, gradients and weights."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor, nn

from minipar import comm
from minipar.manifest import gather, manifest
from minipar.mesh import Mesh
from minipar.model import GPT, GPTConfig, ties, token_loss
from minipar.pipeline import Schedule, check, even_cuts, naive
from minipar.pipeline import run as run_step
from minipar.rank import report
from minipar.train import ByteText
from minipar.world import run


class Layout(NamedTuple):
    """How a training is laid out: the degrees, and the schedule of each pipeline."""

    schedule: Schedule
    dp: int = 1
    tp: int = 1

    @property
    def ranks(self) -> int:
        """How many ranks it needs."""
        return self.dp * self.schedule.ranks * self.tp


@dataclass(frozen=True)
class Snapshot:
    """One training step as one rank saw it: its loss, and the unsplit tensors of its stages by full name."""

    loss: float
    gradients: dict[str, Tensor]
    weights: dict[str, Tensor]


class Errors(NamedTuple):
    """Largest relative errors: max |a − b| over max |b|, a tensor at a time."""

    loss: float
    gradients: float
    weights: float


def train(
    layout: Layout, config: GPTConfig, batch: int, steps: int, compared: int, text: Path | None = None
) -> tuple[list[float], list[Snapshot]]:
    """On a rank: train a GPT in float64 with AdamW, reporting each loss; with a snapshot of the first steps.

    batch: samples of a step, of which each of the dp replicas takes its part.
    """
    schedule = layout.schedule
    mesh = Mesh(layout.dp, schedule.ranks, layout.tp)
    cuts = even_cuts(config.layers, schedule.stages)
    held = [stage for stage, rank in enumerate(schedule.holder) if rank == mesh.pp.rank]
    stages = {stage: GPT(config, mesh, cuts[stage], dtype=torch.float64) for stage in held}
    parameters = [parameter for stage in stages.values() for parameter in stage.parameters()]
    # With the default eps of 1e-8, AdamW lets the rounding of gradients near zero grow to the twelfth digit.
    optimizer = torch.optim.AdamW(parameters, lr=3e-3, eps=1e-6)
    data, losses, snapshots = ByteText(text), [], []
    for step in range(steps):
        optimizer.zero_grad()
        inputs, targets = (t.tensor_split(mesh.dp.size)[mesh.dp.rank] for t in data.batch(step, batch, config.sequence))
        result = run_step(
            schedule,
            stages,
            (inputs, targets),
            token_loss(config, mesh),
            mesh,
            before=lambda action: stages[action.stage].at(action),
            ties=ties(config, schedule.stages),
            whole_batch=batch,
        )
        losses.append(_over_replicas(result.loss, parameters, mesh))
        gradients = _whole(stages, mesh, of_gradients=True) if step < compared else {}
        optimizer.step()
        if step < compared:
            snapshots.append(Snapshot(losses[-1], gradients, _whole(stages, mesh, of_gradients=False)))
        report(losses[-1])
    return losses, snapshots


def _over_replicas(loss: float, parameters: Sequence[nn.Parameter], mesh: Mesh) -> float:
    """Add the replicas' shares of the loss and of the gradients."""
    for parameter in parameters:
        if parameter.grad is not None:
            parameter.grad = comm.all_reduce(parameter.grad, mesh.dp)
    return sum(share for [share] in comm.gather_numbers([loss], mesh.dp))


def _whole(stages: dict[int, GPT], mesh: Mesh, of_gradients: bool) -> dict[str, Tensor]:
    """The unsplit gradients or weights of these stages."""
    tensors: dict[str, Tensor] = {}
    for stage in stages.values():
        named = [(name, p.grad if of_gradients else p) for name, p in stage.named_parameters()]
        held = [(name, tensor) for name, tensor in named if tensor is not None]
        tensors |= gather(held, manifest(stage), mesh.tp)
    return tensors


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
    """Run `steps` steps of a GPT with tied embeddings in this layout and unsplit on one rank, and compare them.

    The model is as small as the layout lets it be. Its micro-batches differ in size, so that their weights count.
    Raises `ValueError`, before a rank starts, for a schedule that cannot run.
    """
    check(layout.schedule)
    heads = layout.tp * -(-4 // layout.tp)
    config = GPTConfig(sequence=16, hidden=8 * heads, layers=max(4, layout.schedule.stages), heads=heads, tied=True)
    batch = layout.dp * (layout.schedule.micro_batches + 1)
    split = run(train, layout.ranks, layout, config, batch, steps, steps, timeout=300)
    unsplit = run(train, 1, Layout(naive(1)), config, batch, steps, steps, timeout=300)[0]
    return errors([snapshots for _, snapshots in split], unsplit[1])
