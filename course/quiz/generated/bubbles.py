"""Questions about the bubble: how large by either definition, and what makes it smaller."""

from __future__ import annotations

import math

from course.quiz import keys
from course.quiz.dice import Dice
from course.quiz.generated.problem import Distractor, Problem
from minipar.words import _


def gpipe_bubble(dice: Dice) -> Problem:
    """Idle share of all time under GPipe."""
    p, m = dice.between(2, 8), dice.between(2, 16)
    return Problem(
        _(
            "GPipe, {p} equal stages, {m} micro-batches. How large is the bubble, as the idle share of **all** time?"
        ).format(p=p, m=m),
        keys.gpipe_bubble_percent(p, m),
        (
            Distractor(
                keys.gpipe_overhead_percent(p, m),
                _("That is idle time over *ideal* time. Here the whole time is below the line."),
            ),
            Distractor(keys.gpipe_bubble_percent(m, p), _("The other way round: you took micro-batches for stages.")),
            Distractor(100 * p / (m + p - 1), _("A rank waits for the {n} others, not for itself.").format(n=p - 1)),
            Distractor(100 * (p - 1) / (m + p), _("One step too many: the last step of the others counts only once.")),
        ),
        _(
            "A rank works {m} steps and waits {w}: "
            "idle are $\\frac{{p-1}}{{m+p-1}} = \\frac{{{w}}}{{{all}}}$ of the time."
        ).format(m=m, w=p - 1, all=m + p - 1),
        "%",
        1,
    )


def gpipe_overhead(dice: Dice) -> Problem:
    """Idle time over ideal time under GPipe."""
    p, m = dice.between(2, 8), dice.between(2, 16)
    return Problem(
        _(
            "GPipe, {p} equal stages, {m} micro-batches. How large is the bubble, as idle time over **ideal** time?"
        ).format(p=p, m=m),
        keys.gpipe_overhead_percent(p, m),
        (
            Distractor(
                keys.gpipe_bubble_percent(p, m),
                _("That is the idle share of *all* time. Here only the time of work is below the line."),
            ),
            Distractor(keys.gpipe_overhead_percent(m, p), _("The other way round: you took micro-batches for stages.")),
            Distractor(100 * p / m, _("A rank waits for the {n} others, not for itself.").format(n=p - 1)),
        ),
        _("A rank waits {w} steps for {m} steps of work: $\\frac{{p-1}}{{m}} = \\frac{{{w}}}{{{m}}}$.").format(
            w=p - 1, m=m
        ),
        "%",
        1,
    )


def micro_batches_needed(dice: Dice) -> Problem:
    """The fewest micro-batches for a bubble of at most so many percent."""
    p, percent = dice.between(2, 8), dice.pick((5, 10, 20, 25, 40))
    key = keys.micro_batches_for_bubble(p, percent)
    by_other = math.ceil(100 * (p - 1) / percent - 1e-9)
    return Problem(
        _(
            "GPipe with {p} equal stages is to be idle at most {percent} % of all time. "
            "How many micro-batches does that take, at least?"
        ).format(p=p, percent=percent),
        key,
        (
            Distractor(
                by_other, _("That keeps idle time over *ideal* time below {percent} %.").format(percent=percent)
            ),
            Distractor(
                key - 1 if key > 1 else 2,
                _("Not the least that does. Put it into the rule and look on which side of {percent} % it is.").format(
                    percent=percent
                ),
            ),
            Distractor(key + p - 1, _("That is the number of steps, with those in which the rank waits.")),
            Distractor(
                math.ceil(100 * p / percent), _("A rank waits for the {n} others, not for itself.").format(n=p - 1)
            ),
        ),
        _(
            "From $\\frac{{p-1}}{{m+p-1}} \\le b$ follows $m \\ge \\frac{{(p-1)(1-b)}}{{b}}$; "
            "with $p = {p}$ and $b = {b}$ the first whole number is {key}."
        ).format(p=p, b=percent / 100, key=key),
    )


def gpipe_speedup(dice: Dice) -> Problem:
    """How many times faster than one rank."""
    p, m = dice.between(2, 8), dice.between(2, 16)
    return Problem(
        _(
            "GPipe, {p} equal stages on {p} ranks, {m} micro-batches. How many times as fast is a step as on one rank "
            "that has room for the whole model?"
        ).format(p=p, m=m),
        keys.gpipe_speedup(p, m),
        (
            Distractor(p, _("That would need all ranks to work all the time.")),
            Distractor(
                (m + p - 1) / m, _("That is how much longer a step takes than without a bubble, not how much sooner.")
            ),
            Distractor(p * m / (m + p), _("Count the steps again: the last stage begins after {n}.").format(n=p - 1)),
        ),
        _(
            "One rank takes ${p} \\cdot {m}$ steps, the pipeline $m + p - 1 = {all}$: "
            "$\\frac{{{work}}}{{{all}}} = {times:.1f}$."
        ).format(p=p, m=m, all=m + p - 1, work=p * m, times=p * m / (m + p - 1)),
        _("times"),
        1,
    )


def naive_bubble(dice: Dice) -> Problem:
    """The bubble where one micro-batch goes through and back before the next."""
    p, m = dice.between(2, 8), dice.between(2, 12)
    return Problem(
        _(
            "{p} equal stages, {m} micro-batches, but each goes through all stages and back before the next begins. "
            "Which share of all time are the ranks idle?"
        ).format(p=p, m=m),
        keys.naive_bubble_percent(p, m),
        (
            Distractor(
                keys.gpipe_bubble_percent(p, m),
                _("That is GPipe, where micro-batches follow each other. Here they do not overlap."),
            ),
            Distractor(100 / p, _("That is the share in which a rank works.")),
            Distractor(100 * (p - 1), _("That is idle time over ideal time. Here the whole time is below the line.")),
        ),
        _(
            "At any moment one of {p} ranks works, however many micro-batches there are: $\\frac{{p-1}}{{p}} = "
            "\\frac{{{w}}}{{{p}}}$."
        ).format(p=p, w=p - 1),
        "%",
        1,
    )


def interleaved_overhead(dice: Dice) -> Problem:
    """Idle over ideal time under interleaved 1F1B."""
    p, v = dice.between(2, 6), dice.between(2, 4)
    m = p * dice.between(1, 4)
    return Problem(
        _(
            "Interleaved 1F1B: {p} ranks with {v} equal stages each, {m} micro-batches, messages take no time. "
            "How large is idle time over ideal time?"
        ).format(p=p, v=v, m=m),
        keys.interleaved_overhead_percent(p, m, v),
        (
            Distractor(
                keys.gpipe_overhead_percent(p, m), _("That is the bubble with one stage a rank. Each rank has more.")
            ),
            Distractor(
                100 * (p - 1) / (v * m + p - 1),
                _("That is the idle share of *all* time."),
            ),
            Distractor(
                100 * (p * v - 1) / m,
                _("That is a pipeline of {n} ranks with one stage each.").format(n=p * v),
            ),
            Distractor(100 * (p - 1) * v / m, _("More stages a rank make the bubble smaller, not larger.")),
        ),
        _(
            "Filling takes {w} stages, each {v} times as short as a rank's work for a micro-batch: "
            "$\\frac{{p-1}}{{v \\cdot m}} = \\frac{{{w}}}{{{all}}}$."
        ).format(w=p - 1, v=v, all=v * m),
        "%",
        1,
    )


MAKERS = (gpipe_bubble, gpipe_overhead, micro_batches_needed, gpipe_speedup, naive_bubble, interleaved_overhead)
