"""Questions about collectives: bytes on the wire and time, where a ring does the work."""

from __future__ import annotations

from course.quiz import keys
from course.quiz.dice import Dice
from course.quiz.generated.problem import Distractor, Problem
from minipar.words import _


def all_reduce_bytes(dice: Dice) -> Problem:
    """What each rank sends in a ring all-reduce."""
    n, size = dice.pick((2, 3, 4, 5, 8, 16)), 10 * dice.between(2, 60)
    return Problem(
        _("A ring of {n} ranks all-reduces a tensor of {size} MB. How many MB does each rank send?").format(
            n=n, size=size
        ),
        keys.all_reduce_sent(n, size),
        (
            Distractor((n - 1) / n * size, _("That is half of it: a reduce-scatter. The all-gather is still to come.")),
            Distractor(n * size, _("In a ring no rank sends the whole tensor to all others.")),
            Distractor(
                2 * (n - 1) * size, _("A message is one of {n} parts of the tensor, not all of it.").format(n=n)
            ),
            Distractor(size / n, _("That is one message. How many are there?")),
        ),
        _(
            "In the reduce-scatter and again in the all-gather a rank sends {m} of the tensor's {n} parts: "
            "$2 \\cdot \\frac{{{m}}}{{{n}}} \\cdot {size}$ MB."
        ).format(m=n - 1, n=n, size=size),
        "MB",
        1,
    )


def all_gather_bytes(dice: Dice) -> Problem:
    """What each rank sends in a ring all-gather."""
    n, size = dice.pick((2, 3, 4, 5, 8, 16)), 10 * dice.between(2, 60)
    return Problem(
        _(
            "Each of {n} ranks in a ring has one of {n} parts of a tensor, and wants them all: an all-gather. "
            "The whole has {size} MB. How many MB does each rank send?"
        ).format(n=n, size=size),
        keys.all_gather_sent(n, size),
        (
            Distractor(keys.all_reduce_sent(n, size), _("That is an all-reduce, which does twice as much.")),
            Distractor((n - 1) * size, _("Each rank has one part of {n}, not the whole.").format(n=n)),
            Distractor(size / n, _("That is its own part, sent once. It also passes on what it gets.")),
            Distractor(size, _("What it has itself it need not get.")),
        ),
        _("It sends {m} parts, its own and those it passes on: $\\frac{{{m}}}{{{n}}} \\cdot {size}$ MB.").format(
            m=n - 1, n=n, size=size
        ),
        "MB",
        1,
    )


def all_reduce_time(dice: Dice) -> Problem:
    """How long a ring all-reduce takes, by latency and bandwidth."""
    n, size = dice.pick((2, 4, 8, 16)), dice.pick((1, 2, 4, 8, 16))
    latency, bandwidth = 5 * dice.between(1, 10), dice.pick((10, 20, 25, 50))
    wire = size * 1000 / bandwidth
    return Problem(
        _(
            "A ring of {n} ranks all-reduces {size} MB over links of {bandwidth} GB/s (10⁶ and 10⁹ bytes). "
            "A message also takes {latency} µs, however small. How many µs does it take?"
        ).format(n=n, size=size, bandwidth=bandwidth, latency=latency),
        keys.all_reduce_microseconds(n, size, latency, bandwidth),
        (
            Distractor(latency + wire, _("That is one message with the whole tensor.")),
            Distractor(2 * (n - 1) / n * wire, _("The latency of the messages is missing.")),
            Distractor(
                (n - 1) * latency + (n - 1) / n * wire,
                _("That is the reduce-scatter. The all-gather is still to come."),
            ),
            Distractor(
                2 * (n - 1) * (latency + wire),
                _("A message is one of {n} parts of the tensor, not all of it.").format(n=n),
            ),
        ),
        _(
            "${m}$ messages after each other, a part of {n} each: "
            "${m} \\cdot ({latency} + \\frac{{{wire:g}}}{{{n}}})$ µs."
        ).format(m=2 * (n - 1), n=n, latency=latency, wire=wire),
        "µs",
        1,
    )


MAKERS = (all_reduce_bytes, all_gather_bytes, all_reduce_time)
