"""What an optimizer needs beside PyTorch's own: gradients summed in float32 when the model computes in less."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn


class MainGradients:
    """Float32 sums of a low-precision model's gradients, by the parameters' full names.

    bfloat16 has 8 significant bits: 256 + 1 is 256 there, so gradients of many micro-batches summed in it lose the
    small ones. As soon as a backward has a parameter's gradient, it is added to the sum here, and `.grad` is freed.
    """

    def __init__(self, model: nn.Module) -> None:
        self.sums: dict[str, Tensor] = {}
        self._handles = [
            parameter.register_post_accumulate_grad_hook(self._adder(name))  # type: ignore[no-untyped-call]
            for name, parameter in model.named_parameters()
            if parameter.requires_grad
        ]

    def _adder(self, name: str) -> Callable[[Tensor], None]:
        def add(parameter: Tensor) -> None:
            if parameter.grad is None:
                return
            gradient, parameter.grad = parameter.grad, None
            if name in self.sums:
                self.sums[name] += gradient
            else:
                self.sums[name] = gradient.to(torch.float32, copy=True)

        return add

    def zero(self) -> None:
        """Begin the sums anew."""
        self.sums.clear()

    def detach(self) -> None:
        """Leave the model's gradients alone from now on."""
        for handle in self._handles:
            handle.remove()
