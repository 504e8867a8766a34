"""Buckets: a rank's weights and gradients as a few flat tensors, added over the replicas while backwards still run.

A collective has a fixed cost, so many small tensors are reduced as one (Li et al. 2020, §3.2.3: "gradient bucketing").
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate

import torch
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

from minipar import comm
from minipar.mesh import Axis
from minipar.pipeline import Action, Schedule

Key = tuple[int, str]
"""A parameter: its stage and its name there."""

SIZE = 25 << 20  # bytes of gradients in one bucket, as PyTorch's DistributedDataParallel has by default


@dataclass(frozen=True)
class Slot:
    """Where one parameter lies in its bucket."""

    name: str
    stage: int
    parameter: nn.Parameter
    start: int

    @property
    def key(self) -> Key:
        """What tells it from all others: the names of two stages may be equal."""
        return self.stage, self.name

    def of(self, flat: Tensor) -> Tensor:
        """The parameter's part of a flat tensor, in its shape."""
        return flat[self.start : self.start + self.parameter.numel()].view(self.parameter.shape)


@dataclass
class Bucket:
    """Some parameters, laid end to end.

    model: their values ``[n]``, of which the parameters are views; n is made divisible by dp.
    gradients: the main gradients ``[n]``. matrices: entries from the start that are matrices'; vectors come after them.
    """

    slots: tuple[Slot, ...]
    matrices: int
    model: Tensor
    gradients: Tensor
    awaited: set[Key] = field(default_factory=set)
    pending: comm.Pending | None = None


