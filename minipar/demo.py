"""The terminal tour: train a GPT split four ways, prove it equal to the unsplit one, and watch the bubble shrink."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from torch import Tensor

from minipar.manifest import gather, manifest
from minipar.mesh import Mesh
from minipar.model import GPT, GPTConfig, token_loss
from minipar.pipeline import Costs, Timeline, even_cuts, gpipe, simulate
from minipar.pipeline import run as run_step
from minipar.rank import report
from minipar.train import ByteText
from minipar.world import run

CONFIG = GPTConfig()
BATCH, COMPARED = 8, 3
PP, TP, MICRO_BATCHES = 2, 2, 4
PACE = Costs(forward=0.04, backward=0.08)  # seconds


@dataclass(frozen=True)
class Snapshot:
    """One training step as one rank saw it: its loss, and the unsplit tensors of its stage by full name."""

    loss: float
    gradients: dict[str, Tensor]
    weights: dict[str, Tensor]


@dataclass(frozen=True)
class Training:
    """The loss of every step, and all tensors of the first steps."""

    losses: list[float]
    snapshots: list[Snapshot]


@dataclass(frozen=True)
class Bubble:
    """The idle share of the time with this many micro-batches, predicted and measured, with both timelines."""

    micro_batches: int
    predicted: Timeline
    measured: Timeline


def train(pp: int, tp: int, micro_batches: int, steps: int, text: Path | None) -> Training:
    """On a rank: train the demo's GPT in float64 with AdamW, reporting each loss."""
    mesh = Mesh(pp=pp, tp=tp)
    stage = mesh.coords.pp
    model = GPT(CONFIG, mesh, even_cuts(CONFIG.layers, pp)[stage], dtype=torch.float64)
    # With the default eps of 1e-8, AdamW lets the rounding of gradients near zero grow to the twelfth digit.
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, eps=1e-6)
    data, entries = ByteText(text), manifest(model)
    schedule = gpipe(pp, micro_batches)
    losses, snapshots = [], []
    for step in range(steps):
        optimizer.zero_grad()
        batch = data.batch(step, BATCH, CONFIG.sequence)
        losses.append(run_step(schedule, {stage: model}, batch, token_loss(CONFIG, mesh), mesh).loss)
        if step < COMPARED:
            named = [(name, p.grad) for name, p in model.named_parameters() if p.grad is not None]
            gradients = gather(named, entries, mesh.tp)
        optimizer.step()
        if step < COMPARED:
            snapshots.append(Snapshot(losses[-1], gradients, gather(model.named_parameters(), entries, mesh.tp)))
        report(losses[-1])
    return Training(losses, snapshots)


def train_split(steps: int, text: Path | None, on_loss: Callable[[float], None]) -> list[Training]:
    """Train on pp × tp = 2 × 2 ranks; `on_loss` hears each step's loss. Returns what every rank saw.

    Raises `ValueError`, before a rank starts, for a text that cannot be read or is too short.
    """
    ByteText(text).batch(0, BATCH, CONFIG.sequence)

    def first_rank_only(rank: int, loss: float) -> None:
        if rank == 0:
            on_loss(loss)

    return run(train, PP * TP, PP, TP, MICRO_BATCHES, steps, text, on_report=first_rank_only, timeout=300)


def train_unsplit(text: Path | None) -> Training:
    """The first steps of the same training, unsplit on one rank."""
    training: Training = run(train, 1, 1, 1, 1, COMPARED, text, timeout=120)[0]
    return training


def max_relative_error(split: list[Training], unsplit: Training) -> float:
    """The largest relative error of any loss, gradient or weight: max |a − b| over max |b|, a tensor at a time.

    Raises `ValueError` where the split model lacks a tensor or has one too many.
    """
    worst = 0.0
    for step, want in enumerate(unsplit.snapshots):
        got = [rank.snapshots[step] for rank in split]
        worst = max(worst, *(abs(g.loss - want.loss) / abs(want.loss) for g in got))
        for field in ("gradients", "weights"):
            wanted: dict[str, Tensor] = getattr(want, field)
            if {name for g in got for name in getattr(g, field)} != wanted.keys():
                raise ValueError(f"the split model's {field} have other names than the unsplit model's")
            pairs = [(tensor, wanted[name]) for g in got for name, tensor in getattr(g, field).items()]
            worst = max(worst, *(((a - b).abs().max() / b.abs().max()).item() for a, b in pairs))
    return worst


def paced_steps(pp: int, micro_batches: int, pace: Costs, text: Path | None, repeats: int) -> Timeline:
    """On a rank: the step of median duration out of `repeats`, after one that opens the connections."""
    mesh = Mesh(pp=pp)
    stage = mesh.coords.pp
    config = replace(CONFIG, layers=max(CONFIG.layers, pp))
    model = GPT(config, mesh, even_cuts(config.layers, pp)[stage])
    batch, schedule = ByteText(text).batch(0, max(BATCH, micro_batches), config.sequence), gpipe(pp, micro_batches)
    loss = token_loss(config, mesh)
    steps = [run_step(schedule, {stage: model}, batch, loss, mesh, pace).timeline for _ in range(1 + repeats)]
    return sorted(steps[1:], key=lambda timeline: timeline.duration)[repeats // 2]


def bubble(
    micro_batches: int, text: Path | None = None, stages: int = 4, pace: Costs = PACE, repeats: int = 3
) -> Bubble:
    """Run a GPT's GPipe step over `stages` ranks, each action paced, and predict the same."""
    measured = run(paced_steps, stages, stages, micro_batches, pace, text, repeats, timeout=120)[0]
    return Bubble(micro_batches, simulate(gpipe(stages, micro_batches), pace), measured)
