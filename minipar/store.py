"""The weight-gradient store: what the split backward of a linear layer leaves for later.

The gradient of a linear layer's input is needed at once, by the stage before; those of its weights by nobody until
the optimizer. So a backward can put them off (Qi et al. 2024, §2): the layer keeps its input and the gradient of its
output here, and the two are multiplied when the schedule has time for it.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

Gradients = Callable[[], Sequence[Tensor | None]]


class WeightStore:
    """Gradients of weights that are still to be computed, under the key of the backward that put them off.

    A layer that can split its backward has an attribute `weight_store`, None but within `lent_to`.
    """

    def __init__(self) -> None:
        self._put_off: dict[Hashable, list[tuple[Sequence[Tensor | None], Gradients]]] = {}
        self._open: Hashable = None

    def __len__(self) -> int:
        """Of how many backwards the weight gradients wait."""
        return len(self._put_off)

    @contextmanager
    def opened(self, key: Hashable) -> Iterator[None]:
        """What is put off in this block is kept under `key`, which must be new."""
        if key in self._put_off:
            raise KeyError(f"the weight gradients of {key} wait already")
        self._put_off[key], self._open = [], key
        yield
        self._open = None

    def put_off(self, weights: Sequence[Tensor | None], gradients: Gradients) -> None:
        """Keep what gives the gradients of these leaf tensors (None where one wants none)."""
        self._put_off[self._open].append((weights, gradients))

    def finish(self, key: Hashable) -> None:
        """Compute what waits under `key` and add it to the `.grad` of each weight; `KeyError` if nothing was opened."""
        if key not in self._put_off:
            raise KeyError(f"no weight gradients of {key} wait; its input's gradient comes first")
        sums: dict[Tensor, Tensor] = {}
        for weights, gradients in self._put_off.pop(key):
            for weight, gradient in zip(weights, gradients(), strict=True):
                if weight is not None and gradient is not None:
                    sums[weight] = sums[weight] + gradient if weight in sums else gradient
        if sums:
            # A backward from the weights themselves, so that their hooks see these gradients like all others.
            torch.autograd.backward(list(sums), list(sums.values()))

    @contextmanager
    def lent_to(self, model: nn.Module) -> Iterator[None]:
        """Within this block the linear layers of `model` put their weight gradients off into this store."""
        lent, taken_over = [], []
        for module in model.modules():
            if hasattr(module, "weight_store"):
                module.weight_store = self  # type: ignore[assignment]
                lent.append(module)
            elif type(module) is nn.Linear and "forward" not in vars(module):
                module.forward = partial(_forward, module, self)  # type: ignore[method-assign]
                taken_over.append(module)
        try:
            yield
        finally:
            for module in lent:
                module.weight_store = None  # type: ignore[assignment]
            for module in taken_over:
                del module.forward


def _forward(module: nn.Linear, store: WeightStore, x: Tensor) -> Tensor:
    return linear(x, module.weight, module.bias, store)


def linear(x: Tensor, weight: Tensor, bias: Tensor | None, store: WeightStore | None) -> Tensor:
    """``x weightᵀ + bias``, as `torch.nn.functional.linear`; with a `store` its backward puts the weights' part off.

    Where the weight is computed from others, its gradient cannot wait, and nothing is put off.
    """
    if store is None or not torch.is_grad_enabled() or torch.is_autocast_enabled(x.device.type):
        return F.linear(x, weight, bias)
    held = hold_back(x, weight, bias)
    if held is None:
        return F.linear(x, weight, bias)
    result: Tensor = _Linear.apply(x, *held, (weight, bias), store)  # type: ignore[no-untyped-call]
    return result


def hold_back(x: Tensor, weight: Tensor, bias: Tensor | None) -> tuple[Tensor, Tensor, Tensor | None] | None:
    """An entry to the graph in place of the weights, and these without a gradient; None where theirs cannot wait.

    The weights stay out of the graph, as otherwise their hooks would be called in I too, with no gradient.
    """
    leaves = [t for t in (weight, bias) if t is not None]
    if not all(t.is_leaf for t in leaves):
        return None
    entry = x.new_empty(0).requires_grad_(any(t.requires_grad for t in leaves))
    return entry, weight.detach(), None if bias is None else bias.detach()


Weights = tuple[Tensor, Tensor | None]


class _Linear(torch.autograd.Function):
    """A linear layer whose backward computes the gradient of its input alone."""

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, entry: Tensor, weight: Tensor, bias: Tensor | None, weights: Weights, store: WeightStore
    ) -> Tensor:
        ctx.save_for_backward(x, weight)
        ctx.weights, ctx.store = weights, store
        return F.linear(x, weight, bias)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        x, weight = ctx.saved_tensors
        if ctx.needs_input_grad[1]:
            # Detached, or until W the input would hold the graph that it came from, which this backward is done with.
            ctx.store.put_off(ctx.weights, partial(weight_gradients, x.detach(), gradient, *wanting(ctx.weights)))
        return gradient @ weight if ctx.needs_input_grad[0] else None, None, None, None, None, None


def wanting(weights: Weights) -> tuple[bool, bool]:
    """Which of weight and bias want a gradient."""
    weight, bias = weights
    return weight.requires_grad, bias is not None and bias.requires_grad


def weight_gradients(x: Tensor, gradient: Tensor, weight_wants: bool, bias_wants: bool) -> list[Tensor | None]:
    """The gradients of weight and bias, from a linear layer's input and its output's gradient."""
    rows = gradient.reshape(-1, gradient.shape[-1])
    of_weight = rows.T @ x.reshape(-1, x.shape[-1]) if weight_wants else None
    return [of_weight, rows.sum(0) if bias_wants else None]
