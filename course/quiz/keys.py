"""Numbers that a quiz may ask for, computed by the library, so that no key can contradict a formula.

All arguments are whole numbers of at least 1, except places (`rank`, `stage`, `pp`, …), which count from 0.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping
from functools import cache

import torch

from minipar.alphabeta import ALL_REDUCE, LinkMeasure
from minipar.ledger import Traffic
from minipar.manifest import Section
from minipar.mesh import Coords, Mesh, rank_of
from minipar.model import GPT, GPTConfig
from minipar.pipeline import (
    Costs,
    Schedule,
    Send,
    balanced_cuts,
    gpipe,
    interleaved,
    lower,
    naive,
    one_f_one_b,
    simulate,
    zb_h1,
)
from minipar.train import Precision

PLACES = frozenset(("rank", "pp", "dp", "tp"))
LARGEST: Mapping[str, int] = {
    "stages": 64,
    "pipeline_ranks": 32,
    "virtual": 4,
    "micro_batches": 256,
    "ranks": 4096,
    "hidden": 512,
}
"""The largest values of arguments that cost time to compute with, or are ranks; of others it is 10¹²."""


@cache
def gpipe_bubble_percent(stages: int, micro_batches: int) -> float:
    """Idle share of all time under GPipe, in percent."""
    return 100 * simulate(gpipe(stages, micro_batches)).bubble_of_total


@cache
def gpipe_overhead_percent(stages: int, micro_batches: int) -> float:
    """Idle time over ideal time under GPipe, in percent."""
    return 100 * simulate(gpipe(stages, micro_batches)).bubble_over_ideal


def gpipe_speedup(stages: int, micro_batches: int) -> float:
    """How many times faster than one rank with all stages."""
    timeline = simulate(gpipe(stages, micro_batches))
    return timeline.busy / timeline.duration


def naive_bubble_percent(stages: int, micro_batches: int) -> float:
    """Idle share of all time where one micro-batch goes through and back before the next, in percent."""
    return 100 * simulate(naive(stages, micro_batches)).bubble_of_total


@cache
def interleaved_overhead_percent(pipeline_ranks: int, micro_batches: int, virtual: int) -> float:
    """Idle time over ideal time under interleaved 1F1B, in percent."""
    return 100 * simulate(interleaved(pipeline_ranks, micro_batches, virtual)).bubble_over_ideal


@cache
def micro_batches_for_bubble(stages: int, percent: int) -> int:
    """The fewest micro-batches with which GPipe's idle share of all time is at most so many percent."""
    if not 1 <= percent <= 99:
        raise ValueError(f"percent={percent}; it must be from 1 to 99")

    def fits(micro_batches: int) -> bool:
        return gpipe_bubble_percent(stages, micro_batches) <= percent + 1e-9

    most = 1
    while not fits(most):
        most *= 2
    least = most // 2 + 1
    while least < most:  # the bubble only shrinks with more micro-batches
        middle = (least + most) // 2
        least, most = (least, middle) if fits(middle) else (middle + 1, most)
    return most


def gpipe_live(stages: int, micro_batches: int) -> int:
    """The most micro-batches that a rank holds at once under GPipe."""
    return max(gpipe(stages, micro_batches).peak_live)


def one_f_one_b_live(stages: int, micro_batches: int, rank: int) -> int:
    """The most micro-batches that this rank holds at once under 1F1B."""
    peaks = one_f_one_b(stages, micro_batches).peak_live
    if rank >= stages:
        raise ValueError(f"rank={rank}; with {stages} stages it must be from 0 to {stages - 1}")
    return peaks[rank]


def idle_units(schedule: Schedule) -> float:
    """How long the busiest rank idles in a step; an F, an I and a W take 1 unit each, a B 2."""
    timeline = simulate(schedule)
    return timeline.longest_span - timeline.busiest


@cache
def zb_h1_idle(stages: int, micro_batches: int) -> float:
    """`idle_units` of ZB-H1."""
    return idle_units(zb_h1(stages, micro_batches))


@cache
def one_f_one_b_idle(stages: int, micro_batches: int) -> float:
    """`idle_units` of 1F1B."""
    return idle_units(one_f_one_b(stages, micro_batches))


@cache
def messages(pipeline_ranks: int, micro_batches: int, virtual: int) -> int:
    """How many tensors ranks send each other in a step of 1F1B with so many stages a rank."""
    steps = lower(interleaved(pipeline_ranks, micro_batches, virtual))
    return sum(isinstance(step, Send) for row in steps for step in row)


@cache
def block_weights(hidden: int) -> int:
    """Numbers in the matrices of one transformer block, counted; vectors (biases and norms) left out."""
    model = GPT(GPTConfig(vocabulary=1, sequence=1, hidden=hidden, layers=1, heads=1), Mesh())
    return sum(parameter.numel() for parameter in model.blocks.parameters() if parameter.dim() > 1)


def gpipe_duration(stages: int, micro_batches: int, forward: int) -> float:
    """How long a step of GPipe takes; a micro-batch's forward takes `forward` in a stage, its backward twice that."""
    return simulate(gpipe(stages, micro_batches), Costs(forward=forward, backward=2 * forward)).duration


def training_bytes(parameters: int, replicas: int) -> float:
    """Bytes a rank holds of weights, gradients and optimizer states in bf16; these shared by `replicas` (ZeRO-1).

    The model's weights in bf16; in float32 gradients (whole), and of the main weights and AdamW's two moments a share.
    """
    model, main = Precision.BF16.model.itemsize, Precision.BF16.main.itemsize
    return parameters * (model + main + 3 * main / replicas)


