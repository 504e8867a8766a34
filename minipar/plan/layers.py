"""On ranks: how long a real model's layers take for a micro-batch, each direction by itself, and what they keep."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import NamedTuple

import torch
from torch import Tensor, nn

from minipar import comm
from minipar.mesh import Axis, Mesh
from minipar.model import GPT, GPTConfig, token_loss
from minipar.plan.machine import Layer
from minipar.plan.own import model_of
from minipar.store import WeightStore

WARM_UPS = 3
LONGEST = 1.0  # seconds of a forward and backward, from which on larger micro-batches are left out


class Piece(NamedTuple):
    """A layer as a function of features ``[batch, seq, hidden]``."""

    name: str
    fn: Callable[[Tensor], Tensor]


def layers_on_rank(config: GPTConfig, tp: int, sizes: Sequence[int], rounds: int) -> list[Layer]:
    """On every rank, all at work at once: a block, and the ends, for micro-batches of these sizes; the slowest counts.

    sizes: samples, ascending. Those after one that takes longer than `LONGEST` are left out.
    """
    world = torch.distributed.get_world_size()
    mesh, every = Mesh(dp=world // tp, tp=tp), Mesh(dp=world).dp
    model = GPT(replace(config, layers=1), mesh)
    found: list[Layer] = []
    for size in sizes:
        features = torch.randn(size, config.sequence, config.hidden, device=mesh.device)
        for piece in pieces(model, config, size, mesh):
            forward, backward, inputs, weights = _directions(piece, model, features, every, rounds)
            kept = kept_bytes(piece, model, features)
            found.append(Layer(piece.name, model_of(config), tp, size, forward, backward, inputs, weights, kept))
        if sum(layer.forward + layer.backward for layer in found[-2:]) > LONGEST:
            break
    return found


def pieces(model: GPT, config: GPTConfig, size: int, mesh: Mesh) -> Iterator[Piece]:
    """A block of the model, and its ends: an embedding whose result the head and the loss then get."""
    block, head, embedding = model.blocks["0"], model.head, model.embedding
    assert head is not None  # the model is whole
    assert embedding is not None
    yield Piece("block", lambda x: block(x, model.moment))
    tokens = torch.randint(0, config.vocabulary, (size, config.sequence), device=mesh.device)
    loss = token_loss(config, mesh)
    yield Piece("ends", lambda x: loss(head(x + embedding(tokens, model.moment)), tokens))


def kept_bytes(piece: Piece, model: nn.Module, features: Tensor) -> float:
    """Bytes of the tensors that its graph keeps, each storage once, without the weights."""
    weights = {p.untyped_storage().data_ptr() for p in model.parameters()}
    kept: dict[int, int] = {}

    def keep(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in weights:
            kept[storage.data_ptr()] = storage.nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        result = piece.fn(features.detach().requires_grad_())
    del result  # only now may what it keeps be freed, and its addresses be used again
    return float(sum(kept.values()))


def _directions(piece: Piece, model: nn.Module, features: Tensor, every: Axis, rounds: int) -> list[float]:
    """Median seconds of forward, backward, and the backward's two halves; those of the slowest rank."""
    times = [_once(piece, model, features, every) for _ in range(WARM_UPS + rounds)][WARM_UPS:]
    medians = [statistics.median(column) for column in zip(*times, strict=True)]
    return [max(column) for column in zip(*comm.gather_numbers(medians, every), strict=True)]


def _once(piece: Piece, model: nn.Module, features: Tensor, every: Axis) -> tuple[float, float, float, float]:
    store = WeightStore()
    comm.barrier(every)
    marks = [_now(features)]

    def mark() -> None:
        marks.append(_now(features))

    whole = piece.fn(features.detach().requires_grad_())
    mark()
    gradient = torch.ones_like(whole)
    torch.autograd.backward(whole, gradient)
    mark()
    with store.lent_to(model):
        halves = piece.fn(features.detach().requires_grad_())
        mark()
        with store.opened(0):
            torch.autograd.backward(halves, gradient)
        mark()
        store.finish(0)
        mark()
    forward, backward, _, inputs, weights = (later - earlier for earlier, later in pairwise(marks))
    return forward, backward, inputs, weights


def _now(tensor: Tensor) -> float:
    if tensor.device.type == "cuda":
        torch.cuda.synchronize(tensor.device)
    return time.perf_counter()
