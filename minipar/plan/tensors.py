"""The tensors that `minipar.model.GPT` keeps from its forwards, in float32 and without dropout, one by one."""

from __future__ import annotations

from minipar.plan.activations import Region, Saved
from minipar.plan.model import Model

FLOAT = 4  # bytes of a number: `minipar train` computes in float32 by default
EMBEDDED = 9  # bytes a token that the embedding keeps: its place in the rank's run, and whether it is there
COUNTED = 22  # bytes a token that the loss keeps: its target's place and mask, two sums, whether it counts, its share


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
        Saved("keys and values", 2 * FLOAT * model.kv, Region.SPLIT, model.kv_heads),
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


def waiting(model: Model, tp: int) -> tuple[Saved, ...]:
    """What waits with a block's W: the inputs of its matrices and their outputs' gradients (`minipar.store`).

    Where tensor ranks share a head of keys, those of queries, keys and values do not wait.
    """
    h, wide = FLOAT * model.hidden, FLOAT * model.ffn
    of_heads = (
        Saved("qkv's input", h, Region.OUTSIDE),
        Saved("queries' gradient", h, Region.SPLIT),
        Saved("keys' and values' gradient", 2 * FLOAT * model.kv, Region.SPLIT),
    )
    return (
        *(of_heads if tp <= model.kv_heads else ()),
        Saved("attention's output", h, Region.SPLIT),
        Saved("its projection's gradient", h, Region.WHOLE),
        Saved("feed-forward's input", h, Region.OUTSIDE),
        Saved("first matrix's gradient", wide * (2 if model.gated else 1), Region.SPLIT),
        Saved("second matrix's input", wide, Region.SPLIT),
        Saved("second matrix's gradient", h, Region.WHOLE),
    )
