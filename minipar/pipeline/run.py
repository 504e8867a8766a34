"""Run a schedule on real ranks: one training step's forwards and backwards, cut into micro-batches."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from minipar import comm
from minipar.links import hold
from minipar.mesh import Mesh
from minipar.pipeline.schedule import Action, Schedule, check, feeds, needs
from minipar.pipeline.simulate import Costs
from minipar.pipeline.timeline import Span, Timeline
from minipar.wire import Inbox, Outbox

Tensors = tuple[Tensor, ...]
Loss = Callable[[Tensor, Tensor], Tensor]


@dataclass(frozen=True)
class StepResult:
    """What one step gave: its loss (the same on every rank), who did what when, and what this rank sent."""

    loss: float
    timeline: Timeline
    traffic: list[comm.Traffic]


def run(
    schedule: Schedule,
    stages: Mapping[int, nn.Module],
    batch: tuple[Tensor, Tensor],
    loss: Loss,
    mesh: Mesh,
    pace: Costs | None = None,
    before: Callable[[Action], None] | None = None,
) -> StepResult:
    """Do every forward and backward of `schedule` for one batch; every rank of the mesh calls this.

    stages: the stages that this rank holds, by number. A stage maps a tensor, or a tuple of them, to the next.
    batch: inputs and targets, ``[batch, …]`` each, the same on all pipeline ranks.
    loss: ``loss(output, target)``, the *mean* over the samples it is given. Micro-batches count by their
        number of samples, so a ragged last one is right too.
    pace: seconds that each action shall take at least, slept where the real work is shorter (emulation).

    before: called ahead of each action, to tell the stage which micro-batch comes (for its dropout, say).

    Gradients are added to `.grad`, as `backward` does: the sum over micro-batches is the gradient of the mean
    loss of the whole batch. Raises `ValueError` before any communication for a schedule or a batch that does not fit.
    """
    check(schedule)
    _check_fit(schedule, stages, len(batch[0]), len(batch[1]), mesh)
    with mesh.ledger.page() as page:
        step = _Step(schedule, stages, split_batch(batch, schedule.micro_batches), loss, mesh)
        comm.barrier(mesh.pp)
        spans = _perform(step, schedule.actions[mesh.pp.rank], mesh, pace, before)
        for outbox in step.outboxes.values():
            outbox.flush()
        last = schedule.holder[-1]
        total = comm.broadcast(torch.tensor(step.loss_sum, dtype=torch.float64), mesh.pp, last)
    everyone = comm.gather_objects(spans, mesh.pp)
    timeline = Timeline(tuple(span for spans in everyone for span in spans), schedule.ranks)
    return StepResult(total.item(), timeline, page.rows())


def split_batch(batch: Sequence[Tensor], micro_batches: int) -> list[Tensors]:
    """Cut each tensor of `batch` along its first dimension into that many parts, whose sizes differ by at most one.

    Raises `ValueError` where there are fewer samples than micro-batches.
    """
    samples = len(batch[0])
    if not 1 <= micro_batches <= samples:
        raise ValueError(
            f"a batch of {samples} samples cannot be cut into {micro_batches} micro-batches; 1 to {samples} would fit"
        )
    return list(zip(*(tensor.tensor_split(micro_batches) for tensor in batch), strict=True))


def _check_fit(schedule: Schedule, stages: Mapping[int, nn.Module], samples: int, targets: int, mesh: Mesh) -> None:
    if schedule.ranks != mesh.pp.size:
        raise ValueError(f"schedule {schedule.name!r} is for pp={schedule.ranks}, but the mesh has pp={mesh.pp.size}")
    held = {stage for stage, rank in enumerate(schedule.holder) if rank == mesh.pp.rank}
    if set(stages) != held:
        raise ValueError(f"pipeline rank {mesh.pp.rank} holds stages {sorted(held)}, but was given {sorted(stages)}")
    if samples != targets:
        raise ValueError(f"a batch of {samples} inputs and {targets} targets; every input needs its target")
    if schedule.micro_batches > samples:
        raise ValueError(
            f"{schedule.micro_batches} micro-batches need at least as many samples; the batch has {samples}"
        )


def _perform(
    step: _Step,
    actions: Sequence[Action],
    mesh: Mesh,
    pace: Costs | None,
    before: Callable[[Action], None] | None,
) -> list[Span]:
    """Do this rank's actions in order; a span starts when the input is there and ends when the result is."""
    began = time.perf_counter()
    spans = []
    for action in actions:
        arrived = step.take(action)
        if before is not None:
            before(action)
        start = time.perf_counter()
        result = step.forward(action, arrived) if action.kind == "F" else step.backward(action, arrived)
        if mesh.device.type == "cuda":
            torch.cuda.synchronize(mesh.device)
        if pace is not None:
            hold(start, pace.of(action))
        spans.append(Span(mesh.pp.rank, action, start - began, time.perf_counter() - began))
        step.pass_on(action, result)
    return spans


