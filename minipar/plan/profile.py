"""Measure this machine with a model's real layers, steps and links, and fit the constants of `minipar train` to it."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import torch

from minipar.alphabeta import ALL_REDUCE, REPEATS, LinkMeasure, links_of
from minipar.bench.measure import alternate
from minipar.devices import DEVICE_VARIABLE, Placement, choose, gpus
from minipar.mesh import Mesh
from minipar.model import GPTConfig
from minipar.plan.fit import Measured, fit
from minipar.plan.hardware import Hardware, Link
from minipar.plan.layers import layers_on_rank
from minipar.plan.layout import Numbers
from minipar.plan.machine import THIS_MACHINE, Layer, Machine, Steps
from minipar.plan.own import MINIPAR, model_of
from minipar.plan.software import Range, Software
from minipar.plan.time import step_time
from minipar.plan.work import Bench, block, head
from minipar.train import Recipe, Trainer
from minipar.words import _
from minipar.world import run

SIZES = (1, 2, 4, 8, 16)
ROUNDS = 11
SIDE = 1024  # of the matrices whose product shows the peak
COPIED = 64 << 20  # bytes that are copied to show the memory's bandwidth
UPDATED = 4 << 20  # weights whose update shows the optimizer's speed
START = {
    "matmul": 0.5,
    "passes": 2.0,
    "logits": 16.0,
    "ends": 1e-3,
    "latency": 1e-4,
    "rest": 2e-3,
}
"""What is fitted where any time depends on it, and from where. A model whose layers are timed is too small to show the
optimizer's speed."""


def profile(
    config: GPTConfig,
    ranks: int = 2,
    sizes: Sequence[int] = SIZES,
    rounds: int = ROUNDS,
    notice: Callable[[str], None] = lambda _: None,
    twice: bool = True,
) -> Machine:
    """Measure with so many ranks at work at once; they share the machine, as in training. Takes about a minute.

    config: the model whose layers are measured, at its width and, if `twice`, at twice that; without it half as long,
    and good for this width alone. sizes: samples of micro-batches. rounds: timings of each, of which the median counts.
    notice: told what is measured next. Raises `ValueError`, before a rank starts, for what cannot be measured.
    """
    if ranks < 2:
        raise ValueError(f"ranks={ranks}; links need at least 2")
    if not sizes or list(sizes) != sorted(set(sizes)) or sizes[0] < 1:
        raise ValueError(f"sizes={tuple(sizes)}; they are samples of micro-batches, at least 1 and ascending")
    if rounds < 1:
        raise ValueError(f"rounds={rounds}; at least one is needed")
    config.check(1)
    wide = replace(config, hidden=2 * config.hidden, heads=2 * config.heads, kv_heads=_twice(config))
    widths = [config, wide] if twice else [config]
    degrees = [tp for tp in range(1, ranks + 1) if ranks % tp == 0 and _cuts(config, tp)]
    notice(_("arithmetic, memory and links"))
    speeds = run(_speeds, ranks, rounds, timeout=300)[0]
    layers: list[Layer] = []
    for width in widths:
        for tp in degrees:
            notice(_("layers with hidden={hidden}, tp={tp}").format(hidden=width.hidden, tp=tp))
            layers += run(layers_on_rank, ranks, width, tp, sizes, rounds, timeout=900)[0]
    notice(_("whole steps"))
    steps = [one for width in widths for one in run(_steps, ranks, width, degrees, rounds, timeout=900)[0]]
    return calibrate(_hardware(ranks, speeds), _on_gpu(ranks), speeds.update, layers, steps)


def calibrate(
    hardware: Hardware, ahead: bool, update: float, layers: Sequence[Layer], steps: Sequence[Steps]
) -> Machine:
    """Fit the constants to measured times. Each time counts by its ratio; one that is far off counts less.

    Whole steps are what is to be predicted: they count more. ahead: the host runs ahead of the device. update: seconds
    of the optimizer for each weight.
    """
    # No block is shorter than its start takes: where the device hides it, that alone shows where to begin.
    launch = min(one.forward + one.backward for one in layers if one.name == "block")
    begin: dict[str, Any] = {**START, "update": update * hardware.bandwidth, "launch": launch}
    start = replace(MINIPAR, ahead=ahead, **begin)
    rows = [
        Measured(partial(_layer_seconds, one, turn), (one.forward, one.backward)[turn])
        for one in layers
        for turn in (0, 1)
    ]
    rows += [Measured(partial(_step_seconds, one), one.seconds, weight=2.0) for one in steps]
    names = [name for name in ("launch", *START) if _matters(name, start, rows, hardware)]
    fitted = fit(start, names, rows, hardware, robust=0.2)
    constants = {name: getattr(fitted, name) for name in ("update", *names)}
    return Machine(hardware, ahead, constants, _range(layers, steps), tuple(layers), tuple(steps))


