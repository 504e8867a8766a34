"""The optimizer: AdamW on flat main weights, with one gradient norm and one decision for all ranks."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby
from typing import NamedTuple

import torch
from torch import Tensor, nn

from minipar import comm
from minipar.manifest import Entry
from minipar.mesh import Mesh
from minipar.train.buckets import Bucket, Buckets, Slot
from minipar.train.recipe import Recipe
from minipar.train.scale import LossScale

MOMENTS = ("exp_avg", "exp_avg_sq")


class Update(NamedTuple):
    """The norm of all gradients together, before clipping, and whether the weights were updated."""

    norm: float
    done: bool


class Run(NamedTuple):
    """Entries ``start:stop`` of a flat tensor that count `share` in the norm, as others hold them too."""

    start: int
    stop: int
    share: float


class Optimizer:
    """AdamW (Loshchilov & Hutter 2019) on this rank's buckets, or with ZeRO-1 on its share of them.

    Where the model computes in less than float32 the weights are kept in float32 here, and rounded after each update.
    """

    def __init__(self, buckets: Buckets, entries: Mapping[str, Entry], mesh: Mesh, recipe: Recipe) -> None:
        self.buckets, self.mesh, self.recipe = buckets, mesh, recipe
        self.shares = [_share(bucket, buckets) for bucket in buckets.buckets]
        self._runs = [list(_own_runs(bucket, buckets, entries, mesh)) for bucket in buckets.buckets]
        matrices, vectors = ([part for share in self.shares for part in share.parts[kind]] for kind in (True, False))
        groups = [{"params": matrices, "weight_decay": recipe.decay}, {"params": vectors, "weight_decay": 0.0}]
        groups = [group for group in groups if group["params"]]
        self.adam = torch.optim.AdamW(groups, recipe.rate, recipe.betas, recipe.eps, fused=True)
        for share in self.shares:
            for part, state in share.states:
                self.adam.state[part] = state

    def norm(self) -> float:
        """The norm of the unsplit model's gradient, the same bits on every rank.

        Each of its entries counts once: a replicated one a tp-th on each tensor rank, a repeated key-value head its
        part, and a tied weight's copy nothing.
        """
        square = torch.zeros((), dtype=torch.float64, device=self.mesh.device)
        for held, runs in zip(self.shares, self._runs, strict=True):
            for start, stop, share in runs:
                square = square + share * torch.linalg.vector_norm(held.gradients[start:stop]).double().square()
        total = square.item()
        axes = [self.mesh.tp, self.mesh.pp, *([self.mesh.dp] if self.buckets.shard else [])]
        for axis in axes:
            total = sum(number for [number] in comm.gather_numbers([total], axis))
        return math.sqrt(total) if total >= 0 else math.nan

    def update(self, rate: float, scale: LossScale | None = None) -> Update:
        """Clip and step, unless a gradient is not finite: then nothing changes, on no rank.

        scale: what the loss was multiplied by, for half precision; it learns whether that was too much.
        """
        factor = 1.0 if scale is None else 1 / scale.factor
        norm = self.norm() * factor
        finite = math.isfinite(norm)
        if scale is not None:
            scale.heard(finite)
        if not finite:
            return Update(norm, False)
        if self.recipe.clip is not None:
            factor *= min(1.0, self.recipe.clip / (norm + 1e-6))  # as torch.nn.utils.clip_grad_norm_ does
        if factor != 1.0:
            for share in self.shares:
                share.gradients.mul_(factor)
        for group in self.adam.param_groups:
            group["lr"] = rate
        self.adam.step()
        self._publish()
        return Update(norm, True)

    def _publish(self) -> None:
        """Give the model its new weights."""
        for bucket, share in zip(self.buckets.buckets, self.shares, strict=True):
            own = self.buckets.own(bucket.model)
            if own.data_ptr() != share.kinds["weights"].data_ptr():
                own.copy_(share.kinds["weights"])
            if self.buckets.shard:
                comm.all_gather_in_place(bucket.model, self.buckets.axis)

    def state(self) -> dict[str, dict[str, Tensor]]:
        """The main weights and AdamW's moments by full name, whole as this rank's stages hold them.

        With ZeRO every replica calls this, as each has a share.
        """
        kinds: dict[str, dict[str, Tensor]] = {kind: {} for kind in ("weights", *MOMENTS)}
        for bucket, share in zip(self.buckets.buckets, self.shares, strict=True):
            for kind, named in kinds.items():
                own = share.kinds[kind]
                flat = comm.all_gather(own, self.buckets.axis) if self.buckets.shard else own
                named.update({slot.name: slot.of(flat) for slot in bucket.slots})
        return kinds

    def gradients(self) -> dict[str, Tensor]:
        """The main gradients by full name, as `state` gives the weights."""
        named = {}
        for bucket in self.buckets.buckets:
            own = self.buckets.own(bucket.gradients)
            flat = comm.all_gather(own, self.buckets.axis) if self.buckets.shard else own
            named.update({slot.name: slot.of(flat).clone() for slot in bucket.slots})
        return named

    def load(self, kinds: Mapping[str, Mapping[str, Tensor]], steps: int) -> None:
        """Undo `state`, also for weights alone; `steps` is how many updates there were."""
        for bucket, share in zip(self.buckets.buckets, self.shares, strict=True):
            for kind, named in kinds.items():
                flat = torch.zeros_like(bucket.gradients)
                for slot in bucket.slots:
                    slot.of(flat).copy_(named[slot.name])
                share.kinds[kind].copy_(self.buckets.own(flat))
            for _, state in share.states:
                state["step"].fill_(steps)
        self._publish()

    @property
    def steps(self) -> int:
        """How many updates there were; skipped steps do not count."""
        return max((int(state["step"]) for share in self.shares for _, state in share.states), default=0)


@dataclass(frozen=True)
class Share:
    """What this replica updates of one bucket, as flat tensors ``[n]``: with ZeRO n is a dp-th.

    kinds: the main weights and the moments. parts: what AdamW is given of them, by whether it decays. states: of each
    part its moments, which are views of those in `kinds`, and its counter.
    """

    kinds: dict[str, Tensor]
    gradients: Tensor
    parts: dict[bool, list[nn.Parameter]]
    states: list[tuple[nn.Parameter, dict[str, Tensor]]]


def _share(bucket: Bucket, buckets: Buckets) -> Share:
    """This replica's share of a bucket, with moments of 0."""
    own, gradients = buckets.own(bucket.model), buckets.own(bucket.gradients)
    main = own if own.dtype == gradients.dtype else own.to(gradients.dtype)
    kinds = {"weights": main} | {kind: torch.zeros_like(main) for kind in MOMENTS}
    border = min(max(bucket.matrices - (len(own) * buckets.axis.rank if buckets.shard else 0), 0), len(own))
    share = Share(kinds, gradients, {True: [], False: []}, [])
    for decays, piece in ((True, slice(0, border)), (False, slice(border, len(own)))):
        if piece.start < piece.stop:
            part = nn.Parameter(main[piece])
            part.grad = gradients[piece]
            steps = torch.zeros((), dtype=torch.float32, device=main.device)
            share.parts[decays].append(part)
            share.states.append((part, {"step": steps, **{kind: kinds[kind][piece] for kind in MOMENTS}}))
    return share


