"""Questions about schedules: what a rank holds, how long a step takes, how much is sent."""

from __future__ import annotations

from course.quiz import keys
from course.quiz.dice import Dice
from course.quiz.generated.problem import Distractor, Problem
from minipar.words import _


def one_f_one_b_live(dice: Dice) -> Problem:
    """Live micro-batches on a rank under 1F1B."""
    p, m = dice.between(3, 8), dice.between(3, 16)
    rank = dice.between(0, p - 1)
    return Problem(
        _(
            "1F1B, {p} stages, {m} micro-batches. How many micro-batches are live on rank {rank}, at most? "
            "(Ranks count from 0.)"
        ).format(p=p, m=m, rank=rank),
        keys.one_f_one_b_live(p, m, rank),
        (
            Distractor(m, _("That is GPipe, where all forwards come before the first backward.")),
            Distractor(p - rank - 1, _("One more: the micro-batch whose backward comes next is still live.")),
            Distractor(rank + 1, _("The other way round: the first rank waits longest for its first gradient.")),
            Distractor(p, _("That is right for rank 0 alone, where there are enough micro-batches.")),
        ),
        _(
            "Rank r does $p - r$ forwards before its first backward, and then one of each in turn: "
            "$\\min(m, p - r) = \\min({m}, {n})$."
        ).format(m=m, n=p - rank),
    )


def gpipe_live(dice: Dice) -> Problem:
    """Live micro-batches on a rank under GPipe."""
    p, m = dice.between(3, 8), dice.between(3, 16)
    rank = dice.between(0, p - 1)
    return Problem(
        _("GPipe, {p} stages, {m} micro-batches. How many micro-batches are live on rank {rank}, at most?").format(
            p=p, m=m, rank=rank
        ),
        keys.gpipe_live(p, m),
        (
            Distractor(p, _("GPipe does not stop after the first {p}: all forwards come first.").format(p=p)),
            Distractor(p - rank, _("That is 1F1B, where a backward follows each forward as soon as it can.")),
            Distractor(1, _("A micro-batch stays live until its backward, and that comes after all forwards.")),
        ),
        _("All {m} forwards come before the first backward, on every rank; so all {m} are live.").format(m=m),
    )


def zero_bubble_idle(dice: Dice) -> Problem:
    """How long a rank idles under ZB-H1."""
    p = dice.between(3, 8)
    m = p + dice.between(0, 8)
    return Problem(
        _(
            "ZB-H1 with {p} stages and {m} micro-batches. A forward, an input gradient and a weight gradient take "
            "1 ms each. By how much is the time from a rank's first start to its last end longer than its work?"
        ).format(p=p, m=m),
        keys.zb_h1_idle(p, m),
        (
            Distractor(
                keys.one_f_one_b_idle(p, m), _("That is 1F1B, which does not fill the gaps with weight gradients.")
            ),
            Distractor(0, _("Not quite, for all its name: the first forwards and the last backwards still wait.")),
            Distractor(2 * (p - 1), _("Take off the weight gradients too: they are done while the rank waits.")),
        ),
        _(
            "The bubble is $(p-1)(F+I-W)$, here ${w} \\cdot (1 + 1 - 1)$. Under 1F1B it is $(p-1)(F+I+W)$, "
            "three times as long."
        ).format(w=p - 1),
        "ms",
    )


def step_time(dice: Dice) -> Problem:
    """How long a step takes under GPipe."""
    p, m, forward = dice.between(2, 8), dice.between(2, 16), dice.between(2, 9)
    return Problem(
        _(
            "GPipe, {p} equal stages, {m} micro-batches. In a stage a micro-batch's forward takes {f} ms and its "
            "backward {b} ms; messages take no time. How long is a step?"
        ).format(p=p, m=m, f=forward, b=2 * forward),
        keys.gpipe_duration(p, m, forward),
        (
            Distractor(3 * forward * m, _("That is the work of one rank. It also waits.")),
            Distractor(
                forward * (m + p - 1), _("That is when the last forward ends. The backwards are still to come.")
            ),
            Distractor(
                3 * forward * m * p, _("That is all work one after the other, as on one rank with the whole model.")
            ),
            Distractor(3 * forward * (m + p), _("The last stage begins after {n} forwards.").format(n=p - 1)),
        ),
        _("$(m + p - 1)(F + B) = {n} \\cdot {both}$ ms.").format(n=m + p - 1, both=3 * forward),
        "ms",
    )


def messages(dice: Dice) -> Problem:
    """Messages between ranks in a step of interleaved 1F1B."""
    p, v = dice.between(2, 6), dice.between(2, 4)
    m = p * dice.between(1, 3)
    return Problem(
        _(
            "Interleaved 1F1B: {p} ranks with {v} stages each, {m} micro-batches. How many tensors do the ranks send "
            "each other in a step?"
        ).format(p=p, v=v, m=m),
        keys.messages(p, m, v),
        (
            Distractor(m * (p * v - 1), _("Each border is crossed twice: forward, and back with the gradient.")),
            Distractor(
                keys.messages(p, m, 1), _("That is with one stage a rank. With {v} there are more borders.").format(v=v)
            ),
            Distractor(2 * m * p * v, _("Between {n} stages there are {k} borders.").format(n=p * v, k=p * v - 1)),
        ),
        _("There are {k} borders, each crossed twice by every micro-batch: $2 \\cdot {m} \\cdot {k}$.").format(
            k=p * v - 1, m=m
        ),
    )


MAKERS = (one_f_one_b_live, gpipe_live, zero_bubble_idle, step_time, messages)