class Buckets:
    """All parameters of this rank's stages in buckets, and the sums of their gradients.

    Each parameter gets an attribute `main_grad`, a view of its bucket, which sums its gradients over the micro-batches
    of a step: in float32 where the model computes in less, as 256 + 1 is 256 in bfloat16.

    Give `before` and `after` to `minipar.pipeline.run`. When a stage's gradients are complete they start on
    their way: within its last backward one bucket after the other, under a schedule that splits backwards after the
    stage's last I or W. Tied weights wait for `finish`, because what the replicas add must be the sum over the copies.
    All replicas run the same schedule, so they start the same buckets in the same order.
    """

    def __init__(
        self,
        stages: Mapping[int, nn.Module],
        schedule: Schedule,
        axis: Axis,
        dtype: torch.dtype,
        tied: frozenset[Key] = frozenset(),
        shard: bool = False,
        size: int = SIZE,
    ) -> None:
        """Move the parameters into buckets of about `size` bytes.

        axis: the replicas'. dtype: of the main gradients. tied: stages and names of weights with a copy elsewhere.
        shard: each replica gets the sum of its share of every bucket only (ZeRO), not of all.
        """
        self.axis, self.shard = axis, shard
        own = [a for row in schedule.actions for a in row if a.stage in stages and a.kind != "F"]
        self._last = {action.stage: action for action in own}
        self._splits = any(action.kind in "IW" for action in own)
        self._hooks: list[RemovableHandle] = []
        self.buckets: list[Bucket] = []
        self._of: dict[Key, Bucket] = {}
        for slots in _runs(stages, tied, size // dtype.itemsize):
            bucket = _bucket(slots, axis.size, dtype)
            self.buckets.append(bucket)
            self._of.update({slot.key: bucket for slot in slots})
        self._order = [bucket for bucket in self.buckets if bucket.slots[0].key not in tied]

    @property
    def slots(self) -> Iterator[tuple[Bucket, Slot]]:
        """Every parameter's slot, with its bucket."""
        return ((bucket, slot) for bucket in self.buckets for slot in bucket.slots)

    def zero(self) -> None:
        """Begin a step: all sums are 0."""
        for bucket in self.buckets:
            bucket.gradients.zero_()
            bucket.awaited = {slot.key for slot in bucket.slots}
            for slot in bucket.slots:
                # The gradients of the model's own type are summed in place; others are added by a hook.
                main = slot.parameter.main_grad  # type: ignore[attr-defined]
                slot.parameter.grad = main if main.dtype == slot.parameter.dtype else None
        self._next = 0

    def before(self, action: Action) -> None:
        """Ahead of each action: in a stage's last backward each parameter's gradient is complete when it comes."""
        if self.axis.size > 1 and not self._splits and self._last[action.stage] == action:
            for _bucket, slot in self.slots:
                if slot.stage == action.stage:
                    self._hooks.append(_on_gradient(slot.parameter, self._arrival(slot.key)))

    def _arrival(self, key: Key) -> Callable[[Tensor], None]:
        return lambda _: self._complete([key])

    def after(self, action: Action) -> None:
        """Behind each action: the stage's last one completes all its gradients, also those that are 0."""
        if self._last[action.stage] == action:
            for hook in self._hooks:
                hook.remove()
            self._hooks.clear()
            self._complete([slot.key for _, slot in self.slots if slot.stage == action.stage])

    def _complete(self, keys: Sequence[Key]) -> None:
        for key in keys:
            self._of[key].awaited.discard(key)
        while self._next < len(self._order) and not self._order[self._next].awaited:
            self._start(self._order[self._next])
            self._next += 1

    def _start(self, bucket: Bucket) -> None:
        start = comm.start_reduce_scatter if self.shard else comm.start_all_reduce_in_place
        bucket.pending = start(bucket.gradients, self.axis)

    def finish(self) -> None:
        """Wait until every sum is there; the tied weights' start now."""
        for bucket in self.buckets:
            if bucket.pending is None:
                self._start(bucket)
        for bucket in self.buckets:
            assert bucket.pending is not None
            total, bucket.pending = bucket.pending.wait(), None
            if self.shard and self.axis.size > 1:
                self.own(bucket.gradients).copy_(total)

    def own(self, flat: Tensor) -> Tensor:
        """What this replica updates of a flat tensor: with ZeRO its share, else all."""
        return comm.slices(flat, self.axis, 0)[self.axis.rank] if self.shard else flat


def _runs(stages: Mapping[int, nn.Module], tied: frozenset[Key], most: int) -> Iterator[tuple[Slot, ...]]:
    """Which parameters share a bucket: of one stage, in the order of its backward, matrices before vectors."""
    for stage in sorted(stages, reverse=True):
        named = [(name, p) for name, p in reversed(list(stages[stage].named_parameters())) if p.requires_grad]
        for waits in (False, True):
            some: list[tuple[str, nn.Parameter]] = []
            for name, parameter in (item for item in named if ((stage, item[0]) in tied) == waits):
                if some and sum(p.numel() for _, p in some) + parameter.numel() > most:
                    yield _slots(stage, some)
                    some = []
                some.append((name, parameter))
            if some:
                yield _slots(stage, some)


def _slots(stage: int, named: Sequence[tuple[str, nn.Parameter]]) -> tuple[Slot, ...]:
    ordered = sorted(named, key=lambda item: item[1].dim() <= 1)
    starts = accumulate((p.numel() for _, p in ordered), initial=0)
    return tuple(Slot(name, stage, p, start) for (name, p), start in zip(ordered, starts, strict=False))


def _bucket(slots: Sequence[Slot], replicas: int, dtype: torch.dtype) -> Bucket:
    """A bucket of these parameters, which become views of it."""
    first, last = slots[0].parameter, slots[-1]
    length = -(-(last.start + last.parameter.numel()) // replicas) * replicas
    model = first.new_zeros(length)
    gradients = torch.zeros(length, dtype=dtype, device=first.device)
    with torch.no_grad():
        for slot in slots:
            slot.of(model).copy_(slot.parameter)
            slot.parameter.data = slot.of(model)
            slot.parameter.main_grad = main = slot.of(gradients)  # type: ignore[attr-defined]
            if main.dtype != slot.parameter.dtype:
                _on_gradient(slot.parameter, _add_to_main)
    matrices = sum(slot.parameter.numel() for slot in slots if slot.parameter.dim() > 1)
    return Bucket(tuple(slots), matrices, model, gradients)


def _on_gradient(parameter: nn.Parameter, hook: Callable[[Tensor], None]) -> RemovableHandle:
    """Call `hook` whenever a backward has added to the parameter's `.grad`."""
    handle: RemovableHandle = parameter.register_post_accumulate_grad_hook(hook)  # type: ignore[no-untyped-call]
    return handle


def _add_to_main(parameter: Tensor) -> None:
    if parameter.grad is not None:
        parameter.main_grad += parameter.grad  # type: ignore[attr-defined]
        parameter.grad = None