def _matters(name: str, start: Software, rows: Sequence[Measured], hardware: Hardware) -> bool:
    """Whether any row depends on a constant: none does on `latency` without tensor ranks, or on `ends` on a GPU."""
    more: dict[str, Any] = {name: 1.01 * getattr(start, name)}
    benches = Bench(hardware, start), Bench(hardware, replace(start, **more))
    return any(row.predicted(benches[0]) != row.predicted(benches[1]) for row in rows)


def predicted(layer: Layer, bench: Bench) -> tuple[float, float]:
    """Seconds of a layer's forward and backward, as the planner counts them."""
    layout = Numbers(tp=layer.tp, micro_batch=layer.micro_batch)
    return (block if layer.name == "block" else head)(layer.model, layout, bench).seconds


def _layer_seconds(layer: Layer, turn: int, bench: Bench) -> float:
    return predicted(layer, bench)[turn]


def _step_seconds(one: Steps, bench: Bench) -> float:
    return step_time(one.model, one.layout, bench).total


def _range(layers: Sequence[Layer], steps: Sequence[Steps]) -> Range:
    def span(values: Sequence[int]) -> tuple[int, int]:
        return min(values), max(values)

    ranks = max(one.layout.ranks for one in steps)
    return Range(
        ranks=(1, ranks),
        hidden=span([layer.model.hidden for layer in layers]),
        tp=span([layer.tp for layer in layers]),
        pp=(1, ranks),
        tokens=span([layer.micro_batch * layer.model.sequence for layer in layers]),
    )


def _twice(config: GPTConfig) -> int | None:
    return None if config.kv_heads is None else 2 * config.kv_heads


def _cuts(config: GPTConfig, tp: int) -> bool:
    try:
        config.check(tp)
    except ValueError:
        return False
    return True


def _placement(ranks: int) -> Placement:
    return choose(0, ranks, os.environ.get(DEVICE_VARIABLE) or None, gpus())


def _on_gpu(ranks: int) -> bool:
    return _placement(ranks).device.type == "cuda"


def _hardware(ranks: int, speeds: Speeds) -> Hardware:
    placement = _placement(ranks)
    if _on_gpu(ranks):
        memory = torch.cuda.get_device_properties(placement.device).total_memory / math.ceil(ranks / gpus())
    else:
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / ranks
    [ring] = [link for link in speeds.links if link.operation == ALL_REDUCE]
    link = Link(ring.alpha, ring.beta)
    source = _("`minipar profile` with {ranks} ranks on {placement}").format(ranks=ranks, placement=placement)
    return Hardware(THIS_MACHINE, speeds.flops, memory, speeds.bandwidth, ranks, link, link, source)


class Speeds(NamedTuple):
    """Operations a second of a large product, bytes a second of a large copy, seconds of an update for each weight."""

    flops: float
    bandwidth: float
    update: float
    links: list[LinkMeasure]


def _speeds(rounds: int) -> Speeds:
    """On a rank, with all others at it too."""
    mesh = Mesh(tp=torch.distributed.get_world_size())
    side = torch.randn(SIDE, SIDE, device=mesh.device)
    source = torch.ones(COPIED // 4, device=mesh.device)
    target = torch.empty_like(source)
    weights = torch.zeros(UPDATED, device=mesh.device, requires_grad=True)
    weights.grad = torch.ones_like(weights)
    adam = torch.optim.AdamW([weights], fused=True)
    ways: dict[str, Callable[[], object]] = {
        "product": lambda: side @ side,
        "copy": lambda: target.copy_(source),
        "update": adam.step,
    }
    seconds = alternate(ways, rounds, mesh.tp)
    links = links_of(mesh, repeats=min(rounds, REPEATS))
    return Speeds(2 * SIDE**3 / seconds["product"], 2 * COPIED / seconds["copy"], seconds["update"] / UPDATED, links)


def _steps(config: GPTConfig, degrees: Sequence[int], rounds: int) -> list[Steps]:
    """On a rank: median seconds of whole steps of a model of two blocks, by replicas and by tensor ranks."""
    small, world = replace(config, layers=2), torch.distributed.get_world_size()
    layouts = [
        Numbers(dp=world // tp, tp=tp, micro_batch=2, micro_batches=parts) for tp in degrees for parts in (1, 2, 4, 8)
    ]
    trainers = [Trainer(small, one.layout(), _Tokens(small.vocabulary), Recipe(batch=one.batch)) for one in layouts]
    ways = {str(one): trainer.train_step for one, trainer in zip(layouts, trainers, strict=True)}
    seconds = alternate(ways, rounds, Mesh(dp=world).dp)
    return [Steps(model_of(small), one, seconds[str(one)]) for one in layouts]


class _Tokens:
    """Samples of no meaning, the same in every step."""

    def __init__(self, vocabulary: int) -> None:
        self.vocabulary = vocabulary

    def batch(self, first: int, count: int, sequence: int, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
        """The samples ``[count, sequence]``, and as their targets the tokens that follow."""
        tokens = torch.arange(count * (sequence + 1)).reshape(count, -1) * 7919 % self.vocabulary
        return tokens[:, :-1], tokens[:, 1:]