@dataclass
class _Step:
    """What one rank remembers during one step."""

    schedule: Schedule
    stages: Mapping[int, nn.Module]
    micro_batches: list[Tensors]
    loss: Loss
    mesh: Mesh
    loss_sum: float = 0.0
    live: dict[tuple[int, int], tuple[Tensors, Tensors]] = field(default_factory=dict)
    """(stage, micro-batch) -> its inputs and outputs, from its forward to its backward."""
    handed: dict[Action, Tensors] = field(default_factory=dict)
    """Results that another stage of this same rank works on, by the action that will."""
    outboxes: dict[int, Outbox] = field(init=False)
    inboxes: dict[int, Inbox] = field(init=False)

    def __post_init__(self) -> None:
        """Open one line for each kind and stage that another rank feeds or is fed by."""
        me, p, holder = self.mesh.pp.rank, self.schedule.stages, self.schedule.holder
        mine = [Action(kind, stage, 0) for kind in ("F", "B") for stage in self.stages]
        to = {_line(a): holder[fed.stage] for a in mine if (fed := feeds(a, p)) and holder[fed.stage] != me}
        source = {_line(n): holder[n.stage] for a in mine if (n := needs(a, p)) and holder[n.stage] != me}
        self.outboxes = {line: Outbox(self.mesh.pp, rank, line) for line, rank in to.items()}
        count = self.schedule.micro_batches
        self.inboxes = {line: Inbox(self.mesh.pp, rank, line, count) for line, rank in source.items()}

    def take(self, action: Action) -> Tensors:
        """What `action` works on, waited for if it must come from another rank."""
        need = needs(action, self.schedule.stages)
        if need is None:
            return (self.micro_batches[action.micro_batch][0].to(self.mesh.device),)
        if _line(need) in self.inboxes:
            return self.inboxes[_line(need)].receive(action.micro_batch)
        return self.handed.pop(action, ())

    def forward(self, action: Action, inputs: Tensors) -> Tensors:
        """Run the stage; in the last one the loss too, whose gradient its backward starts from."""
        outputs = _as_tuple(self.stages[action.stage](*inputs))
        if action.stage + 1 == self.schedule.stages:
            target = self.micro_batches[action.micro_batch][1].to(self.mesh.device)
            samples = sum(len(inputs) for inputs, _ in self.micro_batches)
            loss = self.loss(outputs[0], target) * (len(target) / samples)
            self.loss_sum += loss.item()
            outputs = (loss,)
        self.live[action.stage, action.micro_batch] = inputs, outputs
        return outputs

    def backward(self, action: Action, gradients: Tensors) -> Tensors:
        """Run the stage's backward; returns the gradients of the inputs that want one."""
        inputs, outputs = self.live.pop((action.stage, action.micro_batch))
        wanting = tuple(t for t in outputs if t.requires_grad)
        if wanting:
            torch.autograd.backward(wanting, gradients or None)
        return tuple(torch.zeros_like(t) if t.grad is None else t.grad for t in inputs if t.requires_grad)

    def pass_on(self, action: Action, result: Tensors) -> None:
        """Hand the result to the action that works on it, on this rank or another."""
        fed = feeds(action, self.schedule.stages)
        if fed is None:
            return
        if _line(action) in self.outboxes:
            self.outboxes[_line(action)].send(action.micro_batch, result)
        elif action.kind == "F":
            self.handed[fed] = tuple(t.detach().requires_grad_(t.requires_grad) for t in result)
        else:
            self.handed[fed] = result


def _line(action: Action) -> int:
    """The number of the line that carries the results of this kind and stage."""
    return 2 * action.stage + (action.kind == "B")


def _as_tuple(outputs: Tensor | Tensors) -> Tensors:
    return outputs if isinstance(outputs, tuple) else (outputs,)
