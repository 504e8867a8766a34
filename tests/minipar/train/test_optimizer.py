"""Gradients of a low-precision model, summed in float32."""

from __future__ import annotations

import torch
from torch import nn

from minipar.train import MainGradients


def add(model: nn.Linear, *gradients: float) -> None:
    """Backward passes whose gradient of the weight is each of these numbers."""
    for gradient in gradients:
        model(torch.full((1, 1), gradient, dtype=model.weight.dtype)).sum().backward()


def test_small_gradients_are_not_lost_beside_large_ones() -> None:
    """ISEEKYAN/Megatron-LM#149: 256 + 1 is 256 in bfloat16."""
    plain, summed = (nn.Linear(1, 1, bias=False, dtype=torch.bfloat16) for _ in range(2))
    main = MainGradients(summed)
    for model in (plain, summed):
        add(model, 256, 1)
    assert plain.weight.grad is not None
    assert plain.weight.grad.item() == 256
    assert main.sums["weight"].dtype == torch.float32
    assert main.sums["weight"].item() == 257
    assert summed.weight.grad is None


def test_many_micro_batches_sum_exactly() -> None:
    model = nn.Linear(1, 1, bias=False, dtype=torch.bfloat16)
    main = MainGradients(model)
    add(model, *[1] * 1000)
    assert main.sums["weight"].item() == 1000
    main.zero()
    add(model, 3)
    assert main.sums["weight"].item() == 3


def test_a_weight_used_twice_counts_once_a_backward_and_a_frozen_one_never() -> None:
    model = nn.ModuleDict({"one": nn.Linear(1, 1, bias=False), "frozen": nn.Linear(1, 1).requires_grad_(False)})
    model["other"] = model["one"]
    main = MainGradients(model)
    x = torch.ones(1, 1)
    (model["one"](x) + 2 * model["other"](x) + model["frozen"](x)).sum().backward()
    assert {name: total.item() for name, total in main.sums.items()} == {"one.weight": 3.0}


def test_once_detached_it_leaves_gradients_alone() -> None:
    model = nn.Linear(1, 1, bias=False)
    main = MainGradients(model)
    main.detach()
    add(model, 2)
    assert model.weight.grad is not None
    assert model.weight.grad.item() == 2
    assert main.sums == {}