def training_gigabytes(billions: int, replicas: int) -> float:
    """GB (10⁹ bytes) of what `training_bytes` counts, for so many billion parameters."""
    return training_bytes(billions * 10**9, replicas) / 10**9


def all_reduce_sent(ranks: int, bytes_reduced: int) -> float:
    """Bytes that each rank sends in a ring all-reduce."""
    return Traffic("all-reduce", "tp", ranks, 1, bytes_reduced).sent


def all_gather_sent(ranks: int, bytes_gathered: int) -> float:
    """Bytes that each rank sends in a ring all-gather whose result has so many."""
    return Traffic("all-gather", "tp", ranks, 1, bytes_gathered).sent


def all_reduce_microseconds(ranks: int, size: int, latency: int, bandwidth: int) -> float:
    """Microseconds of a ring all-reduce of `size` MB; latency in µs a message, bandwidth in GB/s (10⁹ bytes)."""
    link = LinkMeasure("dp", ranks, ALL_REDUCE, latency * 1e-6, 1 / (bandwidth * 1e9))
    return link.seconds(size * 1e6) * 1e6


def global_rank(pp: int, dp: int, tp: int, dp_size: int, tp_size: int) -> int:
    """The global rank at these coordinates of a mesh with so many data and tensor ranks."""
    if dp >= dp_size or tp >= tp_size:
        raise ValueError(f"dp={dp}, tp={tp}; they must be below {dp_size} and {tp_size}")
    return rank_of(Coords(pp, dp, tp), dp_size, tp_size)


def gpu_hours(billions: int, speed: int) -> float:
    """GPU-hours of so many billion tokens, of which `speed` a second get through each GPU."""
    return billions * 1e9 / speed / 3600


def mfu_percent(operations: int, speed: int, peak: int) -> float:
    """Model FLOPs utilization in percent, from GFLOP a token, tokens a second and GPU, and its peak in TFLOP/s.

    Source: Chowdhery et al. 2022, §4.1.
    """
    return 100 * operations * 1e9 * speed / (peak * 1e12)


def vocabulary_rows(vocabulary: int, ranks: int) -> int:
    """Rows of the embedding that each rank holds, padding included."""
    return Section(vocabulary, padded=True).held(ranks)


def line_milliseconds(times: tuple[int, ...], micro_batches: int) -> float:
    """A step of GPipe whose stages take so many ms for a micro-batch, a third of it forward."""
    costs = Costs(forward=[one / 3 for one in times], backward=[2 * one / 3 for one in times])
    return round(simulate(gpipe(len(times), micro_batches), costs).duration, 6)


def batch_loss(tokens: tuple[int, ...], losses: tuple[int, ...]) -> float:
    """The mean loss of all tokens, from the mean losses of micro-batches with so many."""
    weights = torch.tensor(tokens, dtype=torch.float64)
    return float((weights * torch.tensor(losses, dtype=torch.float64)).sum() / weights.sum())


def recomputed_held(samples: int, micro_batches: int, edge: int, inside: int) -> float:
    """The most that a stage holds under GPipe: `edge` of every sample, `inside` of one micro-batch's at a time."""
    row = gpipe(1, micro_batches).actions[0]
    each, inputs, most = samples / micro_batches, 0.0, 0.0
    for action in row:
        inputs += each * edge * (action.kind == "F")
        most = max(most, inputs + each * inside)
        inputs -= each * edge * (action.kind == "B")
    return most


def slowest_stage(costs: tuple[int, ...], stages: int) -> int:
    """What the slowest stage of the best cut of these layers costs."""
    return max(sum(costs[layer] for layer in cut) for cut in balanced_cuts(costs, stages))


KEYS: Mapping[str, Callable[..., float]] = {
    key.__name__: key
    for key in (
        gpipe_bubble_percent,
        gpipe_overhead_percent,
        gpipe_speedup,
        gpipe_duration,
        naive_bubble_percent,
        interleaved_overhead_percent,
        micro_batches_for_bubble,
        gpipe_live,
        one_f_one_b_live,
        one_f_one_b_idle,
        zb_h1_idle,
        messages,
        block_weights,
        training_bytes,
        training_gigabytes,
        all_reduce_sent,
        all_gather_sent,
        all_reduce_microseconds,
        global_rank,
        gpu_hours,
        mfu_percent,
        vocabulary_rows,
    )
}
"""The functions that a quiz file may name. (Those with other arguments than numbers are for generated questions.)"""


def value(formula: str, arguments: Mapping[str, int]) -> float:
    """The number; `ValueError` for a formula that there is not, and for arguments that it does not take."""
    if formula not in KEYS:
        raise ValueError(f"there is no formula {formula!r}; there are: {', '.join(KEYS)}")
    names = list(inspect.signature(KEYS[formula]).parameters)
    if set(arguments) != set(names):
        raise ValueError(f"{formula} takes {', '.join(names)}; given are {', '.join(arguments) or 'none'}")
    for name, number in arguments.items():
        least, most = 0 if name in PLACES else 1, LARGEST.get(name, 10**12)
        if type(number) is not int or not least <= number <= most:
            raise ValueError(f"{name}={number!r}; it must be a whole number from {least} to {most}")
    result = float(KEYS[formula](**arguments))
    if not math.isfinite(result):
        raise ValueError(f"{formula} gives {result}")
    return result
