"""A GPT written only with PyTorch's own operations: what every cut of `minipar.model.GPT` must equal."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn


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
    def __init__(self, hidden: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.qkv = Linear(hidden, 3 * hidden, bias=False)
        self.out = Linear(hidden, hidden)

    def forward(self, x: Tensor) -> Tensor:
        size, tokens = x.shape[-1] // self.heads, x.shape[1]
        future = torch.ones(tokens, tokens, dtype=torch.bool).triu(1)
        q, k, v = self.qkv(x).split(x.shape[-1], -1)
        found = []
        for head in range(self.heads):
            part = slice(head * size, (head + 1) * size)
            scores = q[..., part] @ k[..., part].transpose(1, 2) / math.sqrt(size)  # [batch, seq, seq]
            found.append(torch.softmax(scores.masked_fill(future, -math.inf), -1) @ v[..., part])
        return self.out(torch.cat(found, -1))


class FeedForward(nn.Module):
    def __init__(self, hidden: int) -> None:
        super().__init__()
        self.up = Linear(hidden, 4 * hidden)
        self.down = Linear(4 * hidden, hidden)

    def forward(self, x: Tensor) -> Tensor:
        wide = self.up(x)
        return self.down(0.5 * wide * (1 + torch.erf(wide / math.sqrt(2))))


class Block(nn.Module):
    def __init__(self, hidden: int, heads: int) -> None:
        super().__init__()
        self.norm1, self.attention = Norm(hidden), Attention(hidden, heads)
        self.norm2, self.feed_forward = Norm(hidden), FeedForward(hidden)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attention(self.norm1(x))
        return x + self.feed_forward(self.norm2(x))


class Embedding(nn.Module):
    def __init__(self, vocabulary: int, sequence: int, hidden: int) -> None:
        super().__init__()
        self.token = nn.Parameter(torch.empty(vocabulary, hidden))
        self.position = nn.Parameter(torch.empty(sequence, hidden))

    def forward(self, tokens: Tensor) -> Tensor:
        return self.token[tokens] + self.position[: tokens.shape[1]]


class Head(nn.Module):
    def __init__(self, vocabulary: int, hidden: int) -> None:
        super().__init__()
        self.norm = Norm(hidden)
        self.weight = nn.Parameter(torch.empty(vocabulary, hidden))

    def forward(self, x: Tensor) -> Tensor:
        return self.norm(x) @ self.weight.T


class DenseGPT(nn.Module):
    """Float64, in one process; its weights come by `load_state_dict`."""

    def __init__(self, vocabulary: int, sequence: int, hidden: int, layers: int, heads: int) -> None:
        super().__init__()
        self.embedding = Embedding(vocabulary, sequence, hidden)
        self.blocks = nn.ModuleDict({str(i): Block(hidden, heads) for i in range(layers)})
        self.head = Head(vocabulary, hidden)
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
