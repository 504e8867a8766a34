"""The planner on this machine: profile it, predict six layouts of two ranks, run them, and compare the order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

from minipar.bench.measure import alternate
from minipar.mesh import Mesh
from minipar.model import GPTConfig
from minipar.plan.layout import Numbers
from minipar.plan.own import model_of
from minipar.plan.profile import profile
from minipar.plan.time import step_time
from minipar.recompute import Recompute
from minipar.train import ByteText, Recipe, Trainer
from minipar.world import run

DEMO = GPTConfig()
RANKS = 2
APART = 1.15
"""Of two layouts whose measured steps differ by less than this ratio nobody can say which is faster."""
LAYOUTS = (
    Numbers(dp=2, micro_batch=8, micro_batches=1),
    Numbers(dp=2, micro_batch=1, micro_batches=8, zero=1),
    Numbers(tp=2, micro_batch=16, micro_batches=1, sequence_parallel=True),
    Numbers(tp=2, micro_batch=2, micro_batches=8),
    Numbers(pp=2, micro_batch=4, micro_batches=4),
    Numbers(pp=2, micro_batch=1, micro_batches=16, recompute=Recompute.FULL),
)
"""Sixteen samples a step, each cut with large micro-batches and with small ones."""


@dataclass(frozen=True)
class Row:
    """A layout, and the seconds of its step as predicted and as measured."""

    layout: Numbers
    predicted: float
    measured: float


def bench(config: GPTConfig = DEMO, rounds: int = 15, layouts: Sequence[Numbers] = LAYOUTS) -> list[Row]:
    """Profile, predict and run; the layouts take turns, with one thread a rank."""
    machine, model = profile(config, RANKS, rounds=rounds).bench, model_of(config)
    predicted = [step_time(model, layout, machine).total for layout in layouts]
    measured = run(_measure, RANKS, config, layouts, rounds, timeout=600)[0]
    return [Row(*row) for row in zip(layouts, predicted, measured, strict=True)]


def in_order(rows: Sequence[Row]) -> tuple[int, int]:
    """Of how many pairs that are apart the prediction says which is faster, and how many there are."""
    pairs = [sorted(pair, key=lambda row: row.measured) for pair in combinations(rows, 2)]
    apart = [(fast, slow) for fast, slow in pairs if slow.measured > APART * fast.measured]
    return sum(fast.predicted < slow.predicted for fast, slow in apart), len(apart)


def _measure(config: GPTConfig, layouts: Sequence[Numbers], rounds: int) -> list[float]:
    """On a rank: the median seconds of a step in each layout."""
    text = ByteText()
    trainers = [Trainer(config, one.layout(), text, Recipe(batch=one.batch, steps=10_000)) for one in layouts]
    ways = {str(layout): trainer.train_step for layout, trainer in zip(layouts, trainers, strict=True)}
    seconds = alternate(ways, rounds, Mesh(dp=RANKS).dp)
    return [seconds[str(layout)] for layout in layouts]
