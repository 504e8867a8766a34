"""How long each layer of a chain takes, measured."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

import torch
from torch import Tensor, nn

from minipar.pipeline.norm import DeferredBatchNorm

Tensors = tuple[Tensor, ...]


class LayerTime(NamedTuple):
    """Seconds that a layer's forward and its backward take."""

    forward: float
    backward: float

    @property
    def total(self) -> float:
        """Seconds of both."""
        return self.forward + self.backward


def layer_seconds(layers: Sequence[nn.Module], sample: Tensor, repeats: int = 5) -> list[LayerTime]:
    """Median seconds of each layer over `repeats` rounds of the whole chain, after one round that is not counted.

    layers: each maps a tensor, or a tuple of them as arguments, to the next, as stages do. They run where they are,
    in the mode they are in: layers in eval mode drop nothing out.
    sample: what the first layer gets, say a micro-batch. If it is of floats, it is taken for what an earlier layer
    made, and the first layer's backward computes its gradient too. Whatever comes out is given a gradient of ones.

    Parameters, their gradients, buffers and torch's random streams are left as they were. So
    ``balanced_cuts([t.total for t in layer_seconds(blocks, x)], stages)`` cuts by what was measured.
    Raises `ValueError` for fewer than one repeat.
    """
    if repeats < 1:
        raise ValueError(f"repeats={repeats}; a median needs at least 1")
    with _left_as_it_was(layers, sample.device), torch.enable_grad():
        # Rounds of the chain, not runs of one layer, so that a moment when the machine is busy is no one layer's.
        _, *rounds = [list(_round(layers, sample)) for _ in range(1 + repeats)]
    return [LayerTime(*map(statistics.median, zip(*times, strict=True))) for times in zip(*rounds, strict=True)]


def _round(layers: Sequence[nn.Module], sample: Tensor) -> Iterator[LayerTime]:
    device = sample.device
    between: Tensors = (sample.detach().requires_grad_(sample.is_floating_point() or sample.is_complex()),)
    for layer in layers:
        leaves = tuple(t.detach().requires_grad_(t.requires_grad) for t in between)
        # A layer may write over its input, which would change the sample, and is an error for a leaf.
        inputs = tuple(t.clone() for t in leaves)
        began = _now(device)
        outputs = layer(*inputs)
        forward = _now(device) - began
        between = outputs if isinstance(outputs, tuple) else (outputs,)
        wanting = [t for t in between if t.requires_grad]
        wanted = [t for t in (*leaves, *layer.parameters()) if t.requires_grad]
        gradients = [torch.ones_like(t) for t in wanting]
        began = _now(device)
        if wanting and wanted:
            torch.autograd.grad(wanting, wanted, gradients, allow_unused=True)
        yield LayerTime(forward, _now(device) - began)


def _now(device: torch.device) -> float:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter()


@contextmanager
def _left_as_it_was(layers: Sequence[nn.Module], device: torch.device) -> Iterator[None]:
    """Meanwhile use copies of the buffers, as of running statistics, and of the random streams."""
    modules = dict.fromkeys(module for layer in layers for module in layer.modules())
    buffers = [(module, name, buffer) for module in modules for name, buffer in module.named_buffers(recurse=False)]
    pending = [(module, module.pending) for module in modules if isinstance(module, DeferredBatchNorm)]
    with torch.random.fork_rng([device] if device.type == "cuda" else []):
        try:
            for module, name, buffer in buffers:
                setattr(module, name, buffer.clone())
            yield
        finally:
            for module, name, buffer in buffers:
                setattr(module, name, buffer)
            for norm, before in pending:
                norm.pending = before
