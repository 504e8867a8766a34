"""A small GPT that is cut two ways: inside each block over tp, and between blocks over pp."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from minipar.manifest import Section
from minipar.mesh import Axis, Mesh
from minipar.pipeline.schedule import Action
from minipar.recompute import Recompute
from minipar.tensor import (
    Attention,
    ColumnParallelLinear,
    Draw,
    Moment,
    RegionNorm,
    RowParallelLinear,
    VocabParallelEmbedding,
    VocabParallelHead,
    check_heads,
    dropout,
    scatter_to_sequence,
    vocab_parallel_cross_entropy,
)


@dataclass(frozen=True)
class GPTConfig:
    """Sizes of the model: numbers of tokens, features, blocks and heads.

    kv_heads: heads of keys and values, where they are fewer than `heads` (grouped queries).
    gated: a feed-forward with SiLU and a gate in place of GELU (Shazeer 2020). tied: the head is the embedding.
    dropout: the share of entries set to 0 after the embedding, in the attention, and before each residual.
    """

    vocabulary: int = 256
    sequence: int = 64
    hidden: int = 64
    layers: int = 4
    heads: int = 4
    kv_heads: int | None = None
    gated: bool = False
    tied: bool = False
    dropout: float = 0.0

    def check(self, tp: int) -> None:
        """Raise `ValueError` for a size below 1, and where the heads do not divide, into the features or over tp."""
        for name, size in vars(self).items():
            if type(size) is int and size < 1:
                raise ValueError(f"{name}={size}; it must be at least 1")
        if not 0 <= self.dropout < 1:
            raise ValueError(f"dropout={self.dropout}; it is a share from 0 to just below 1")
        check_heads(self.hidden, self.heads, self.kv_heads or self.heads, tp)


@dataclass(frozen=True)
class Cutting:
    """How a stage is laid out on its ranks, and what its dropouts and weights are drawn from."""

    axis: Axis
    draw: Draw
    sequence_parallel: bool = False
    recompute: Recompute = Recompute.NONE

    def under(self, name: str) -> Cutting:
        """The same, for the module `name` within this one."""
        return replace(self, draw=self.draw.under(name))

    def norm(self, hidden: int) -> RegionNorm:
        """A norm of features between the split regions."""
        return RegionNorm(hidden, self.axis, self.sequence_parallel, self.draw.dtype)

    def dropout(self, x: Tensor, p: float, moment: Moment) -> Tensor:
        """Dropout of features between the split regions: replicated, or slices of the sequence."""
        return dropout(x, p, moment, self.draw.prefix, self.axis if self.sequence_parallel else None)


def again(fn: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """`fn`, whose activations are computed again in the backward. Its dropouts need no state (see `Moment`)."""

    def recomputed(*inputs: Any) -> Tensor:
        result: Tensor = checkpoint(fn, *inputs, use_reentrant=False, preserve_rng_state=False)
        return result

    return recomputed


class FeedForward(nn.Module):
    """``GELU(x A) B``: A cut by columns, B by rows, so GELU acts on whole entries (Shoeybi et al. 2019, §3, Figure 3a).

    Gated: ``(SiLU(x A) · x C) B``, A and C one fused matrix, each cut by columns. ``[batch, seq, hidden]`` to the same.
    """

    def __init__(self, config: GPTConfig, cutting: Cutting) -> None:
        super().__init__()
        h, wide, draw = config.hidden, 4 * config.hidden, cutting.draw
        std = 0.02 / (2 * config.layers) ** 0.5
        sections = (Section(wide),) * (2 if config.gated else 1)
        up, down = draw.normal("up.weight", wide * len(sections), h), draw.normal("down.weight", h, wide, std=std)
        self.gated, options = config.gated, {"sequence_parallel": cutting.sequence_parallel}
        self.up = ColumnParallelLinear(up, draw.zeros(len(up)), cutting.axis, sections, **options)
        self.down = RowParallelLinear(down, draw.zeros(h), cutting.axis, **options)

    def forward(self, x: Tensor) -> Tensor:
        """Widen, bend, narrow."""
        x = self.up(x)
        if self.gated:
            bent, gate = x.chunk(2, -1)
            x = F.silu(bent) * gate
        else:
            x = F.gelu(x)
        result: Tensor = self.down(x)
        return result


class Block(nn.Module):
    """Attention and feed-forward, each behind a norm and beside a residual. ``[batch, seq, hidden]`` to the same."""

    def __init__(self, config: GPTConfig, cutting: Cutting) -> None:
        super().__init__()
        self.cutting, self.p = cutting, config.dropout
        self.norm1 = cutting.norm(config.hidden)
        self.attention = _attention(config, cutting.under("attention"))
        self.norm2 = cutting.norm(config.hidden)
        self.feed_forward = FeedForward(config, cutting.under("feed_forward"))

    def forward(self, x: Tensor, moment: Moment) -> Tensor:
        """Add what attention finds, then what the feed-forward makes of it."""
        whole = again(self._forward) if self.cutting.recompute is Recompute.FULL else self._forward
        return whole(x, moment)

    def _forward(self, x: Tensor, moment: Moment) -> Tensor:
        x = x + self._drop("attention", self.attention(self.norm1(x), moment), moment)
        return x + self._drop("feed_forward", self.feed_forward(self.norm2(x)), moment)

    def _drop(self, name: str, x: Tensor, moment: Moment) -> Tensor:
        return self.cutting.under(name).dropout(x, self.p, moment) if self.training else x


def _attention(config: GPTConfig, cutting: Cutting) -> Attention:
    h, draw, kv_heads = config.hidden, cutting.draw, config.kv_heads or config.heads
    rows = h + 2 * kv_heads * (h // config.heads)
    std = 0.02 / (2 * config.layers) ** 0.5
    return Attention(
        draw.normal("qkv.weight", rows, h),
        draw.normal("out.weight", h, h, std=std),
        draw.zeros(h),
        config.heads,
        kv_heads,
        cutting.axis,
        cutting.sequence_parallel,
        config.dropout,
        draw.prefix + "core",
        again if cutting.recompute is Recompute.SELECTIVE else lambda core: core,
    )


class Embedding(nn.Module):
    """Tokens ``[batch, seq]`` to features ``[batch, seq, hidden]``: what a token is plus where it stands."""

    def __init__(self, config: GPTConfig, cutting: Cutting) -> None:
        super().__init__()
        self.cutting, self.p, draw = cutting, config.dropout, cutting.draw
        rows = draw.normal("token.weight", config.vocabulary, config.hidden)
        self.token = VocabParallelEmbedding(rows, cutting.axis, cutting.sequence_parallel)
        self.position = nn.Parameter(draw.normal("position", config.sequence, config.hidden))

    def forward(self, tokens: Tensor, moment: Moment) -> Tensor:
        """Look both up and add them."""
        position = self.position[: tokens.shape[1]]
        if self.cutting.sequence_parallel:
            # Each rank uses its slice only, so that the gradient of the whole is the sum of theirs.
            position = scatter_to_sequence(position.unsqueeze(0), self.cutting.axis)
        x = self.token(tokens) + position
        return self.cutting.dropout(x, self.p, moment) if self.training else x


EMBEDDING, HEAD = "embedding.token.weight", "head.logits.weight"  # full names


class Head(nn.Module):
    """Features ``[batch, seq, hidden]`` to this rank's run of the logits, ``[batch, seq, vocabulary/tp]``."""

    def __init__(self, config: GPTConfig, cutting: Cutting, embedding: VocabParallelEmbedding | None) -> None:
        super().__init__()
        self.norm = cutting.norm(config.hidden)
        name = EMBEDDING if config.tied else HEAD
        rows = embedding or cutting.draw.normal(name, config.vocabulary, config.hidden)
        copy_of = EMBEDDING if config.tied and embedding is None else None
        self.logits = VocabParallelHead(rows, cutting.axis, cutting.sequence_parallel, copy_of)

    def forward(self, x: Tensor) -> Tensor:
        """Normalize and compare with every token."""
        result: Tensor = self.logits(self.norm(x))
        return result


