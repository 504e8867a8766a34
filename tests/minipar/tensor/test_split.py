"""Splitting a model of one's own, and putting it together again."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor
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


class Image(nn.Module):
    """A convolution and norms that are left whole, and an MLP after them. (A bias before a batch norm does nothing.)"""

    def __init__(self) -> None:
        super().__init__()
        self.see, self.batch, self.norm = nn.Conv1d(1, 4, 3, bias=False), nn.BatchNorm1d(4), nn.LayerNorm(12)
        self.mlp = nn.Sequential(nn.Linear(12, 8), nn.ReLU(), nn.Linear(8, 5))

    def forward(self, tokens: Tensor) -> Tensor:
        return self.mlp(self.norm(self.batch(self.see(tokens.double().unsqueeze(1))).flatten(1)))


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
@pytest.mark.parametrize("kind", ["transformer", "image"])
def test_a_learners_model_trains_as_unsplit_and_comes_back_whole(kind: str, tp: int) -> None:
    def made() -> nn.Module:
        torch.manual_seed(0)
        return (Learner() if kind == "transformer" else Image()).double()

    plan = PLAN if kind == "transformer" else {"mlp.0": column, "mlp.2": row}

    def on_rank() -> tuple[Tensor, dict[str, Tensor], dict[str, Tensor], list[str]]:
        axis = Mesh(tp=tp).tp
        model = split_module(made(), plan, axis)

        def whole(model: nn.Module) -> dict[str, Tensor]:
            return gather(((n, p.grad) for n, p in model.named_parameters()), manifest(model), axis)

        y, gradients = train(model, whole)
        kinds = [type(layer).__name__ for layer in join_module(model).modules()]
        return y, gradients, model.state_dict(), kinds

    dense = made()
    y, gradients = train(dense, lambda model: {n: p.grad for n, p in model.named_parameters()})
    for ours, ours_gradients, weights, kinds in minipar.run(on_rank, tp, timeout=20, device="cpu"):
        assert_close([ours], [y])
        assert_close_by_name(ours_gradients, gradients)
        assert_close_by_name(weights, dense.state_dict())
        assert kinds == [type(layer).__name__ for layer in dense.modules()]


def test_it_does_what_pytorchs_own_split_does() -> None:
    """torch.distributed.tensor.parallel as the oracle, with the same plan."""
    theirs_of = {"[qkv]": ColwiseParallel, "out": RowwiseParallel, "up": ColwiseParallel, "down": RowwiseParallel}
    ours_of = {"[qkv]": column, "out": row, "up": column, "down": row}

    def on_rank(tp: int) -> list[dict[str, Tensor]]:
        axis = Mesh(tp=tp).tp
        devices = init_device_mesh("cpu", (tp,))
        theirs = parallelize_module(learner(), devices, {name: style() for name, style in theirs_of.items()})
        ours, results = split_module(learner(), ours_of, axis), []
        for model in (ours, theirs):
            y = model(TOKENS)
            (y**2).mean().backward()
            results.append({"y": y.detach()})
        results[0] |= gather(((n, p.grad) for n, p in ours.named_parameters()), manifest(ours), axis)
        for name, p in theirs.named_parameters():
            results[1][name] = p.grad.full_tensor() if isinstance(p.grad, DTensor) else p.grad
        return results

    for tp in (2, 4):
        for ours, theirs in minipar.run(on_rank, tp, tp, timeout=30, device="cpu"):
            assert_close_by_name(ours, theirs)


@pytest.mark.parametrize(
    ("plan", "says"),
    [
        ({"up": column, "nothing.*": row}, r"no layer is called 'nothing\.\*'; there are: embed, norm, q"),
        ({"up": column, "norm": column}, "norm: a LayerNorm cannot be split so; a Linear can"),
        ({"up": column, "logits": row, "embed": row}, "embed: a Embedding cannot be split so"),
        ({"up": column, "u*": column}, "up: two patterns of the plan match it"),
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


def test_what_is_frozen_stays_frozen_split_and_joined() -> None:
    model = learner()
    for layer in (model.embed, model.up, model.out):
        layer.weight.requires_grad_(False)
    expected = {name: p.requires_grad for name, p in model.named_parameters()}
    split_module(model, PLAN, Mesh().tp)
    assert {name: p.requires_grad for name, p in model.named_parameters()} == expected
    join_module(model)
    assert {name: p.requires_grad for name, p in model.named_parameters()} == expected


@pytest.mark.parametrize("shared", ["parameter", "layer"])
def test_layers_that_share_a_parameter_are_not_torn_apart(shared: str) -> None:
    """torchtitan#2252: tied layers that go their own ways train another model, and nobody notices."""
    model = learner()
    if shared == "layer":
        model.again = model.q
    else:
        model.logits = nn.Linear(16, 13).double()
        model.logits.weight = model.embed.weight
    with pytest.raises(ValueError, match=r"(q|embed): it shares a parameter with another layer"):
        split_module(model, {"up": column, "embed": vocabulary, "q": column}, Mesh().tp)
    assert type(model.up) is nn.Linear
    split_module(model, {"up": column}, Mesh().tp)


def test_a_model_that_is_itself_the_layer_is_refused() -> None:
    with pytest.raises(ValueError, match=r"no layer is called '\*'"):
        split_module(nn.Linear(4, 4), {"*": column}, Mesh().tp)


def test_a_linear_that_another_layer_reads_the_weight_of_is_refused() -> None:
    with pytest.raises(ValueError, match=r"out_proj: a NonDynamicallyQuantizableLinear cannot be split so"):
        split_module(nn.MultiheadAttention(4, 2), {"out_proj": row}, Mesh().tp)


def test_an_embedding_that_does_more_than_look_up_is_refused() -> None:
    for options in ({"padding_idx": 0}, {"max_norm": 1.0}, {"scale_grad_by_freq": True}):
        with pytest.raises(ValueError, match="0: an embedding with padding_idx, max_norm or scale_grad_by_freq"):
            split_module(nn.Sequential(nn.Embedding(4, 4, **options)), {"0": vocabulary}, Mesh().tp)
