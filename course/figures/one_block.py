"""What the ranks of lesson 04 do: one transformer block, forward and backward, cut or whole.

It stands apart from the pictures so that a rank need not import what only a notebook shows.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.autograd.graph import saved_tensors_hooks

from course.figures.cuts import sent
from minipar import Mesh
from minipar.manifest import gather, manifest
from minipar.model import GPT, GPTConfig
from minipar.tensor import Moment

CONFIG = GPTConfig(vocabulary=1, sequence=32, hidden=64, layers=1, heads=8)
SAMPLES = 4


@dataclass(frozen=True)
class Ran:
    """What a rank has of a block: its part of the result and of dx, whole gradients of weights, bytes sent and kept."""

    result: Tensor
    dx: Tensor
    gradients: dict[str, Tensor]
    forward: float
    backward: float
    kept: int


def run_block(tp: int, sequence_parallel: bool, dtype: torch.dtype) -> Ran:
    """Run one block forward and backward."""
    mesh = Mesh(tp=tp)
    model = GPT(CONFIG, mesh, dtype=dtype, sequence_parallel=sequence_parallel)
    blocks = model.blocks
    x, dy = (_part(tensor, mesh, sequence_parallel) for tensor in _inputs(dtype))
    x.requires_grad_()
    weights = {weight.untyped_storage().data_ptr() for weight in model.parameters()}
    kept: dict[int, int] = {}

    def put_aside(tensor: Tensor) -> Tensor:
        kept[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
        return tensor

    with mesh.ledger.page() as forward, saved_tensors_hooks(put_aside, lambda tensor: tensor):
        y = blocks["0"](x, Moment())
    held = sum(size for place, size in kept.items() if place not in weights)
    with mesh.ledger.page() as backward:
        torch.autograd.backward(y, dy)
    assert x.grad is not None
    entries = {name: entry for name, entry in manifest(model).items() if name.startswith("blocks.")}
    named = [
        (name, weight.grad) for name, weight in model.named_parameters() if name in entries and weight.grad is not None
    ]
    return Ran(y.detach(), x.grad, gather(named, entries, mesh.tp), sent(forward), sent(backward), held)


def _inputs(dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    draw = torch.Generator().manual_seed(1)
    x, dy = (
        torch.randn(SAMPLES, CONFIG.sequence, CONFIG.hidden, generator=draw, dtype=torch.float64) for _i in range(2)
    )
    return x.to(dtype), dy.to(dtype)


def _part(tensor: Tensor, mesh: Mesh, sequence_parallel: bool) -> Tensor:
    whole = tensor.chunk(mesh.tp.size, 1)[mesh.tp.rank] if sequence_parallel else tensor
    return whole.clone().to(mesh.device)
