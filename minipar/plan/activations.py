"""What a block keeps of a micro-batch from its forward to its backward, tensor by tensor."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

from minipar.plan.layout import Numbers
from minipar.plan.model import Model
from minipar.recompute import Recompute


class Region(Enum):
    """How a tensor lies on the tensor ranks.

    OUTSIDE the split matmuls: each rank has all of it, or under sequence parallelism an n-th. WHOLE: all of it,
    gathered where it was an n-th. SPLIT: an n-th.
    CORE: split, and between queries, keys, values and what the heads found: what selective recompute drops.
    """

    OUTSIDE = "outside"
    WHOLE = "whole"
    SPLIT = "split"
    CORE = "core"


class Saved(NamedTuple):
    """A tensor that a block keeps: its name, the bytes of a token, and how it lies on the tensor ranks.

    most: in how many parts it can be split at most, as of keys each rank has one head at least; 0: any number.
    """

    name: str
    bytes: float
    region: Region
    most: int = 0


def unfused(model: Model) -> tuple[Saved, ...]:
    """A GPT in half precision with dropout and no fused attention: 34 + 5·heads·sequence/hidden bytes a feature.

    Source: Korthikanti et al. 2022, §4.1: attention 11sbh + 5as²b, feed-forward 19sbh, norms 4sbh.
    """
    h, s = model.hidden, model.heads * model.sequence
    return (
        Saved("norm's input", 2 * h, Region.OUTSIDE),
        Saved("qkv's input", 2 * h, Region.OUTSIDE),
        Saved("queries and keys", 4 * h, Region.SPLIT),
        Saved("values", 2 * h, Region.SPLIT),
        Saved("softmax's output", 2 * s, Region.CORE),
        Saved("attention's dropout mask", s, Region.CORE),
        Saved("attention's dropout output", 2 * s, Region.CORE),
        Saved("projection's input", 2 * h, Region.SPLIT),
        Saved("dropout mask", h, Region.OUTSIDE),
        Saved("second norm's input", 2 * h, Region.OUTSIDE),
        Saved("feed-forward's input", 2 * h, Region.OUTSIDE),
        Saved("GELU's input", 2 * model.ffn, Region.SPLIT),
        Saved("second matrix's input", 2 * model.ffn, Region.SPLIT),
        Saved("second dropout mask", h, Region.OUTSIDE),
    )


def gathered(model: Model) -> tuple[Saved, ...]:
    """As `flash`, but what sequence parallelism gathers for a split matmul is kept for its backward."""
    whole = {"qkv's input", "feed-forward's input"}
    return tuple(one._replace(region=Region.WHOLE) if one.name in whole else one for one in flash(model))


def flash(model: Model) -> tuple[Saved, ...]:
    """A model in bfloat16 without dropout, whose fused attention keeps its output and one number a head and token.

    Queries and keys are kept before and after their rotation, where positions are not learned. (Dao et al. 2022, §3.)
    """
    h, qk = model.hidden, model.hidden + model.kv
    inner = 3 if model.gated else 1  # SiLU's input and output, and the gate
    return (
        Saved("norm's input", 2 * h, Region.OUTSIDE),
        Saved("qkv's input", 2 * h, Region.OUTSIDE),
        Saved("queries and keys", 2 * qk * (1 if model.positions else 2), Region.SPLIT),
        Saved("values", 2 * model.kv, Region.SPLIT),
        Saved("attention's output", 2 * h, Region.SPLIT),
        Saved("softmax's sums", 4 * model.heads, Region.CORE),
        Saved("second norm's input", 2 * h, Region.OUTSIDE),
        Saved("feed-forward's input", 2 * h, Region.OUTSIDE),
        Saved("inside the feed-forward", 2 * model.ffn * inner, Region.SPLIT),
        Saved("second matrix's input", 2 * model.ffn, Region.SPLIT),
    )


def kept(saved: tuple[Saved, ...], layout: Numbers, input_bytes: float) -> float:
    """Bytes a token that one rank keeps of one block, under this layout's recompute and sequence parallelism.

    input_bytes: of a token's features. Full recompute keeps a block's input alone, whole: Korthikanti et al. 2022, §5.
    """
    if layout.recompute is Recompute.FULL:
        return input_bytes / (layout.tp if layout.sequence_parallel else 1)
    return sum(_on_rank(one, layout) for one in saved if not _dropped(one, layout))


def touched(saved: tuple[Saved, ...], layout: Numbers) -> tuple[float, float]:
    """Bytes a token that one rank writes in a block's forward, kept or not: in all, and in attention's core."""
    core = sum(_on_rank(one, layout) for one in saved if one.region is Region.CORE)
    return sum(_on_rank(one, layout) for one in saved), core


def _on_rank(one: Saved, layout: Numbers) -> float:
    whole = one.region is Region.WHOLE or (one.region is Region.OUTSIDE and not layout.sequence_parallel)
    parts = min(layout.tp, one.most) if one.most else layout.tp
    return one.bytes / (1 if whole else parts)


def _dropped(one: Saved, layout: Numbers) -> bool:
    return one.region is Region.CORE and layout.recompute is Recompute.SELECTIVE
