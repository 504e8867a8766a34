"""Batch norm whose running statistics see the whole mini-batch, though it passes in micro-batches."""

from __future__ import annotations

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.module_tracker import ModuleTracker

BatchNorm = nn.BatchNorm1d | nn.BatchNorm2d | nn.BatchNorm3d
# By the dimensions of the input that each takes.
BATCH_NORMS: dict[type[BatchNorm], tuple[int, ...]] = {
    nn.BatchNorm1d: (2, 3),
    nn.BatchNorm2d: (4,),
    nn.BatchNorm3d: (5,),
}
LOOKED_FOR = (*BATCH_NORMS, nn.SyncBatchNorm, nn.LazyBatchNorm1d, nn.LazyBatchNorm2d, nn.LazyBatchNorm3d)


class Moments(NamedTuple):
    """Of the entries of each channel: how many, their mean, and the sum of their squared deviations from it.

    mean and deviations: ``[channels]``, float64 for entries of float64 and else float32.
    """

    entries: int
    mean: Tensor
    deviations: Tensor

    def merged(self, other: Moments) -> Moments:
        """The moments of both together (Chan et al. 1983); a plain sum of squares would lose digits to the mean's."""
        entries = self.entries + other.entries
        apart, share = other.mean - self.mean, other.entries / entries
        deviations = self.deviations + other.deviations + apart.square() * (self.entries * share)
        return Moments(entries, self.mean + apart * share, deviations)


def moments(x: Tensor) -> Moments:
    """The moments of ``[batch, channels, ...]``."""
    x = x.detach().to(torch.promote_types(x.dtype, torch.float32))
    entries = x.numel() // x.shape[1]
    variance, mean = torch.var_mean(x, [dim for dim in range(x.dim()) if dim != 1], correction=0)
    return Moments(entries, mean, variance * entries)


class DeferredBatchNorm(nn.Module):
    """A batch norm for micro-batches, whose running statistics are updated once a mini-batch.

    In training each micro-batch ``[batch, channels, ...]`` is normalized by its own statistics, and adds them to
    `pending`; `commit` then updates the running ones as if the whole had passed at once (Huang et al. 2019, §2.2;
    the name is from torchgpipe: Kim et al. 2020, "torchgpipe: On-the-fly Pipeline Parallelism for Training Giant
    Models"). What a micro-batch is normalized by still depends on the cut, so outputs and gradients are not those
    of the unsplit mini-batch.

    It takes over the parameters and buffers of `norm`, under their names, so either loads the state of the other;
    not its hooks. `pending` is no part of the state: commit before you save.

    A forward that runs inside a backward is a recomputation, as of `torch.utils.checkpoint`, and is not counted again.

    Raises `ValueError` for a `norm` that is not a plain `nn.BatchNorm1d`, `2d` or `3d`, and for an input of other
    dimensions than it takes or, in training, with one entry a channel.
    """

    weight: nn.Parameter | None
    bias: nn.Parameter | None
    running_mean: Tensor | None
    running_var: Tensor | None
    num_batches_tracked: Tensor | None
    pending: Moments | None

    def __init__(self, norm: BatchNorm) -> None:
        super().__init__()
        norm = _plain(norm, "this")
        self.dimensions, self.channels = BATCH_NORMS[type(norm)], norm.num_features
        self.eps, self.momentum = norm.eps, norm.momentum
        for name in ("weight", "bias"):
            self.register_parameter(name, getattr(norm, name))
        for name in ("running_mean", "running_var", "num_batches_tracked"):
            self.register_buffer(name, getattr(norm, name))
        self.pending = None
        self.train(norm.training)

    def forward(self, x: Tensor) -> Tensor:
        """Normalize: in training by the statistics of `x`, else by the running ones, if there are any."""
        if x.dim() not in self.dimensions:
            allowed = " or ".join(map(str, self.dimensions))
            raise ValueError(f"an input of {x.dim()} dimensions; this batch norm takes {allowed}")
        tracked = self.running_mean is not None
        by_own = self.training or not tracked
        running = (None, None) if by_own else (self.running_mean, self.running_var)
        y = F.batch_norm(x, *running, self.weight, self.bias, training=by_own, eps=self.eps)
        if self.training and tracked and x.numel() and not ModuleTracker().is_bw:
            with torch.no_grad():
                own = moments(x)
                self.pending = own if self.pending is None else self.pending.merged(own)
        return y

    def commit(self) -> None:
        """Update the running statistics by all that is pending, as one mini-batch; without any, do nothing."""
        if self.pending is None:
            return
        assert self.running_mean is not None
        assert self.running_var is not None
        assert self.num_batches_tracked is not None
        entries, mean, deviations = self.pending
        with torch.no_grad():
            self.num_batches_tracked.add_(1)
            # Without a momentum the running statistics are the mean over all mini-batches so far.
            weight = 1 / self.num_batches_tracked.item() if self.momentum is None else self.momentum
            for running, new in ((self.running_mean, mean), (self.running_var, deviations / (entries - 1))):
                running.copy_((1 - weight) * running + weight * new.to(running.device))
        self.pending = None

    def extra_repr(self) -> str:
        """What `repr` shows."""
        return f"{self.channels}, eps={self.eps}, momentum={self.momentum}"


def defer_batch_norms(module: nn.Module) -> nn.Module:
    """Replace every batch norm in `module`, in place, by a `DeferredBatchNorm`; returns the module.

    Where `module` is itself a batch norm, what replaces it is returned. A norm in several places stays one.

    Raises `ValueError`, and replaces nothing, for an `nn.SyncBatchNorm`, for a lazy norm that has seen no input yet,
    and for a class that somebody derived from a batch norm, as its own behaviour would be lost.
    """
    places = [
        (name, part) for name, part in module.named_modules(remove_duplicate=False) if isinstance(part, LOOKED_FOR)
    ]
    plain = {part: _plain(part, name or "the root") for name, part in places}
    deferred = {part: DeferredBatchNorm(norm) for part, norm in plain.items()}
    for name, part in places:
        if not name:
            return deferred[part]
        module.set_submodule(name, deferred[part])
    return module


def commit_batch_norms(module: nn.Module) -> None:
    """Commit every `DeferredBatchNorm` in `module`: once for each mini-batch, after the last of its micro-batches."""
    for part in module.modules():
        if isinstance(part, DeferredBatchNorm):
            part.commit()


def _plain(norm: nn.Module, name: str) -> BatchNorm:
    if isinstance(norm, nn.SyncBatchNorm):
        raise ValueError(f"{name} is a SyncBatchNorm, which normalizes by all ranks' samples; a deferred one would not")
    if not isinstance(norm, BatchNorm) or type(norm) not in BATCH_NORMS:
        raise ValueError(f"{name} is a {type(norm).__name__}; what can be deferred are BatchNorm1d, 2d and 3d only")
    return norm
