"""The sizes of a transformer, as plain data: its weights, its arithmetic, and the published ones by name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Model:
    """A decoder-only transformer, by its sizes in numbers of tokens, features, blocks and heads.

    ffn: how wide the feed-forward is inside. gated: it has a gate, hence three matrices (Shazeer 2020).
    tied: the head is the embedding. positions: they are learned, a row for each of `sequence`.
    biases: linear layers and norms have them; qkv_bias: those of queries, keys and values do too.

    Raises `ValueError` for a size below 1, and where the heads do not divide.
    """

    layers: int
    hidden: int
    heads: int
    vocabulary: int
    sequence: int
    kv_heads: int = 0
    ffn: int = 0
    gated: bool = False
    tied: bool = True
    positions: bool = True
    biases: bool = True
    qkv_bias: bool = True

    def __post_init__(self) -> None:
        """Fill in as many heads of keys as of queries, and a feed-forward of four times the features."""
        object.__setattr__(self, "kv_heads", self.kv_heads or self.heads)
        object.__setattr__(self, "ffn", self.ffn or 4 * self.hidden)
        for name in ("layers", "hidden", "heads", "vocabulary", "sequence", "kv_heads", "ffn"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name}={getattr(self, name)}; it must be at least 1")
        if self.hidden % self.heads:
            raise ValueError(f"hidden={self.hidden} is not divisible by heads={self.heads}")
        if self.heads % self.kv_heads:
            raise ValueError(f"heads={self.heads} is not divisible by kv_heads={self.kv_heads}")

    @property
    def size(self) -> int:
        """Features of one head."""
        return self.hidden // self.heads

    @property
    def kv(self) -> int:
        """Features of all heads of keys."""
        return self.kv_heads * self.size

    def matrices(self, tp: int = 1) -> tuple[tuple[int, int], ...]:
        """The matrices of a block that one of `tp` ranks multiplies a token with, each as (in, out).

        Where there are fewer heads of keys than ranks, neighbours hold the same one.
        """
        h, kv = self.hidden, max(self.kv // tp, self.size)
        wide = self.ffn // tp
        return (h, h // tp + 2 * kv), (h // tp, h), (h, wide * (2 if self.gated else 1)), (wide, h)

    def block_weights(self, tp: int = 1) -> int:
        """Weights of one block that one of `tp` ranks holds: its parts of the matrices, and the norms whole."""
        (h, qkv), _, (_, up), _ = matrices = self.matrices(tp)
        vectors = 2 * h * (2 if self.biases else 1)
        if self.biases:
            vectors += 2 * h + up
        if self.qkv_bias:
            vectors += qkv
        return sum(wide * out for wide, out in matrices) + vectors

    def vocabulary_weights(self, tp: int = 1) -> int:
        """Weights of the embedding, or of the head, that one of `tp` ranks holds (the vocabulary is padded)."""
        return -(-self.vocabulary // tp) * self.hidden

    @property
    def position_weights(self) -> int:
        """Weights of the learned positions."""
        return self.sequence * self.hidden if self.positions else 0

    @property
    def norm_weights(self) -> int:
        """Weights of the norm before the head."""
        return self.hidden * (2 if self.biases else 1)

    @property
    def weights(self) -> int:
        """All weights of the unsplit model."""
        ends = self.vocabulary_weights() * (1 if self.tied else 2) + self.position_weights + self.norm_weights
        return self.layers * self.block_weights() + ends

    @property
    def block_flops(self) -> int:
        """Operations of one block's forward for a token: two a multiply-add, attention's scores in full."""
        return 2 * (sum(wide * out for wide, out in self.matrices()) + 2 * self.hidden * self.sequence)

    @property
    def head_flops(self) -> int:
        """Operations of the logits for a token."""
        return 2 * self.hidden * self.vocabulary

    @property
    def training_flops(self) -> int:
        """Operations of forward and backward for a token, without any recompute (Narayanan et al. 2021, appendix).

        72·layers·hidden²·(1 + sequence/(6·hidden) + vocabulary/(12·layers·hidden)) where the feed-forward is
        plain and four times as wide. MFU counts these.
        """
        return 3 * (self.layers * self.block_flops + self.head_flops)


def _gpt(layers: int, hidden: int, heads: int, vocabulary: int = 51200, sequence: int = 2048) -> Model:
    return Model(layers, hidden, heads, vocabulary, sequence)


def llama(
    layers: int, hidden: int, heads: int, kv_heads: int, ffn: int, vocabulary: int, sequence: int, tied: bool = False
) -> Model:
    """A model as Llama is built: a gate, no biases, rotated queries and keys in place of learned positions."""
    plain = Model(layers, hidden, heads, vocabulary, sequence, kv_heads, ffn, gated=True, tied=tied)
    return replace(plain, positions=False, biases=False, qkv_bias=False)


def _own(layers: int, hidden: int, heads: int, sequence: int) -> Model:
    return Model(layers, hidden, heads, 256, sequence, tied=False, qkv_bias=False)


MODELS: Mapping[str, Model] = {
    # Narayanan et al. 2021, Table 1, and Korthikanti et al. 2022, Table 3.
    "gpt-1.7b": _gpt(24, 2304, 24),
    "gpt-3.6b": _gpt(30, 3072, 32),
    "gpt-7.5b": _gpt(36, 4096, 32),
    "gpt-18b": _gpt(40, 6144, 48),
    "gpt-22b": _gpt(48, 6144, 64),
    "gpt-39b": _gpt(48, 8192, 64),
    "gpt-76b": _gpt(60, 10240, 80),
    "gpt-145b": _gpt(80, 12288, 96),
    "gpt3-175b": _gpt(96, 12288, 96),
    "gpt-310b": _gpt(96, 16384, 128),
    "gpt-530b": _gpt(105, 20480, 128),
    "gpt-1t": _gpt(128, 25600, 160),
    # Grattafiori et al. 2024 (The Llama 3 Herd of Models), Table 3; sequences of 8,192 as pretrained.
    "llama3-8b": llama(32, 4096, 32, 8, 14336, 128256, 8192),
    "llama3-70b": llama(80, 8192, 64, 8, 28672, 128256, 8192),
    "llama3-405b": llama(126, 16384, 128, 8, 53248, 128256, 8192),
    # The Ultra-Scale Playbook's measured grid: huggingface/nanotron, scripts/scaling_benchmarks.py.
    "playbook-1b": llama(16, 2048, 32, 32, 8192, 131072, 4096, tied=True),
    "playbook-3b": llama(28, 3072, 32, 32, 8192, 131072, 4096, tied=True),
    "playbook-8b": llama(32, 4096, 32, 32, 14336, 131072, 4096),
    "playbook-80b": llama(80, 8192, 64, 64, 28672, 131072, 4096),
    # What `minipar train` trains, by its presets.
    "demo": _own(4, 64, 4, 64),
    "small": _own(8, 256, 8, 256),
    "medium": _own(12, 768, 12, 512),
    "large": _own(24, 2048, 16, 1024),
}


PLAYBOOK = {"1b": "playbook-1b", "3b": "playbook-3b", "8b": "playbook-8b", "70b": "playbook-80b", "80b": "playbook-80b"}
"""What the playbook's files call its models; its figures label the largest 70B."""


def model_by_name(name: str) -> Model:
    """The published model with this name; `ValueError` that lists them where there is none."""
    known = PLAYBOOK.get(name.lower(), name.lower())
    if known not in MODELS:
        raise ValueError(f"model {name!r} is not one of {', '.join(MODELS)}; or give its sizes")
    return MODELS[known]
