"""Stages written as a learner would, with tuples between them, and the same model in one process."""

from __future__ import annotations

import sys
from typing import Any

import cloudpickle
import torch
from torch import Tensor, nn

cloudpickle.register_pickle_by_value(sys.modules[__name__])  # so that no rank has to import from the tests

WIDTHS = (3, 5, 4, 6, 2) * 3  # of the input and of the outputs of up to fourteen stages


class Stage(nn.Module):
    """A matrix and a linear layer, of which the last gives `hidden` alone.

    Between stages goes (hidden, a mask, positions, a scale without gradient, a tensor that nobody heeds).
    """

    def __init__(self, stage: int, stages: int) -> None:
        super().__init__()
        self.first, self.last = stage == 0, stage + 1 == stages
        stream = torch.Generator().manual_seed(stage)
        self.weight = nn.Parameter(torch.randn(WIDTHS[stage], WIDTHS[stage + 1], generator=stream, dtype=torch.float64))
        self.linear = nn.Linear(WIDTHS[stage + 1], WIDTHS[stage + 1], dtype=torch.float64)
        for parameter in self.linear.parameters():
            nn.init.normal_(parameter, generator=stream)
        self.unused = nn.Parameter(torch.zeros(1))

    def forward(self, x: Tensor, *others: Tensor) -> Any:
        if self.first:
            others = x[..., 0] > 0, torch.arange(x.shape[1]).expand(x.shape[:2]), x[..., 1:2].abs()
        mask, positions, scale, *_ = others
        y = self.linear(torch.tanh(x @ self.weight)) * scale + positions[..., None]
        y = y.masked_fill(mask[..., None], 0.5)
        return y if self.last else (y, ~mask, positions + 1, scale * 2, y[..., 0] ** 2)


def squared(output: Tensor, target: Tensor) -> Tensor:
    return ((output - target) ** 2).mean()


def batch_of(samples: int, stages: int, sequence: int = 3) -> tuple[Tensor, Tensor]:
    stream = torch.Generator().manual_seed(samples)
    shape = samples, sequence
    return (
        torch.randn(*shape, WIDTHS[0], generator=stream, dtype=torch.float64),
        torch.randn(*shape, WIDTHS[stages], generator=stream, dtype=torch.float64),
    )


def unsplit(stages: int, *batches: tuple[Tensor, Tensor]) -> tuple[list[float], dict[str, Tensor]]:
    """The loss of each batch, and the gradients of all of them by stage and name, in one process."""
    model, losses = [Stage(stage, stages) for stage in range(stages)], []
    for x, target in batches:
        between: Any = (x,)
        for stage in model:
            between = stage(*between)
            between = between if isinstance(between, tuple) else (between,)
        loss = squared(between[0], target)
        loss.backward()
        losses.append(loss.item())
    return losses, gradients(dict(enumerate(model)))


def gradients(model: dict[int, nn.Module]) -> dict[str, Tensor]:
    named = ((f"{number}.{name}", p.grad) for number, stage in model.items() for name, p in stage.named_parameters())
    return {name: gradient for name, gradient in named if gradient is not None}
