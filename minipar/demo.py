"""The terminal tour: train a GPT split four ways, prove it equal to the unsplit one, and watch the bubble shrink."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from minipar.layout import Layout
from minipar.mesh import Mesh
from minipar.model import GPT, GPTConfig, token_loss
from minipar.pipeline import Costs, Timeline, even_cuts, gpipe, simulate
from minipar.pipeline import run as run_step
from minipar.train import ByteText
from minipar.verify import RECIPE, Snapshot, errors, train
from minipar.verify import train_unsplit as train_whole
from minipar.world import run

CONFIG = GPTConfig()
BATCH, COMPARED = 8, 3
PP, TP, MICRO_BATCHES = 2, 2, 4
PACE = Costs(forward=0.04, backward=0.08)  # seconds


@dataclass(frozen=True)
class Training:
    """The loss of every step, and what each rank saw in the first ones."""

    losses: list[float]
    snapshots: list[list[Snapshot]]


@dataclass(frozen=True)
class Bubble:
    """The idle share of the time with this many micro-batches, predicted and measured, with both timelines."""

    micro_batches: int
    predicted: Timeline
    measured: Timeline


def train_split(steps: int, text: Path | None, on_loss: Callable[[float], None]) -> Training:
    """Train on pp × tp = 2 × 2 ranks; `on_loss` hears each step's loss.

    Raises `ValueError`, before a rank starts, for a text that cannot be read or is too short.
    """
    ByteText(text).batch(0, BATCH, CONFIG.sequence)

    def first_rank_only(rank: int, loss: float) -> None:
        if rank == 0:
            on_loss(loss)

    layout, recipe = Layout(gpipe(PP, MICRO_BATCHES), tp=TP), replace(RECIPE, steps=steps, batch=BATCH)
    everyone = run(
        train, layout.ranks, layout, CONFIG, recipe, steps, COMPARED, text, on_report=first_rank_only, timeout=300
    )
    return Training(everyone[0][0], [snapshots for _, snapshots in everyone])


def train_unsplit(steps: int, text: Path | None) -> list[Snapshot]:
    """The first of so many steps of the same training, unsplit on one rank."""
    recipe = replace(RECIPE, steps=steps, batch=BATCH)
    compared: list[Snapshot] = run(train_whole, 1, CONFIG, recipe, COMPARED, text, timeout=300)[0]
    return compared


def max_relative_error(split: Training, unsplit: list[Snapshot]) -> float:
    """The largest relative error of any loss, gradient or weight."""
    return max(errors(split.snapshots, unsplit))


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
