"""A small GPT that is cut two ways: inside each block over tp, and between blocks over pp."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from minipar.mesh import Axis, Mesh
from minipar.tensor import ColumnParallelLinear, Draw, RowParallelLinear


@dataclass(frozen=True)
class GPTConfig:
    """Sizes of the model: numbers of tokens, features, blocks and heads."""

    vocabulary: int = 256
    sequence: int = 64
    hidden: int = 64
    layers: int = 4
    heads: int = 4

    def check(self, tp: int) -> None:
        """Raise `ValueError` where the heads do not divide, into the features or over `tp` ranks."""
        if self.hidden % self.heads:
            raise ValueError(f"hidden={self.hidden} is not divisible by heads={self.heads}")
        if self.heads % tp:
            fits = [d for d in range(1, self.heads + 1) if self.heads % d == 0]
            raise ValueError(f"heads={self.heads} is not divisible by tp={tp}; tp can be {', '.join(map(str, fits))}")


class Attention(nn.Module):
    """Causal self-attention; each tensor rank has heads/tp whole heads (Shoeybi et al. 2019, §3, Figure 3b).

    The projection to queries, keys and values is cut by columns and the one back by rows, so the
    heads never have to be gathered: one all-reduce forward, one backward. Queries, keys and values
    have no bias. Maps ``[batch, seq, hidden]`` to the same.
    """

    def __init__(self, config: GPTConfig, axis: Axis, draw: Draw) -> None:
        super().__init__()
        h = config.hidden
        self.size = h // config.heads
        std = 0.02 / (2 * config.layers) ** 0.5
        self.qkv = ColumnParallelLinear(draw.normal("qkv.weight", 3 * h, h), None, axis, sections=(h, h, h))
        self.out = RowParallelLinear(draw.normal("out.weight", h, h, std=std), draw.zeros(h), axis)

    def forward(self, x: Tensor) -> Tensor:
        """Attend with this rank's heads and add what all ranks found."""
        q, k, v = (t.unflatten(-1, (-1, self.size)).transpose(1, 2) for t in self.qkv(x).chunk(3, -1))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)  # [batch, heads/tp, seq, size]
        result: Tensor = self.out(y.transpose(1, 2).flatten(2))
        return result


class FeedForward(nn.Module):
    """``GELU(x A) B``: A cut by columns, B by rows, so GELU acts on whole entries (Shoeybi et al. 2019, §3, Figure 3a).

    Maps ``[batch, seq, hidden]`` to the same.
    """

    def __init__(self, config: GPTConfig, axis: Axis, draw: Draw) -> None:
        super().__init__()
        h, wide = config.hidden, 4 * config.hidden
        std = 0.02 / (2 * config.layers) ** 0.5
        self.up = ColumnParallelLinear(draw.normal("up.weight", wide, h), draw.zeros(wide), axis)
        self.down = RowParallelLinear(draw.normal("down.weight", h, wide, std=std), draw.zeros(h), axis)

    def forward(self, x: Tensor) -> Tensor:
        """Widen, bend, narrow."""
        result: Tensor = self.down(F.gelu(self.up(x)))
        return result


class Block(nn.Module):
    """Attention and feed-forward, each behind a norm and beside a residual. ``[batch, seq, hidden]`` to the same."""

    def __init__(self, config: GPTConfig, axis: Axis, draw: Draw) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(config.hidden, dtype=draw.dtype)
        self.attention = Attention(config, axis, draw.under("attention"))
        self.norm2 = nn.LayerNorm(config.hidden, dtype=draw.dtype)
        self.feed_forward = FeedForward(config, axis, draw.under("feed_forward"))

    def forward(self, x: Tensor) -> Tensor:
        """Add what attention finds, then what the feed-forward makes of it."""
        x = x + self.attention(self.norm1(x))
        result: Tensor = x + self.feed_forward(self.norm2(x))
        return result


class Embedding(nn.Module):
    """Tokens ``[batch, seq]`` to features ``[batch, seq, hidden]``: what a token is plus where it stands."""

    def __init__(self, config: GPTConfig, draw: Draw) -> None:
        super().__init__()
        self.token = nn.Parameter(draw.normal("token", config.vocabulary, config.hidden))
        self.position = nn.Parameter(draw.normal("position", config.sequence, config.hidden))

    def forward(self, tokens: Tensor) -> Tensor:
        """Look both up and add them."""
        return F.embedding(tokens, self.token) + self.position[: tokens.shape[1]]


class Head(nn.Module):
    """Features ``[batch, seq, hidden]`` to logits ``[batch, seq, vocabulary]``."""

    def __init__(self, config: GPTConfig, draw: Draw) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(config.hidden, dtype=draw.dtype)
        self.weight = nn.Parameter(draw.normal("weight", config.vocabulary, config.hidden))

    def forward(self, x: Tensor) -> Tensor:
        """Normalize and compare with every token."""
        return F.linear(self.norm(x), self.weight)


class GPT(nn.Module):
    """The blocks in `layers` (all by default), with the embedding if they are the first and the head if the last.

    Parameters have the names they have in the whole model (``blocks.3.attention.qkv.weight``), and start
    from the bitwise same values whatever the mesh. ``GPT(config, Mesh())`` is the unsplit model.
    Maps tokens ``[batch, seq]``, or features ``[batch, seq, hidden]``, to features or logits.

    Raises `ValueError` where the heads do not divide over tp.
    """

    def __init__(
        self,
        config: GPTConfig,
        mesh: Mesh,
        layers: range | None = None,
        seed: int = 0,
        dtype: torch.dtype = torch.float32,
    ) -> None:
        super().__init__()
        config.check(mesh.tp.size)
        layers = range(config.layers) if layers is None else layers
        draw = Draw(seed, dtype)
        self.embedding = Embedding(config, draw.under("embedding")) if layers.start == 0 else None
        self.blocks = nn.ModuleDict({str(i): Block(config, mesh.tp, draw.under(f"blocks.{i}")) for i in layers})
        self.head = Head(config, draw.under("head")) if layers.stop == config.layers else None
        self.to(mesh.device)

    def forward(self, x: Tensor) -> Tensor:
        """Embed if this is the first stage, go through the blocks, compute logits if this is the last."""
        x = x if self.embedding is None else self.embedding(x)
        for block in self.blocks.values():
            x = block(x)
        return x if self.head is None else self.head(x)


def token_loss(logits: Tensor, targets: Tensor) -> Tensor:
    """Mean cross-entropy in nats of logits ``[batch, seq, vocabulary]`` against tokens ``[batch, seq]``."""
    return F.cross_entropy(logits.flatten(0, 1), targets.flatten())
