"""Causal self-attention split by heads, with fewer key-value heads than query heads where asked for."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from minipar.manifest import Section
from minipar.mesh import Axis
from minipar.tensor.linear import ColumnParallelLinear, RowParallelLinear
from minipar.tensor.random import Moment, dropout

Core = Callable[[Tensor, Tensor, Tensor, Moment], Tensor]


def check_heads(hidden: int, heads: int, kv_heads: int, tp: int) -> None:
    """Raise `ValueError` where heads do not divide: into the features, into groups, or over `tp` ranks."""
    if hidden % heads:
        raise ValueError(f"hidden={hidden} is not divisible by heads={heads}")
    if heads % kv_heads:
        raise ValueError(f"heads={heads} is not divisible by kv_heads={kv_heads}")
    fits = [n for n in range(1, heads + 1) if heads % n == 0 and (kv_heads % n == 0 or n % kv_heads == 0)]
    if tp not in fits:
        name = f"heads={heads} is" if heads % tp else f"kv_heads={kv_heads} and tp={tp} are"
        end = f"not divisible by tp={tp}" if heads % tp else "not divisible by one another"
        raise ValueError(f"{name} {end}; tp can be {', '.join(map(str, fits))}")


class Attention(nn.Module):
    """Each tensor rank has heads/tp whole heads (Shoeybi et al. 2019, §3, Figure 3b).

    The projection to queries, keys and values is one matrix, cut by columns within each of the three, and the one
    back is cut by rows, so heads never have to be gathered. With grouped queries (Ainslie et al. 2023) `kv_heads`
    heads of keys and values serve all `heads`; where there are fewer of them than ranks, neighbours hold the same
    one and its gradient is summed over them. Queries, keys and values have no bias.

    qkv: whole, ``[(heads + 2 kv_heads) · size, hidden]``; out: ``[hidden, heads · size]``; bias: ``[hidden]``.
    Maps ``[batch, seq, hidden]`` (or this rank's slice of the sequence) to the same. `around` wraps the core,
    from queries, keys and values to what each head found: a recompute goes there.
    """

    def __init__(
        self,
        qkv: Tensor,
        out: Tensor,
        bias: Tensor,
        heads: int,
        kv_heads: int,
        axis: Axis,
        sequence_parallel: bool = False,
        p: float = 0.0,
        name: str = "attention",
        around: Callable[[Core], Core] = lambda core: core,
    ) -> None:
        super().__init__()
        check_heads(qkv.shape[1], heads, kv_heads, axis.size)
        self.size, self.axis, self.p, self.name = qkv.shape[1] // heads, axis, p, name
        shared = Section(kv_heads * self.size, most=kv_heads)
        self.sections = (Section(heads * self.size), shared, shared)
        self.qkv = ColumnParallelLinear(qkv, None, axis, self.sections, sequence_parallel=sequence_parallel)
        self.out = RowParallelLinear(out, bias, axis, sequence_parallel)
        self.core = around(self._core)

    def forward(self, x: Tensor, moment: Moment | None = None) -> Tensor:
        """Attend with this rank's heads, and add what all ranks found."""
        split = self.qkv(x).split([section.held(self.axis.size) for section in self.sections], -1)
        q, k, v = (t.unflatten(-1, (-1, self.size)).transpose(1, 2) for t in split)  # [batch, heads/tp, seq, size]
        y = self.core(q, k, v, moment or Moment())
        result: Tensor = self.out(y.transpose(1, 2).flatten(2))
        return result

    def _core(self, q: Tensor, k: Tensor, v: Tensor, moment: Moment) -> Tensor:
        """What each head found, ``[batch, heads/tp, seq, size]``."""
        group = q.shape[1] // k.shape[1]
        k, v = (t.repeat_interleave(group, 1) if group > 1 else t for t in (k, v))
        if self.p == 0 or not self.training:
            return F.scaled_dot_product_attention(q, k, v, is_causal=True)
        scores = q @ k.transpose(-1, -2) / self.size**0.5
        later = torch.ones(scores.shape[-2:], dtype=torch.bool, device=q.device).triu(1)
        shares = scores.masked_fill(later, -torch.inf).softmax(-1)
        return dropout(shares, self.p, moment, self.name, self.axis) @ v
