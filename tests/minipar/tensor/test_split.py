"""Splitting a model of one's own, and putting it together again."""

from __future__ import annotations

import copy
from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

import minipar
from minipar import Mesh
from minipar.manifest import gather, manifest
from minipar.tensor import column, gathered_column, join_module, row, split_module, vocabulary
from tests.minipar.equality import assert_close, assert_close_by_name

ADAM = {"lr": 1e-3, "eps": 1e-6}


class Learner(nn.Module):
    """A small transformer as a learner would write it: embedding, one block with attention of its own, logits."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.norm = nn.Embedding(13, 16), nn.LayerNorm(16)
        # No bias for keys: its gradient is zero but for rounding, so there is nothing to compare with.
        self.q, self.k, self.v = nn.Linear(16, 16), nn.Linear(16, 16, bias=False), nn.Linear(16, 16)
        self.out, self.up, self.down = nn.Linear(16, 16), nn.Linear(16, 32), nn.Linear(32, 16, bias=False)
        self.logits = nn.Linear(16, 12)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.embed(tokens)
        q, k, v = (f(self.norm(x)).unflatten(-1, (-1, 4)).transpose(1, 2) for f in (self.q, self.k, self.v))
        x = x + self.out(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2))
        return self.logits(x + self.down(F.gelu(self.up(x))))


PLAN = {"embed": vocabulary, "[qkv]": column, "out": row, "up": column, "down": row, "logits": gathered_column}
TOKENS = torch.arange(15).reshape(3, 5) % 13


def learner() -> Learner:
    torch.manual_seed(0)
    return Learner().double()


def train(model: nn.Module, gradients: Callable[[nn.Module], dict[str, Tensor]]) -> tuple[Tensor, dict[str, Tensor]]:
    """Three steps; returns the last output, and the gradients of the last step."""
    optimizer = torch.optim.AdamW(model.parameters(), **ADAM)
    for _ in range(3):
        optimizer.zero_grad()
        y = model(TOKENS)
        (y**2).mean().backward()
        optimizer.step()
    return y.detach(), gradients(model)


@pytest.mark.parametrize("tp", [1, 2, 4])
def test_a_learners_transformer_trains_as_unsplit_and_comes_back_whole(tp: int) -> None:
    def on_rank() -> tuple[Tensor, dict[str, Tensor], dict[str, Tensor], list[str]]:
        axis = Mesh(tp=tp).tp
        model = split_module(learner(), PLAN, axis)

        def whole(model: nn.Module) -> dict[str, Tensor]:
            return gather(((n, p.grad) for n, p in model.named_parameters()), manifest(model), axis)

        y, gradients = train(model, whole)
        kinds = [type(layer).__name__ for layer in join_module(model).children()]
        return y, gradients, model.state_dict(), kinds

    dense = learner()
    y, gradients = train(dense, lambda model: {n: p.grad for n, p in model.named_parameters()})
    for ours, ours_gradients, weights, kinds in minipar.run(on_rank, tp, timeout=20, device="cpu"):
        assert_close([ours], [y])
        assert_close_by_name(ours_gradients, gradients)
        assert_close_by_name(weights, dense.state_dict())
        assert kinds == [type(layer).__name__ for layer in dense.children()]


def test_it_does_what_pytorchs_own_split_does() -> None:
    """torch.distributed.tensor.parallel as the oracle, with the same plan."""

    def on_rank() -> tuple[list[Tensor], list[Tensor]]:
        x = torch.randn(5, 8, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
        torch.manual_seed(0)
        plain = nn.Sequential(nn.Linear(8, 12), nn.GELU(), nn.Linear(12, 6)).double()
        results = []
        theirs = parallelize_module(
            copy.deepcopy(plain), init_device_mesh("cpu", (2,)), {"0": ColwiseParallel(), "2": RowwiseParallel()}
        )
        axis = Mesh(tp=2).tp
        ours = split_module(copy.deepcopy(plain), {"0": column, "2": row}, axis)
        for model in (ours, theirs):
            leaf = x.clone().requires_grad_()
            y = model(leaf)
            (y**2).sum().backward()
            results.append([y.detach(), leaf.grad])
        whole = gather(((n, p.grad) for n, p in ours.named_parameters()), manifest(ours), axis)
        results[0] += whole.values()
        results[1] += [p.grad.full_tensor() for p in theirs.parameters()]
        return results[0], results[1]

    for ours, theirs in minipar.run(on_rank, 2, timeout=30, device="cpu"):
        assert_close(ours, theirs)


@pytest.mark.parametrize(
    ("plan", "says"),
    [
        ({"up": column, "nothing.*": row}, r"no layer is called 'nothing\.\*'; there are: embed, norm, q"),
        ({"up": column, "norm": column}, "norm: a LayerNorm cannot be split so; a Linear can"),
        ({"up": column, "logits": row, "embed": row}, "embed: a Embedding cannot be split so"),
        ({"up": column, "out": lambda layer, axis: column(nn.Linear(3, 3), axis)}, "out: a dimension of 3 cannot"),
    ],
)
def test_a_plan_that_does_not_fit_is_refused_and_nothing_is_replaced(plan: dict, says: str) -> None:
    def on_rank() -> list[str]:
        model = learner()
        with pytest.raises(ValueError, match=says):
            split_module(model, plan, Mesh(tp=2).tp)
        return [type(layer).__name__ for layer in model.children()]

    kinds = [type(layer).__name__ for layer in learner().children()]
    assert minipar.run(on_rank, 2, timeout=20, device="cpu") == [kinds] * 2
