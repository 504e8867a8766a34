"""`minipar train` itself: what its GPT keeps for the backward, and the sizes of its models."""

from __future__ import annotations

from typing import TYPE_CHECKING

from minipar.plan.activations import Region, Saved
from minipar.plan.model import Model
from minipar.plan.software import Range, Software

if TYPE_CHECKING:
    from minipar.model import GPTConfig

FLOAT = 4  # bytes of a number: `minipar train` computes in float32 by default


def model_of(config: GPTConfig) -> Model:
    """The sizes of `minipar.model.GPT`."""
    return Model(
        config.layers,
        config.hidden,
        config.heads,
        config.vocabulary,
        config.sequence,
        config.kv_heads or config.heads,
        gated=config.gated,
        tied=config.tied,
        qkv_bias=False,
    )


def saved(model: Model) -> tuple[Saved, ...]:
    """What a block of `minipar.model.GPT` keeps, without dropout.

    Its attention is fused, and keeps its output and one number a head and token. With grouped queries it works on
    keys and values that are repeated for each head of queries.
    """
    h, wide = FLOAT * model.hidden, FLOAT * model.ffn
    return (
        Saved("norm's input", h, Region.OUTSIDE),
        Saved("norm's mean and deviation", 2 * FLOAT, Region.OUTSIDE),
        Saved("qkv's input", h, Region.OUTSIDE),
        Saved("queries", h, Region.SPLIT),
        Saved("keys and values", 2 * FLOAT * model.kv, Region.SPLIT),
        *([Saved("repeated keys and values", 2 * h, Region.CORE)] if model.kv_heads < model.heads else []),
        Saved("softmax's sums", FLOAT * model.heads, Region.CORE),
        Saved("attention's output", h, Region.SPLIT),
        Saved("second norm's input", h, Region.OUTSIDE),
        Saved("second norm's mean and deviation", 2 * FLOAT, Region.OUTSIDE),
        Saved("feed-forward's input", h, Region.OUTSIDE),
        *([Saved("gate, and SiLU's output", 2 * wide, Region.SPLIT)] if model.gated else []),
        Saved("GELU's or SiLU's input", wide, Region.SPLIT),
        Saved("second matrix's input", wide, Region.SPLIT),
    )


MINIPAR = Software(
    "minipar",
    "what it keeps: minipar.model.GPT; how fast it is: `minipar profile` on the machine it runs on",
    saved,
    Range(ranks=(1, 1), hidden=(0, 0), tp=(1, 1), pp=(1, 1), tokens=(0, 0)),
    matmul=1.0,
    passes=1.0,
    update=28.0,  # a weight, its gradient and two moments are read, and all but the gradient written
    feature=FLOAT,
    weight=FLOAT,
    gradient=FLOAT,
    optimizer=2 * FLOAT,
    logit=2 * FLOAT,
    reserve=0.0,
    summed=FLOAT,
    logits=2 * FLOAT,
    most_zero=1,
)
"""Speeds as they were if every device reached its peak: `minipar profile` puts what it measures in their place."""
