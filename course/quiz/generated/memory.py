"""Questions about memory: what weights, gradients and optimizer states take."""

from __future__ import annotations

from course.quiz import keys
from course.quiz.dice import Dice
from course.quiz.generated.problem import Distractor, Problem
from minipar.train import Precision
from minipar.words import _

BILLION = 10**9


def weight_bytes(dice: Dice) -> Problem:
    """Bytes of the weights alone."""
    billions, precision = dice.between(2, 70), dice.pick((Precision.BF16, Precision.FLOAT32))
    size = precision.model.itemsize
    return Problem(
        _("A model has {n} billion parameters in {precision}. How many GB (10⁹ bytes) are its weights alone?").format(
            n=billions, precision=precision.value
        ),
        billions * size,
        (
            Distractor(billions, _("That would be one byte a parameter.")),
            Distractor(billions * (6 - size), _("That is the other of bf16 and float32.")),
            Distractor(billions * 8 * size, _("Those are bits.")),
        ),
        _("{precision} takes {size} bytes a parameter: ${n} \\cdot {size}$ GB.").format(
            precision=precision.value, size=size, n=billions
        ),
        "GB",
    )


def training_states(dice: Dice) -> Problem:
    """Bytes of weights, gradients and optimizer states in mixed precision."""
    billions = dice.between(1, 30)
    return Problem(
        _(
            "Training in bf16 with AdamW keeps the weights in bf16, and in float32 the main weights, the gradients and "
            "both moments. How many GB (10⁹ bytes) are that for {n} billion parameters, activations left out?"
        ).format(n=billions),
        keys.training_bytes(billions * BILLION, 1) / BILLION,
        (
            Distractor(2 * billions, _("Those are the bf16 weights alone.")),
            Distractor(
                12 * billions, _("Those are the optimizer's: main weights and moments. Weights and gradients are left.")
            ),
            Distractor(
                16 * billions, _("So many are there where gradients are kept in half precision; here they are float32.")
            ),
            Distractor(8 * billions, _("Those are the two moments alone.")),
        ),
        _("$2 + 4 + 4 + 4 + 4 = 18$ bytes a parameter: ${n} \\cdot 18$ GB.").format(n=billions),
        "GB",
    )


def zero_states(dice: Dice) -> Problem:
    """The same with the optimizer's states shared by the replicas (ZeRO-1)."""
    billions, replicas = dice.between(1, 30), dice.pick((2, 4, 8, 16))
    share = keys.training_bytes(billions * BILLION, replicas) / BILLION
    return Problem(
        _(
            "Training in bf16 with AdamW takes 2 bytes a parameter for weights, 4 for gradients, and 12 for the "
            "main weights and moments. With ZeRO-1 on {d} replicas, how many GB (10⁹ bytes) does each GPU hold of that "
            "for {n} billion parameters?"
        ).format(d=replicas, n=billions),
        share,
        (
            Distractor(
                18 * billions / replicas, _("ZeRO-1 shares the optimizer's states alone, not weights and gradients.")
            ),
            Distractor(18 * billions, _("That is without ZeRO.")),
            Distractor(
                billions * (2 + 16 / replicas),
                _("That is ZeRO-2, which shares the gradients too."),
            ),
            Distractor(billions * 12 / replicas, _("That is the share of the optimizer's states; more stays whole.")),
        ),
        _("$2 + 4 + \\frac{{12}}{{{d}}} = {each:g}$ bytes a parameter: ${n} \\cdot {each:g}$ GB.").format(
            d=replicas, each=6 + 12 / replicas, n=billions
        ),
        "GB",
        1,
    )


def block_weights(dice: Dice) -> Problem:
    """Weights in the matrices of a transformer block."""
    hidden = 8 * dice.between(4, 32)
    return Problem(
        _(
            "A transformer block with hidden size {h}: queries, keys and values, the output projection, and a "
            "feed-forward four times as wide. How many weights do its matrices have, in thousands?"
        ).format(h=hidden),
        keys.block_weights(hidden) / 1000,
        (
            Distractor(4 * hidden**2 / 1000, _("That is the attention alone.")),
            Distractor(8 * hidden**2 / 1000, _("That is the feed-forward alone.")),
            Distractor(6 * hidden**2 / 1000, _("Count again: the attention has four matrices, of $h^2$ weights each.")),
        ),
        _("$3h^2$ for queries, keys and values, $h^2$ for the output, $2 \\cdot 4h^2$ for the rest: $12h^2$."),
        _("thousand"),
        1,
    )


def border_bytes(dice: Dice) -> Problem:
    """Bytes of the message between two stages."""
    samples, sequence, hidden = dice.between(1, 8), 1024 * dice.between(1, 8), 1024 * dice.between(1, 8)
    size = Precision.BF16.model.itemsize
    key = samples * sequence * hidden * size / 2**20
    return Problem(
        _(
            "A micro-batch has {b} × {s} tokens, the hidden size is {h}, and stages send bf16. "
            "How many MiB (2²⁰ bytes) does a stage send forward for it?"
        ).format(b=samples, s=sequence, h=hidden),
        key,
        (
            Distractor(key / size, _("That would be one byte a number; bf16 takes two.")),
            Distractor(2 * key, _("That is float32, or forward and back together.")),
            Distractor(key / samples, _("That is one sequence; the micro-batch has {b}.").format(b=samples)),
            Distractor(4 * key, _("A stage sends what its last block puts out: `hidden` numbers a token.")),
        ),
        _("${b} \\cdot {s} \\cdot {h} \\cdot 2$ bytes are {key:g} MiB.").format(
            b=samples, s=sequence, h=hidden, key=key
        ),
        "MiB",
    )


MAKERS = (weight_bytes, training_states, zero_states, block_weights, border_bytes)
