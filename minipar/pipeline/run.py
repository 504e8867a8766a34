"""Run a schedule on real ranks: one training step's forwards and backwards, cut into micro-batches."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor, nn

from minipar import comm
from minipar.devices import local_ranks
from minipar.ledger import Traffic
from minipar.mesh import Mesh
from minipar.pipeline.clock import Clock
from minipar.pipeline.lower import Program, Receive, Send, Skip, check_skips, lower
from minipar.pipeline.norm import commit_batch_norms
from minipar.pipeline.schedule import Action, Schedule, check
from minipar.pipeline.simulate import Costs
from minipar.pipeline.step import Loss, Step, Tensors, Weigh
from minipar.pipeline.ties import TIE, Tie, Ties
from minipar.pipeline.timeline import Span, Timeline
from minipar.store import WeightStore
from minipar.wire import Line


@dataclass(frozen=True)
class StepResult:
    """What one step gave: its loss (the same on every rank), who did what when, and what this rank sent."""

    loss: float
    timeline: Timeline
    traffic: list[Traffic]


def run(
    schedule: Schedule,
    stages: Mapping[int, nn.Module],
    batch: tuple[Tensor, Tensor],
    loss: Loss,
    mesh: Mesh,
    pace: Costs | None = None,
    before: Callable[[Action], None] | None = None,
    after: Callable[[Action], None] | None = None,
    skips: Sequence[tuple[int, int]] = (),
    ties: Sequence[Tie] = (),
    weigh: Weigh = len,
    whole: float | None = None,
) -> StepResult:
    """Do every forward and backward of `schedule` for one batch; every rank of the mesh calls this.

    stages: the stages that this rank holds, by number. A stage maps a tensor, or a tuple of them, to the next.
    batch: inputs and targets, ``[batch, …]`` each, the same on all pipeline ranks.
    loss: ``loss(output, target)``, the *mean* over what it is given. Micro-batches count by their
        number of samples, so a ragged last one is right too; or by what `weigh` gives.
    pace: seconds that each action shall take at least, slept where the real work is shorter (emulation).
    before: called ahead of each action, to tell the stage which micro-batch comes (for its dropout, say).
    after: called behind each action.
    skips: pairs (source, target) of stages: the last tensors that the source gives, one for each of its skips, go
        straight to the target, which takes them after its other inputs.
    ties: weights that several stages share, each as its name by stage; every copy gets the sum of their gradients.
    weigh: how much a micro-batch counts, from its targets: where some are ignored, the number of the others.
    whole: how much the whole batch counts, where this one is a part of it (replicas, gradient accumulation).

    Gradients are added to `.grad`, as `backward` does: the sum over micro-batches is the gradient of the mean
    loss of the whole batch. Where the schedule splits backwards, linear layers leave their weights' gradients to W;
    other modules compute all of theirs in I. Deferred batch norms are updated once, at the end.
    Raises `ValueError` before any communication for a schedule or a batch that does not fit.
    """
    over = tuple(Skip(*skip) for skip in skips)
    programs = _programs(schedule, over)
    _check_fit(schedule, stages, len(batch[0]), len(batch[1]), mesh)
    share = _shares(batch[1], weigh, whole)
    tied = Ties(ties, schedule, stages, mesh)
    splits = any(action.kind in "IW" for action in schedule.actions[mesh.pp.rank])
    store = WeightStore() if splits else None
    with mesh.ledger.page() as page, ExitStack() as stack:
        stack.enter_context(torch.enable_grad())
        if store is not None:
            for stage in stages.values():
                stack.enter_context(store.lent_to(stage))
        lines = _lines(programs[mesh.pp.rank], mesh, tied)
        step = _step(schedule, stages, batch, loss, mesh, lines, over, share, store)
        clock = _aligned_clock(mesh)
        _perform(step, programs[mesh.pp.rank], clock, pace, before, after)
        tied.add_up(lines)
        for stage in stages.values():
            commit_batch_norms(stage)
        for line in lines.values():
            line.flush()
    total, timeline = _together(schedule, step, clock, emulated=pace is not None or mesh.links is not None)
    return StepResult(total, timeline, page.rows())


def evaluate(
    schedule: Schedule,
    stages: Mapping[int, nn.Module],
    batch: tuple[Tensor, Tensor],
    loss: Loss,
    mesh: Mesh,
    skips: Sequence[tuple[int, int]] = (),
    weigh: Weigh = len,
    whole: float | None = None,
) -> float:
    """The mean loss of a batch, on every rank, with the stages in evaluation mode: the forwards of `schedule` alone.

    Leaves no gradients behind, and the random streams and the stages' modes as they were. Arguments and errors are
    those of `run`.
    """
    check(schedule)
    forwards = tuple(tuple(action for action in row if action.kind == "F") for row in schedule.actions)
    only = Schedule(f"{schedule.name}, forwards", forwards, schedule.holder)
    over = tuple(Skip(*skip) for skip in skips)
    check_skips(over, schedule.stages)
    _check_fit(schedule, stages, len(batch[0]), len(batch[1]), mesh)
    share = _shares(batch[1], weigh, whole)
    program = lower(only, over)[mesh.pp.rank]
    with torch.no_grad(), _evaluating(stages, mesh):
        lines = _lines(program, mesh)
        step = _step(only, stages, batch, loss, mesh, lines, over, share)
        _perform(step, program, Clock(mesh.device))
        for line in lines.values():
            line.flush()
    return sum(numbers[0] for numbers in comm.gather_numbers([float(step.loss_sum)], mesh.pp))


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


@lru_cache(maxsize=16)
def _programs(schedule: Schedule, skips: tuple[Skip, ...]) -> tuple[Program, ...]:
    """The checked and lowered schedule, kept, as a training does the same one again and again."""
    check(schedule)
    check_skips(skips, schedule.stages)
    return lower(schedule, skips)


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


def _lines(program: Program, mesh: Mesh, ties: Ties | None = None) -> dict[int, Line]:
    """A line to every rank that this one exchanges messages with, which knows what will come."""
    coming: dict[int, list[Hashable]] = {i.to: [] for i in program if isinstance(i, Send)}
    for i in program:
        if isinstance(i, Receive):
            coming.setdefault(i.source, []).append((i.result[0], i.result[1], i.stage))
    for rank in range(mesh.pp.size) if ties else ():
        if messages := ties.messages(rank):  # type: ignore[union-attr]
            coming.setdefault(rank, []).extend([TIE] * messages)
    lines = {peer: mesh.lines.setdefault(peer, Line(mesh.pp, peer)) for peer in coming}
    for peer, line in lines.items():
        line.expect(coming[peer])
    return lines


def _step(
    schedule: Schedule,
    stages: Mapping[int, nn.Module],
    batch: tuple[Tensor, Tensor],
    loss: Loss,
    mesh: Mesh,
    lines: Mapping[int, Line],
    skips: Sequence[Skip],
    share: Weigh,
    store: WeightStore | None = None,
) -> Step:
    return Step(schedule, stages, split_batch(batch, schedule.micro_batches), loss, share, mesh, lines, skips, store)


def _shares(targets: Tensor, weigh: Weigh, whole: float | None) -> Weigh:
    """The function that gives which share of the whole batch a micro-batch is, from its targets."""
    weight = weigh(targets)
    if whole is not None and whole < weight:
        raise ValueError(f"whole={whole:g}, but this part of the batch counts {weight:g} already")
    total = weight if whole is None else whole
    return lambda part: weigh(part) / total if total else 0.0


def _perform(
    step: Step,
    program: Program,
    clock: Clock,
    pace: Costs | None = None,
    before: Callable[[Action], None] | None = None,
    after: Callable[[Action], None] | None = None,
) -> None:
    """Do this rank's instructions in order; an action starts when its input is there and ends when its result is."""
    for instruction in program:
        if isinstance(instruction, Receive):
            step.expect(instruction)
        elif isinstance(instruction, Send):
            step.send(instruction)
        else:
            action = instruction.action
            arrived = step.fetch(action)
            if before is not None:
                before(action)
            clock.mark()
            step.do(action, arrived)
            if pace is not None:
                clock.hold(pace.of(action))
            clock.mark()
            if after is not None:
                after(action)


