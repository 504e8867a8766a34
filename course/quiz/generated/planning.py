"""Questions about choosing a layout: its bubble, the utilization that it reaches, and what a run costs."""

from __future__ import annotations

from course.quiz import keys
from course.quiz.dice import Dice
from course.quiz.generated.problem import Distractor, Problem
from minipar.words import _


def layout_bubble(dice: Dice) -> Problem:
    """The bubble of a layout, from the batch and the degrees."""
    dp, pp, size = dice.pick((2, 4, 8, 16)), dice.pick((4, 8, 16)), dice.pick((1, 2, 4))
    m = dice.pick((2, 3, 4, 6)) * pp
    batch = dp * size * m
    return Problem(
        _(
            "A step has {batch} samples. The layout is dp={dp} pp={pp} tp=8 under 1F1B, with micro-batches of {size}. "
            "How large is the bubble, idle time over ideal time (%)?"
        ).format(batch=batch, dp=dp, pp=pp, size=size),
        keys.interleaved_overhead_percent(pp, m, 1),
        (
            Distractor(keys.gpipe_bubble_percent(pp, m), _("That is idle time over all time, the other definition.")),
            Distractor(
                keys.interleaved_overhead_percent(pp, m * dp, 1),
                _("Each replica has its own part of the batch: divide by dp too."),
            ),
            Distractor(
                keys.interleaved_overhead_percent(pp, m * size, 1),
                _("A micro-batch has several samples: divide by its size too."),
            ),
            Distractor(100 * pp / m, _("Only pp − 1 slots are lost: the last stage waits for that many.")),
        ),
        _(
            "A replica has {own} samples, so {m} micro-batches. The bubble is $\\frac{{pp - 1}}{{m}} = "
            "\\frac{{{less}}}{{{m}}}$."
        ).format(own=batch // dp, m=m, less=pp - 1),
        "%",
        1,
    )


def gpu_hours(dice: Dice) -> Problem:
    """What some tokens cost in GPU-hours."""
    speed, gpus, billions = 500 * dice.between(4, 30), 8 * dice.pick((4, 8, 16, 32)), 10 * dice.between(2, 20)
    return Problem(
        _(
            "{gpus} GPUs train a model; {speed:,} tokens a second get through each of them. "
            "How many GPU-hours do {billions} billion tokens cost?"
        ).format(gpus=gpus, speed=speed, billions=billions),
        keys.gpu_hours(billions, speed),
        (
            Distractor(keys.gpu_hours(billions, speed) / gpus, _("Those are hours of all GPUs, not GPU-hours.")),
            Distractor(
                keys.gpu_hours(billions, speed) * gpus,
                _("The speed is already that of one GPU: no need of their number."),
            ),
            Distractor(keys.gpu_hours(billions, speed) / 24, _("Those are GPU-days.")),
            Distractor(keys.gpu_hours(billions, speed) * 60, _("Those are minutes.")),
        ),
        _("{billions}·10⁹ tokens over {speed} tokens a second are GPU-seconds; 3,600 of them are an hour.").format(
            billions=billions, speed=speed
        ),
        _("GPU-hours"),
        0,
    )


def mfu(dice: Dice) -> Problem:
    """The share of the peak that the model's own operations reach."""
    operations, peak = 10 * dice.between(4, 60), dice.pick((312, 990, 2250))
    speed = round(dice.between(30, 55) / 100 * peak * 1000 / operations)
    return Problem(
        _(
            "Forward and backward of a model take {operations} GFLOP a token. A GPU with a peak of {peak} TFLOP/s gets "
            "through {speed:,} tokens a second, and computes every forward twice (full recompute). "
            "How large is the MFU (%)?"
        ).format(operations=operations, peak=peak, speed=speed),
        keys.mfu_percent(operations, speed, peak),
        (
            Distractor(
                keys.mfu_percent(operations, speed, peak) * 4 / 3,
                _("That counts the second forward too. MFU counts the model's own operations alone."),
            ),
            Distractor(
                keys.mfu_percent(operations, speed, peak) / 3,
                _("That is the forward alone. The backward belongs to the model's operations too."),
            ),
            Distractor(
                keys.mfu_percent(operations, speed, peak) * 2 / 3,
                _("That is the backward alone. Count the forward too."),
            ),
        ),
        _("{speed} · {operations} GFLOP a second are {reached:.0f} TFLOP/s, of a peak of {peak}.").format(
            speed=speed, operations=operations, reached=speed * operations / 1000, peak=peak
        ),
        "%",
        1,
    )


MAKERS = (layout_bubble, gpu_hours, mfu)
