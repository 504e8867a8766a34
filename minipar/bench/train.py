"""Training on two ranks, cut each of the three ways, beside one rank; and replicas beside PyTorch's DDP."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from minipar.bench.measure import alternate
from minipar.layout import Layout
from minipar.mesh import Axis, Mesh
from minipar.model import GPT, GPTConfig, token_loss
from minipar.pipeline import gpipe, one_f_one_b
from minipar.train import ByteText, Recipe, Trainer
from minipar.world import run

BATCH, MICRO_BATCHES = 16, 4
SIZES = {
    "demo": GPTConfig(),
    "wider": GPTConfig(hidden=128, heads=8),
    "wide": GPTConfig(hidden=256, heads=8),
}
LAYOUTS = {
    "2×1×1": Layout(gpipe(1, 1), dp=2),
    "2×1×1 ZeRO-1": Layout(gpipe(1, 1), dp=2, zero=True),
    "1×2×1": Layout(one_f_one_b(2, MICRO_BATCHES)),
    "1×1×2": Layout(gpipe(1, 1), tp=2),
}
DDP = "2×1×1 DDP"


@dataclass(frozen=True)
class Row:
    """A layout's median step time, and its tokens per second beside one rank's."""

    model: str
    layout: str
    seconds: float
    tokens_per_second: float
    over_one_rank: float


def bench(repeats: int = 15, sizes: dict[str, GPTConfig] = SIZES) -> list[Row]:
    """Every model and layout, with one thread a rank; the layouts of two ranks take turns, as does DDP."""
    rows = []
    for model, config in sizes.items():
        times = run(_measure, 1, config, {"1×1×1": Layout(gpipe(1, 1))}, repeats, timeout=600)[0]
        times |= run(_measure, 2, config, LAYOUTS, repeats, ddp=True, timeout=900)[0]
        tokens = BATCH * config.sequence
        one = times["1×1×1"]
        rows += [Row(model, layout, s, tokens / s, one / s) for layout, s in times.items()]
    return rows


def over_ddp(rows: list[Row]) -> dict[str, float]:
    """For each model the step time of our two replicas over DDP's."""
    times = {(row.model, row.layout): row.seconds for row in rows}
    return {model: times[model, "2×1×1"] / times[model, DDP] for model, layout in times if layout == DDP}


def _measure(config: GPTConfig, layouts: dict[str, Layout], repeats: int, ddp: bool = False) -> dict[str, float]:
    """On a rank: the median seconds of a step in each layout."""
    text, recipe = ByteText(), Recipe(batch=BATCH, steps=10_000)
    trainers = {name: Trainer(config, layout, text, recipe) for name, layout in layouts.items()}
    ways: dict[str, Callable[[], object]] = {name: trainer.train_step for name, trainer in trainers.items()}
    everyone = _world()
    if ddp:
        ways[DDP] = Replicas(config, text, recipe).train_step
    return alternate(ways, repeats, everyone)


def _world() -> Axis:
    """An axis of all ranks."""
    return Mesh(dp=torch.distributed.get_world_size()).dp


class Replicas:
    """The same training by PyTorch's own means, each replica in DistributedDataParallel."""

    def __init__(self, config: GPTConfig, text: ByteText, recipe: Recipe) -> None:
        self.config, self.text, self.recipe = config, text, recipe
        self.mesh = mesh = Mesh(dp=torch.distributed.get_world_size())
        model = GPT(config, mesh, seed=recipe.seed)
        self.loss = token_loss(config, mesh)
        self.model = DistributedDataParallel(model, process_group=mesh.dp.group, gradient_as_bucket_view=True)
        matrices = [p for p in model.parameters() if p.dim() > 1]
        vectors = [p for p in model.parameters() if p.dim() == 1]
        groups = [{"params": matrices, "weight_decay": recipe.decay}, {"params": vectors, "weight_decay": 0.0}]
        self.optimizer = torch.optim.AdamW(groups, recipe.rate, recipe.betas, recipe.eps, fused=True)
        self.step = 0

    def train_step(self) -> float:
        """One step on this replica's half of the batch; returns its loss."""
        batch = self.text.batch(self.step * self.recipe.batch, self.recipe.batch, self.config.sequence)
        inputs, targets = (t.tensor_split(self.mesh.dp.size)[self.mesh.dp.rank].to(self.mesh.device) for t in batch)
        loss = self.loss(self.model(inputs), targets)
        torch.autograd.backward(loss)
        assert self.recipe.clip is not None
        nn.utils.clip_grad_norm_(self.model.parameters(), self.recipe.clip)
        self.optimizer.step()
        self.optimizer.zero_grad()
        self.step += 1
        return loss.item()