class GPT(nn.Module):
    """The blocks in `layers` (all by default), with the embedding if they are the first and the head if the last.

    Parameters have the names they have in the whole model (``blocks.3.attention.qkv.weight``), and start
    from the bitwise same values whatever the mesh. ``GPT(config, Mesh())`` is the unsplit model. `moment` says
    what the dropouts are drawn from: set `step` for each step, and `micro_batch` by `at` (`before` of `pipeline.run`).
    Maps tokens ``[batch, seq]``, or features, to features ``[batch, seq, hidden]`` (with `sequence_parallel`
    between stages this rank's slice of the sequence) or this rank's run of the logits, ``[batch, seq, vocabulary/tp]``.

    Where the head is tied to an embedding on another stage it holds a copy; `ties` tells `pipeline.run`.

    Raises `ValueError` where the heads do not divide over tp.
    """

    def __init__(
        self,
        config: GPTConfig,
        mesh: Mesh,
        layers: range | None = None,
        seed: int = 0,
        dtype: torch.dtype = torch.float32,
        sequence_parallel: bool = False,
        recompute: Recompute = Recompute.NONE,
    ) -> None:
        super().__init__()
        config.check(mesh.tp.size)
        layers = range(config.layers) if layers is None else layers
        cutting = Cutting(mesh.tp, Draw(seed, dtype), sequence_parallel, recompute)
        self.longest = config.sequence
        self.moment = Moment(seed, replica=mesh.coords.dp)
        self.embedding = Embedding(config, cutting.under("embedding")) if layers.start == 0 else None
        self.blocks = nn.ModuleDict({str(i): Block(config, cutting.under(f"blocks.{i}")) for i in layers})
        tied = self.embedding.token if config.tied and self.embedding else None
        self.head = Head(config, cutting, tied) if layers.stop == config.layers else None
        self.to(mesh.device)

    def at(self, action: Action) -> None:
        """Draw the dropouts of this action's micro-batch; give it to `minipar.pipeline.run` as `before`."""
        self.moment = replace(self.moment, micro_batch=action.micro_batch)

    def forward(self, x: Tensor) -> Tensor:
        """Embed if this is the first stage, go through the blocks, compute logits if this is the last."""
        if self.embedding is not None:
            if x.shape[1] > self.longest:
                raise ValueError(f"a sequence of {x.shape[1]} tokens; the model has positions for {self.longest}")
            x = self.embedding(x, self.moment)
        for block in self.blocks.values():
            x = block(x, self.moment)
        return x if self.head is None else self.head(x)


def ties(config: GPTConfig, stages: int) -> tuple[dict[int, str], ...]:
    """What a GPT over so many stages ties, as `minipar.pipeline.run` takes it: nothing, or its embedding and head."""
    return ({0: EMBEDDING, stages - 1: HEAD},) if config.tied and stages > 1 else ()


def token_loss(config: GPTConfig, mesh: Mesh) -> Callable[[Tensor, Tensor], Tensor]:
    """The function of split logits and of tokens ``[batch, seq]`` that gives their mean cross-entropy in nats.

    Logits of half precision are widened to float32. Targets of -100 do not count.
    """

    def loss(logits: Tensor, targets: Tensor) -> Tensor:
        logits = logits.float() if logits.dtype in (torch.bfloat16, torch.float16) else logits
        return vocab_parallel_cross_entropy(logits, targets, mesh.tp, config.vocabulary)

    return loss
