"""Targets of an exercise: a right answer is weighed too, by steps, live micro-batches, bytes sent and equality."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from course.exercises.exercise import Refused, Status, Target, Verdict
from course.judge.ranks import Played
from minipar.words import _


@dataclass(frozen=True)
class Weighed:
    """One row of the table of targets, and whether the answer is within."""

    row: Target
    within: bool


def at_most(name: str, yours: float, most: float, best: float) -> Weighed:
    """A measure that may be `most`; the best that is known has `best`."""
    words = _("at most {number:g}").format(number=most)
    rounding = 1e-9 * abs(most)  # a sum of shares may be a hair above the whole
    return Weighed(Target(name, f"{yours:g}", words, f"{best:g}"), yours <= most + rounding)


def steps(yours: float, most: float, best: float) -> Weighed:
    """The length of a schedule, in forwards of a micro-batch."""
    return at_most(_("steps"), yours, most, best)


def live_micro_batches(yours: int, most: int, best: int) -> Weighed:
    """The most micro-batches whose activations a rank holds at once."""
    return at_most(_("live micro-batches"), yours, most, best)


def equality(error: float, most: float) -> Weighed:
    """The largest difference from the unsplit computation, as a share of its largest entry."""
    return at_most(_("largest difference from the unsplit computation"), error, most, 0.0)


def bytes_sent(played: Played, most: float, best: float) -> Weighed:
    """Bytes that a rank sends, the busiest one counting.

    Raises `Refused` where that cannot be known: nothing was counted, or the counts of the ledger and of the
    operating system do not agree.
    """
    sent = [outcome.sent for outcome in played.outcomes]
    uncounted = played.uncounted or ("" if all(sent) else _("a rank's ledger is empty"))
    if uncounted:
        words = _("The result is right, but what was sent cannot be counted: {reason}. Let the ranks talk by `comm`.")
        raise Refused(Status.OUTSIDE_TARGET, words.format(reason=uncounted))
    return at_most(_("bytes that each rank sends, {ranks} ranks").format(ranks=len(sent)), max(sent), most, best)


def weigh(rows: Sequence[Weighed], passed: str, outside: str) -> Verdict:
    """The verdict on a right answer: passed where every row is within its target."""
    within = all(row.within for row in rows)
    status, message = (Status.PASSED, passed) if within else (Status.OUTSIDE_TARGET, outside)
    return Verdict(status, message, tuple(weighed.row for weighed in rows))