def _own_runs(bucket: Bucket, buckets: Buckets, entries: Mapping[str, Entry], mesh: Mesh) -> Iterator[Run]:
    """How the entries that this rank updates count in the norm, from where they start in its share."""
    own = len(buckets.own(bucket.model))
    offset = own * mesh.dp.rank if buckets.shard else 0
    every = [run for slot in bucket.slots for run in _shares(slot, entries[slot.name], mesh.tp.size)]
    for share, runs in groupby(every, key=lambda run: run.share):  # slots lie end to end
        several = list(runs)
        start, stop = max(several[0].start - offset, 0), min(several[-1].stop - offset, own)
        if start < stop and share:
            yield Run(start, stop, share)


def _shares(slot: Slot, entry: Entry, tp: int) -> Iterator[Run]:
    """How one parameter's entries count, by how many ranks hold them."""
    start, stop = slot.start, slot.start + slot.parameter.numel()
    if entry.copy_of is not None:
        yield Run(start, stop, 0.0)
        return
    if entry.cut is None:
        yield Run(start, stop, 1 / tp)
        return
    parts = [section.parts(tp) for section in entry.cut.sections]
    if all(part == tp for part in parts):
        yield Run(start, stop, 1.0)
        return
    assert entry.cut.dim == 0, "parts that ranks share lie one after the other"
    row = slot.parameter[0].numel()
    for section, part in zip(entry.cut.sections, parts, strict=True):
        stop = start + section.held(tp) * row
        yield Run(start, stop, part / tp)
        start = stop
