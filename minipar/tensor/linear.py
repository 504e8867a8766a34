"""Linear layers that hold a part of an unsplit weight: `ColumnParallelLinear` and `RowParallelLinear`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from minipar import comm
from minipar.comm import copy_to_region, gather_from_region, pair, reduce_from_region, same
from minipar.manifest import Cut, Section
from minipar.mesh import Axis
from minipar.store import Weights, WeightStore, hold_back, linear, wanting, weight_gradients
from minipar.tensor.sequence import SEQUENCE, reduce_to_sequence


class ColumnParallelLinear(nn.Module):
    """``y = x Wᵀ + b`` where each rank of `axis` holds an equal part of the outputs.

    Made from the whole `weight` ``[out, in]`` and `bias` ``[out]`` (or None), of which it keeps this
    rank's part. Where several matrices are fused along `out`, `sections` gives the outputs of each.
    Takes ``[…, in]``, the same on every rank, and gives ``[…, out/n]``, or ``[…, out]`` with `gather_output`.
    With `sequence_parallel` it takes ``[batch, seq/n, in]``, this rank's slice, and gives ``[batch, seq, out/n]``.

    Backward sends one all-reduce of the input's gradient, while the weight's gradient is computed. With
    `sequence_parallel` forward sends an all-gather of the input, and backward the same again (only the slice is
    kept) and a reduce-scatter of the input's gradient. Where ranks share a section (`Section.most`), its weight
    gradient is gathered and summed over those that share.

    Raises `ValueError` where a section does not divide by the axis's size. Source: Shoeybi et al. 2019, §3;
    Korthikanti et al. 2022, §4.2.2.
    """

    def __init__(
        self,
        weight: Tensor,
        bias: Tensor | None,
        axis: Axis,
        sections: Sequence[Section] | None = None,
        gather_output: bool = False,
        sequence_parallel: bool = False,
    ) -> None:
        super().__init__()
        cut = Cut(0, tuple(sections or (Section(weight.shape[0]),)))
        self.axis, self.gather_output, self.sequence_parallel = axis, gather_output, sequence_parallel
        self.weight_store: WeightStore | None = None
        self.cuts = {"weight": cut, "bias": cut}
        self.weight = nn.Parameter(cut.take(weight, axis.rank, axis.size))
        self.bias = None if bias is None else nn.Parameter(cut.take(bias, axis.rank, axis.size))

    def forward(self, x: Tensor) -> Tensor:
        """Multiply by this rank's part; with `gather_output` put the parts of each section together again."""
        weight = self._sum_where_shared(self.weight)
        bias = None if self.bias is None else self._sum_where_shared(self.bias)
        y = column_linear(x, weight, bias, self.axis, self.sequence_parallel, self.weight_store)
        if not self.gather_output:
            return y
        parts = gather_from_region(y, self.axis).chunk(self.axis.size, -1)
        return Cut(-1, self.cuts["weight"].sections).join(parts)

    def _sum_where_shared(self, parameter: Tensor) -> Tensor:
        """The parameter, such that its gradient is summed over the ranks that hold the same part of a section."""
        sections, n = self.cuts["weight"].sections, self.axis.size
        if all(section.parts(n) == n for section in sections):
            return parameter
        pieces = torch.split(parameter, [section.held(n) for section in sections])
        shares = [n // section.parts(n) for section in sections]
        return torch.cat([_shared(piece, self.axis, share) for piece, share in zip(pieces, shares, strict=True)])


def _shared(x: Tensor, axis: Axis, share: int) -> Tensor:
    """x, whose gradient is summed over the run of `share` ranks that this one belongs to."""
    first = axis.rank // share * share

    def sum_of_run(gradient: Tensor) -> Tensor:
        return torch.stack(comm.gather_tensors(gradient, axis)[first : first + share]).sum(0)

    return x if share == 1 else pair(x, axis, same, sum_of_run)


class RowParallelLinear(nn.Module):
    """``y = x Wᵀ + b`` where each rank of `axis` holds an equal part of the inputs.

    Made from the whole `weight` ``[out, in]`` and `bias` ``[out]`` (or None). Takes ``[…, in/n]``, this
    rank's part of the input, and gives ``[…, out]``, the same on every rank; with `sequence_parallel` it takes
    ``[batch, seq, in/n]`` and gives ``[batch, seq/n, out]``, this rank's slice.

    Forward sends one all-reduce; with `sequence_parallel` a reduce-scatter, and backward an all-gather.
    The bias is whole on every rank and added once, after the sum: its gradient is then whole everywhere too
    (under `sequence_parallel` by an all-reduce). Source: Shoeybi et al. 2019, §3; Korthikanti et al. 2022, §4.2.2.
    """

    def __init__(self, weight: Tensor, bias: Tensor | None, axis: Axis, sequence_parallel: bool = False) -> None:
        super().__init__()
        cut = Cut(1, (Section(weight.shape[1]),))
        self.axis, self.sequence_parallel = axis, sequence_parallel
        self.weight_store: WeightStore | None = None
        self.cuts = {"weight": cut}
        self.weight = nn.Parameter(cut.take(weight, axis.rank, axis.size))
        self.bias = None if bias is None else nn.Parameter(bias.detach().clone())

    def forward(self, x: Tensor) -> Tensor:
        """Multiply by this rank's part, add the ranks' results, then the bias."""
        part = linear(x, self.weight, None, self.weight_store)
        if not self.sequence_parallel:
            y = reduce_from_region(part, self.axis)
            return y if self.bias is None else y + self.bias
        y = reduce_to_sequence(part, self.axis)
        return y if self.bias is None else y + copy_to_region(self.bias, self.axis)


def column_linear(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    axis: Axis,
    sequence_parallel: bool,
    store: WeightStore | None = None,
) -> Tensor:
    """``x weightᵀ + bias`` with this rank's part of the outputs, for layers that keep their weight elsewhere.

    With a `store` its backward leaves the gradients of weight and bias there (as `minipar.store.linear`).
    """
    if axis.size == 1:
        return linear(x, weight, bias, store)
    if torch.is_autocast_enabled(x.device.type):  # which casts for F.linear, but not for its backward here
        dtype = torch.get_autocast_dtype(x.device.type)
        x, weight, bias = x.to(dtype), weight.to(dtype), None if bias is None else bias.to(dtype)
    held = None if store is None or not torch.is_grad_enabled() else hold_back(x, weight, bias)
    if held is None:
        result: Tensor = _ColumnLinear.apply(x, None, weight, bias, axis, sequence_parallel, None, None)  # type: ignore[no-untyped-call]
    else:
        result = _ColumnLinear.apply(x, *held, axis, sequence_parallel, (weight, bias), store)  # type: ignore[no-untyped-call]
    return result


class _ColumnLinear(torch.autograd.Function):
    """A column-split linear whose backward communicates while it computes the weight's gradient, or puts that off."""

    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        entry: Tensor | None,
        weight: Tensor,
        bias: Tensor | None,
        axis: Axis,
        sequence: bool,
        weights: Weights | None,
        store: WeightStore | None,
    ) -> Tensor:
        ctx.save_for_backward(x, weight)
        ctx.axis, ctx.sequence, ctx.weights, ctx.store = axis, sequence, weights, store
        return F.linear(comm.all_gather(x, axis, SEQUENCE) if sequence else x, weight, bias)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        x, weight = ctx.saved_tensors
        # What is put off must not hold the graph that it came from, by its input or by `ctx`.
        x, axis, sequence = x.detach(), ctx.axis, ctx.sequence
        x_wants, later, *wants = ctx.needs_input_grad[:4]
        if ctx.weights is not None:
            wants = list(wanting(ctx.weights))

        def whole() -> comm.Pending:
            gathers = sequence and wants[0]
            return comm.start_all_gather(x, axis, SEQUENCE) if gathers else comm.Pending(lambda: x)

        waiting = None if later else whole()
        of_x = None
        if x_wants:
            summand = gradient @ weight
            if sequence:
                of_x = comm.start_reduce_scatter(summand, axis, SEQUENCE)
            else:
                of_x = comm.start_all_reduce(summand, axis)
        of_weights: list[Tensor | None] = [None, None]
        if later:
            ctx.store.put_off(ctx.weights, lambda: weight_gradients(whole().wait(), gradient, *wants))
        elif waiting is not None and ctx.weights is None:
            of_weights = weight_gradients(waiting.wait(), gradient, *wants)
        return of_x.wait() if of_x else None, None, *of_weights, None, None, None, None
