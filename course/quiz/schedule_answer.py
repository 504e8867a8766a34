"""A learner's schedule as an answer: is it one, does it run, and is it as good as a published one?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from course.quiz.asked import WriteSchedule
from minipar.draw import percent
from minipar.pipeline import Action, Schedule, ScheduleError, parse, simulate
from minipar.pipeline.schedule import WORD, in_order
from minipar.words import _, plural

LONGEST = 4000  # characters of an answer


class DoesNotRun(Exception):
    """A schedule that was understood but cannot run; the message says why."""


@dataclass(frozen=True)
class Comparison:
    """One target: the learner's value and the most that it may be, in words, and whether it is met."""

    target: str
    yours: str
    most: str
    met: bool


def read(known: Schedule, answer: Any) -> Schedule:
    """The schedule that was written, for as many ranks as `known` has.

    Raises `ValueError`, with a sentence for the learner, for what is none.

    answer: the lines, or one text with line breaks; empty lines at the end do not count.
    """
    lines = answer.splitlines() if isinstance(answer, str) else answer
    if (
        not isinstance(lines, Sequence)
        or not all(isinstance(line, str) for line in lines)
        or not "".join(lines).strip()
    ):
        raise ValueError(_("write a line for each rank first, such as F0 F1 B0 B1"))
    if sum(map(len, lines)) > LONGEST:
        raise ValueError(_("that is too long"))
    rows = [line.replace(",", " ").upper() for line in lines]
    while rows and not rows[-1].strip():
        rows.pop()
    if len(rows) != known.ranks:
        wanted = plural("write {count} line, one for each rank", "write {count} lines, one for each rank", known.ranks)
        raise ValueError(_("{wanted}; there are {lines}").format(wanted=wanted, lines=len(rows)))
    for rank, row in enumerate(rows):
        for word in row.split():
            if not WORD.fullmatch(word):
                raise ValueError(
                    _("rank {rank}: {word} is not an action; write F, B, I or W and a micro-batch, as in F0").format(
                        rank=rank, word=f"`{word[:20]}`".replace("``", "")
                    )
                )
    try:
        return parse(rows)
    except ScheduleError:  # a stage that nobody does anything for
        raise ValueError(_("there are only {count} stages").format(count=known.stages)) from None


def check_runs(schedule: Schedule, known: Schedule) -> None:
    """Raise `DoesNotRun`, with a sentence for the learner, for one of another size than `known` or that cannot run.

    The same as `minipar.pipeline.check` proves, in sentences that can be translated.
    """
    for rank, row in enumerate(schedule.actions):
        for action, times in Counter(row).items():
            if action.stage >= known.stages or action.micro_batch >= known.micro_batches:
                text = _("rank {rank} does {action}; stages go to {stage} and micro-batches to {last}")
                raise DoesNotRun(
                    text.format(rank=rank, action=word(action), stage=known.stages - 1, last=known.micro_batches - 1)
                )
            if schedule.holder[action.stage] != rank:
                text = _("rank {rank} does {action}, but rank {holder} holds that stage")
                raise DoesNotRun(text.format(rank=rank, action=word(action), holder=schedule.holder[action.stage]))
            if times > 1:
                text = _("rank {rank} does {action} {times} times")
                raise DoesNotRun(text.format(rank=rank, action=word(action), times=times))
    _check_complete(schedule, known)
    _check_order(schedule)


def word(action: Action) -> str:
    """An action as it is written, with its stage."""
    return f"`{action.kind}{action.micro_batch}@{action.stage}`"


def _check_complete(schedule: Schedule, known: Schedule) -> None:
    done = {action for row in schedule.actions for action in row}
    for stage in range(known.stages):
        for i in range(known.micro_batches):
            kinds = {action.kind for action in done if action[1:] == (stage, i)}
            backwards = kinds - {"F"}
            at = {"stage": stage, "number": i}
            if "F" not in kinds:
                raise DoesNotRun(_("stage {stage} never does the forward of micro-batch {number}").format(**at))
            if not backwards:
                raise DoesNotRun(_("stage {stage} never does the backward of micro-batch {number}").format(**at))
            if backwards not in ({"B"}, {"I", "W"}):
                text = _("stage {stage}, micro-batch {number}: a backward is either B, or I and W")
                raise DoesNotRun(text.format(**at))


def _check_order(schedule: Schedule) -> None:
    done = [0] * schedule.ranks
    try:
        for rank, _action, _needs in in_order(schedule):
            done[rank] += 1
    except ScheduleError:
        stuck = [
            (rank, row[at]) for rank, (row, at) in enumerate(zip(schedule.actions, done, strict=True)) if at < len(row)
        ]
        waits = ", ".join(_("rank {rank} at {action}").format(rank=rank, action=word(action)) for rank, action in stuck)
        raise DoesNotRun(_("it never finishes; ranks wait for ever: {waits}").format(waits=waits)) from None


def compare(schedule: Schedule, question: WriteSchedule) -> tuple[Comparison, ...]:
    """Each target of the question beside what this schedule reaches. The schedule must run."""
    yours, known = simulate(schedule), simulate(question.known)
    found = []
    for target in question.targets:
        if target == "bubble":
            met = yours.bubble_of_total <= known.bubble_of_total + 1e-9
            shares = percent(yours.bubble_of_total, 1), percent(known.bubble_of_total, 1)
            found.append(Comparison(target, *shares, met))
        else:
            live, most = max(schedule.peak_live), max(question.known.peak_live)
            found.append(Comparison(target, str(live), str(most), live <= most))
    return tuple(found)


def in_words(comparison: Comparison) -> str:
    """A target, reached or not, in a sentence."""
    text = (
        _("Idle share of all time: {yours}; at most {most} was wanted.")
        if comparison.target == "bubble"
        else _("Live micro-batches at most: {yours}; at most {most} was wanted.")
    )
    return text.format(yours=comparison.yours, most=comparison.most)
