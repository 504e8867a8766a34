"""`minipar bench tensor`: a feed-forward and a transformer block, beside `torch.distributed.tensor.parallel`."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

from minipar.bench.measure import alternate, geometric_mean
from minipar.devices import gpus
from minipar.mesh import Mesh
from minipar.model import GPTConfig
from minipar.model.gpt import Block, Cutting, FeedForward
from minipar.tensor import Draw, Moment
from minipar.world import run

SIZES = ((1, 64, 128), (2, 128, 256), (4, 256, 512))  # batch, sequence, hidden
HEAD_SIZE = 32

Model = Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class Row:
    """One comparison: median seconds of a forward and backward, split over `tp` and unsplit (on every rank at once)."""

    model: str
    batch: int
    sequence: int
    hidden: int
    tp: int
    unsplit_seconds: float
    minipar_seconds: float
    torch_seconds: float

    @property
    def ratio(self) -> float:
        """minipar's time over PyTorch's."""
        return self.minipar_seconds / self.torch_seconds


class PlainFeedForward(nn.Module):
    """The feed-forward as PyTorch's own layers, for PyTorch to split."""

    plan = ("up", "down")

    def __init__(self, hidden: int) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(hidden, 4 * hidden), nn.Linear(4 * hidden, hidden)

    def forward(self, x: Tensor) -> Tensor:
        """Widen, bend, narrow."""
        result: Tensor = self.down(F.gelu(self.up(x)))
        return result


class PlainBlock(nn.Module):
    """The block as PyTorch's own layers. Queries, keys and values are one matrix, head by head, so that an
    even cut of its rows gives whole heads and one all-reduce serves all three: the fastest way to use PyTorch's split.
    """

    plan = ("qkv", "out", "feed_forward.up", "feed_forward.down")

    def __init__(self, hidden: int) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(hidden), nn.LayerNorm(hidden)
        self.qkv, self.out = nn.Linear(hidden, 3 * hidden, bias=False), nn.Linear(hidden, hidden)
        self.feed_forward = PlainFeedForward(hidden)

    def forward(self, x: Tensor) -> Tensor:
        """Attend, then feed forward, each behind a norm and beside a residual."""
        q, k, v = self.qkv(self.norm1(x)).unflatten(-1, (-1, 3, HEAD_SIZE)).permute(3, 0, 2, 1, 4)
        found = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2)
        x = x + self.out(found)
        result: Tensor = x + self.feed_forward(self.norm2(x))
        return result


PLAIN: dict[str, type[PlainFeedForward] | type[PlainBlock]] = {"feed-forward": PlainFeedForward, "block": PlainBlock}


def bench(repeats: int = 9, sizes: tuple[tuple[int, int, int], ...] = SIZES) -> list[Row]:
    """Every model and size, over 2 ranks and, where there are as many cores or GPUs, over 4."""
    degrees = (2, 4) if (gpus() or os.cpu_count() or 1) >= 4 else (2,)
    return [row for tp in degrees for row in run(_measure, tp, repeats, sizes, timeout=600)[0]]


def geomean_ratio(rows: list[Row]) -> float:
    """The geometric mean of minipar's time over PyTorch's."""
    return geometric_mean([row.ratio for row in rows])


def _measure(repeats: int, sizes: tuple[tuple[int, int, int], ...]) -> list[Row]:
    """On a rank: all rows, each way in turn."""
    mesh = Mesh(tp=torch.distributed.get_world_size())
    kind = "cuda" if mesh.placement.transport == "nccl" else "cpu"
    theirs = init_device_mesh(kind, (mesh.tp.size,))
    rows = []
    for name, plain in PLAIN.items():
        for batch, sequence, hidden in sizes:
            x = torch.randn(batch, sequence, hidden, device=mesh.device, requires_grad=True)
            unsplit = plain(hidden).to(mesh.device)
            split = parallelize_module(
                plain(hidden).to(mesh.device),
                theirs,
                {layer: (ColwiseParallel(), RowwiseParallel())[i % 2] for i, layer in enumerate(plain.plan)},
            )
            ours = _ours(name, hidden, mesh)
            ways: dict[str, Model] = {"minipar": ours, "torch": split, "unsplit": unsplit}
            seconds = alternate({way: partial(_step, model, x) for way, model in ways.items()}, repeats, mesh.tp)
            times = (seconds[way] for way in ("unsplit", "minipar", "torch"))
            rows.append(Row(name, batch, sequence, hidden, mesh.tp.size, *times))
    return rows


def _ours(name: str, hidden: int, mesh: Mesh) -> Model:
    config = GPTConfig(hidden=hidden, heads=hidden // HEAD_SIZE)
    cutting = Cutting(mesh.tp, Draw(seed=0))
    if name == "feed-forward":
        return FeedForward(config, cutting).to(mesh.device)
    block = Block(config, cutting).to(mesh.device)
    return lambda x: block(x, Moment())


def _step(model: Model, x: Tensor) -> None:
    """A forward and a backward, as a training step has them."""
    x.grad = None
    torch.autograd.backward(model(x).sum())
