"""A GPT written only with PyTorch's own operations: what every cut of `minipar.model.GPT` must equal."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from minipar.model import GPTConfig


class Linear(nn.Module):
    def __init__(self, inputs: int, outputs: int, bias: bool = True) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(outputs, inputs))
        self.bias = nn.Parameter(torch.empty(outputs)) if bias else None

    def forward(self, x: Tensor) -> Tensor:
        y = torch.einsum("...i,oi->...o", x, self.weight)
        return y if self.bias is None else y + self.bias


class Norm(nn.Module):
    def __init__(self, features: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(features))
        self.bias = nn.Parameter(torch.empty(features))

    def forward(self, x: Tensor) -> Tensor:
        centred = x - x.mean(-1, keepdim=True)
        variance = (centred**2).mean(-1, keepdim=True)
        return centred / torch.sqrt(variance + 1e-5) * self.weight + self.bias


class Attention(nn.Module):
    def __init__(self, hidden: int, heads: int, kv_heads: int) -> None:
        super().__init__()
        self.heads, self.kv_heads = heads, kv_heads
        self.qkv = Linear(hidden, hidden + 2 * kv_heads * (hidden // heads), bias=False)
        self.out = Linear(hidden, hidden)

    def forward(self, x: Tensor) -> Tensor:
        size, tokens = x.shape[-1] // self.heads, x.shape[1]
        future = torch.ones(tokens, tokens, dtype=torch.bool).triu(1)
        q, k, v = self.qkv(x).split([x.shape[-1], self.kv_heads * size, self.kv_heads * size], -1)
        found = []
        for head in range(self.heads):
            own = slice(head * size, (head + 1) * size)
            group = head * self.kv_heads // self.heads
            shared = slice(group * size, (group + 1) * size)
            scores = q[..., own] @ k[..., shared].transpose(1, 2) / math.sqrt(size)  # [batch, seq, seq]
            found.append(torch.softmax(scores.masked_fill(future, -math.inf), -1) @ v[..., shared])
        return self.out(torch.cat(found, -1))


class FeedForward(nn.Module):
    def __init__(self, hidden: int, gated: bool) -> None:
        super().__init__()
        self.gated = gated
        self.up = Linear(hidden, (8 if gated else 4) * hidden)
        self.down = Linear(4 * hidden, hidden)

    def forward(self, x: Tensor) -> Tensor:
        wide = self.up(x)
        if self.gated:
            bent, gate = wide[..., : wide.shape[-1] // 2], wide[..., wide.shape[-1] // 2 :]
            return self.down(bent / (1 + torch.exp(-bent)) * gate)
        return self.down(0.5 * wide * (1 + torch.erf(wide / math.sqrt(2))))


class Block(nn.Module):
    def __init__(self, hidden: int, heads: int, kv_heads: int, gated: bool) -> None:
        super().__init__()
        self.norm1, self.attention = Norm(hidden), Attention(hidden, heads, kv_heads)
        self.norm2, self.feed_forward = Norm(hidden), FeedForward(hidden, gated)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attention(self.norm1(x))
        return x + self.feed_forward(self.norm2(x))


class Rows(nn.Module):
    def __init__(self, vocabulary: int, hidden: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(vocabulary, hidden))


class Embedding(nn.Module):
    def __init__(self, vocabulary: int, sequence: int, hidden: int) -> None:
        super().__init__()
        self.token = Rows(vocabulary, hidden)
        self.position = nn.Parameter(torch.empty(sequence, hidden))

    def forward(self, tokens: Tensor) -> Tensor:
        return self.token.weight[tokens] + self.position[: tokens.shape[1]]


class Head(nn.Module):
    def __init__(self, hidden: int, rows: Rows) -> None:
        super().__init__()
        self.norm, self.logits = Norm(hidden), rows

    def forward(self, x: Tensor) -> Tensor:
        return self.norm(x) @ self.logits.weight.T


class DenseGPT(nn.Module):
    """Float64, in one process, without dropout; its weights come by `load_state_dict`."""

    def __init__(self, config: GPTConfig) -> None:
        super().__init__()
        c, rows = config, Rows(config.vocabulary, config.hidden)
        self.embedding = Embedding(c.vocabulary, c.sequence, c.hidden)
        blocks = {str(i): Block(c.hidden, c.heads, c.kv_heads or c.heads, c.gated) for i in range(c.layers)}
        self.blocks = nn.ModuleDict(blocks)
        self.head = Head(c.hidden, self.embedding.token if c.tied else rows)
        self.double()

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.embedding(tokens)
        for block in self.blocks.values():
            x = block(x)
        return self.head(x)


def mean_loss(logits: Tensor, targets: Tensor) -> Tensor:
    """Mean cross-entropy in nats."""
    scores = logits - logits.logsumexp(-1, keepdim=True)
    return -scores.gather(-1, targets[..., None]).mean()
