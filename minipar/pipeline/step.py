"""One training step as one rank does it: its instructions, and what it remembers between them."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from minipar.mesh import Mesh
from minipar.pipeline.lower import Receive, Send, Skip, users
from minipar.pipeline.schedule import Action, Result, Schedule, makes
from minipar.store import WeightStore
from minipar.wire import Line

Tensors = tuple[Tensor, ...]
Loss = Callable[[Tensor, Tensor], Tensor]
Weigh = Callable[[Tensor], float]
Mail = dict[tuple[Result, int], Tensors]
"""Results that have arrived or were made here, by what they are and which stage works on them."""


@dataclass
class Live:
    """What a stage keeps of one micro-batch from its forward to its backward.

    inputs and outputs: by the stage that they come from and go to. Of the outputs no tensor is kept, only the way
    back: `exit` is a number that they all lead to, and whose backward starts from `gradients`.
    """

    inputs: Mapping[int, Tensors]
    exit: Tensor | None
    gradients: list[Tensor] = field(default_factory=list)


@dataclass
class Step:
    """What one rank knows and remembers during one step."""

    schedule: Schedule
    stages: Mapping[int, nn.Module]
    micro_batches: Sequence[Tensors]
    loss: Loss
    share: Weigh
    """Which share of the whole batch a micro-batch is, from its targets."""
    mesh: Mesh
    lines: Mapping[int, Line]
    skips: Sequence[Skip] = ()
    store: WeightStore | None = None
    """Where weight gradients wait, if the schedule splits backwards."""
    loss_sum: float | Tensor = 0.0
    live: dict[tuple[int, int], Live] = field(default_factory=dict)
    mail: Mail = field(default_factory=dict)
    due: dict[int, deque[tuple[Result, int]]] = field(default_factory=dict)
    """For each rank what it will send, in order."""

    def expect(self, instruction: Receive) -> None:
        """Note that this message comes; it is received when something works on it."""
        self.due.setdefault(instruction.source, deque()).append((instruction.result, instruction.stage))

    def send(self, instruction: Send) -> None:
        """Send a result that is in the mail."""
        result, to, stage = instruction
        self.lines[to].send((result[0], result[1], stage), self.mail.pop((result, stage)))

    def fetch(self, action: Action) -> dict[int, Tensors]:
        """What `action` works on, by the stage it comes from; waited for if that is on another rank."""
        kind, stage, i = action
        if kind == "W":
            return {}
        if kind == "F" and stage == 0:
            return {-1: (self.micro_batches[i][0].to(self.mesh.device),)}
        # A forward needs what a backward of the same stage feeds, and the other way round.
        opposite = users(Action("I" if kind == "F" else "F", stage, i), self.schedule.stages, self.skips)
        made = "F" if kind == "F" else "I"
        return {other: self._take(Action(made, other, i), stage) for other in opposite}  # type: ignore[arg-type]

    def _take(self, result: Result, stage: int) -> Tensors:
        source = self.schedule.holder[result[1]]
        while (result, stage) not in self.mail:
            self.mail[self.due[source].popleft()] = self.lines[source].receive()
        return self.mail.pop((result, stage))

    def do(self, action: Action, arrived: Mapping[int, Tensors]) -> None:
        """Compute `action` and put its results into the mail."""
        if action.kind == "W":
            assert self.store is not None
            self.store.finish(action[1:])
            return
        results = self._forward(action, arrived) if action.kind == "F" else self._backward(action, arrived)
        for stage in users(action, self.schedule.stages, self.skips):
            self.mail[makes(action), stage] = results[stage]

    def _forward(self, action: Action, inputs: Mapping[int, Tensors]) -> dict[int, Tensors]:
        """Run the stage; in the last one the loss too, whose gradient its backward starts from."""
        stage = action.stage
        made = self.stages[stage](*(tensor for source in inputs.values() for tensor in source))
        outputs = self._by_user(action, tuple(made) if isinstance(made, tuple | list) else (made,))
        live = Live(inputs, None)
        if torch.is_grad_enabled():
            self.live[action[1:]] = live
        if stage + 1 == self.schedule.stages:
            target = self.micro_batches[action.micro_batch][1]
            share, output = self.share(target), outputs[stage + 1][0]
            # Where nothing counts the mean is of nothing, and not a number.
            loss = self.loss(output, target.to(self.mesh.device)) if share else 0 * output.sum()
            if loss.dim():
                raise ValueError(
                    f"the loss has shape {tuple(loss.shape)}; it must be one number, a mean over the samples"
                )
            live.exit = loss * share
            self.loss_sum = self.loss_sum + live.exit.detach().double()
            return {}
        wanting = [tensor for tensors in outputs.values() for tensor in tensors if tensor.requires_grad]
        if wanting:
            live.exit = _Exit.apply(live.gradients, *wanting)  # type: ignore[no-untyped-call]
        return {to: tuple(t.detach().requires_grad_(t.requires_grad) for t in sent) for to, sent in outputs.items()}

    def _by_user(self, action: Action, outputs: Tensors) -> dict[int, Tensors]:
        """A stage's outputs by who works on them: the last ones go by the skips that start here, one each."""
        skipping = [skip.target for skip in self.skips if skip.source == action.stage]
        main = len(outputs) - len(skipping)
        if main < 1:
            raise ValueError(
                f"stage {action.stage} gave {len(outputs)} tensors, of which the last {len(skipping)} skip to "
                f"stages {skipping}; the next stage would get none"
            )
        by_skips = {to: (tensor,) for to, tensor in zip(skipping, outputs[main:], strict=True)}
        return {action.stage + 1: outputs[:main], **by_skips}

    def _backward(self, action: Action, gradients: Mapping[int, Tensors]) -> dict[int, Tensors]:
        """Run the stage's backward; returns the gradients of the inputs that want one, by where these came from."""
        key = action[1:]
        live = self.live.pop(key)
        live.gradients.extend(gradient for tensors in gradients.values() for gradient in tensors)
        with nullcontext() if self.store is None else self.store.opened(key):
            if live.exit is not None and live.exit.requires_grad:
                torch.autograd.backward(live.exit)
        if self.store is not None and action.kind == "B":
            self.store.finish(key)
        return {
            source: tuple(torch.zeros_like(t) if t.grad is None else t.grad for t in tensors if t.requires_grad)
            for source, tensors in live.inputs.items()
        }


class _Exit(torch.autograd.Function):
    """A number that all outputs of a stage lead to, so that their data can be freed and the way back kept."""

    @staticmethod
    def forward(ctx: Any, gradients: list[Tensor], *outputs: Tensor) -> Tensor:
        ctx.gradients = gradients
        return outputs[0].new_zeros(())

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, _: Tensor) -> tuple[Tensor | None, ...]:
        return None, *ctx.gradients