def _aligned_clock(mesh: Mesh) -> Clock:
    """A clock that all ranks share: the machine's own, or where there are several, one that starts at a barrier."""
    machines = local_ranks()[1] < mesh.pp.size * mesh.dp.size * mesh.tp.size
    if machines:
        comm.barrier(mesh.pp)
    return Clock(mesh.device, from_now=machines)


def _together(schedule: Schedule, step: Step, clock: Clock, emulated: bool) -> tuple[float, Timeline]:
    """The step's loss and everyone's spans, from what each rank knows of its own."""
    longest = max(map(len, schedule.actions))
    times = clock.times()
    own = [float(step.loss_sum), *times, *[0.0] * (2 * longest - len(times))]
    spans, total = [], 0.0
    everyone = comm.gather_numbers(own, step.mesh.pp)
    origin = min(numbers[1] for numbers, row in zip(everyone, schedule.actions, strict=True) if row)
    for rank, (row, (loss, *marks)) in enumerate(zip(schedule.actions, everyone, strict=True)):
        total += loss
        for k, action in enumerate(row):
            spans.append(Span(rank, action, marks[2 * k] - origin, marks[2 * k + 1] - origin))
    return total, Timeline(tuple(spans), schedule.ranks, emulated)


@contextmanager
def _evaluating(stages: Mapping[int, nn.Module], mesh: Mesh) -> Iterator[None]:
    """Evaluation mode within, and afterwards modes and random streams as before."""
    modes = [(module, module.training) for stage in stages.values() for module in stage.modules()]
    devices = [mesh.device] if mesh.device.type == "cuda" else []
    try:
        with torch.random.fork_rng(devices):
            for stage in stages.values():
                stage.eval()
            yield
    finally:
        for module, training in modes:
            module.training = training
