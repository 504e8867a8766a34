"""Grading: a pure function from a question and an answer to points and feedback, shared by every front."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from course.number import read_number
from course.quiz import schedule_answer
from course.quiz.asked import Asked, Choose, FindPartners, GiveNumber, PutInOrder, WriteSchedule
from minipar.words import _, plural

LONGEST_NUMBER = 100  # characters


@dataclass(frozen=True)
class Remark:
    """What to say about one place of the answer (or the whole, where `place` is None), and whether it was right."""

    place: int | None
    right: bool
    text: str


Judged = tuple[float, tuple[Remark, ...]]
"""The share of the points, and what to say."""


@dataclass(frozen=True)
class Grade:
    """Points got of those possible, what to say, where to read again after a wrong answer, and the worked solution."""

    points: float
    possible: float
    remarks: tuple[Remark, ...]
    read_again: str | None
    solution: str | None = None

    @property
    def right(self) -> bool:
        """Whether the answer was wholly right."""
        return self.points == self.possible


def grade(question: Asked, answer: Any) -> Grade:
    """Grade an answer, as JSON has it; what each kind takes is said in `course.quiz.asked`.

    Raises `ValueError`, with a sentence for the learner, for an answer that is none.
    """
    share, remarks = _judge(question, answer)
    again = None if share == 1 else question.read_again
    return Grade(share * question.points, question.points, remarks, again, question.solution)


def _judge(question: Asked, answer: Any) -> Judged:
    if isinstance(question, GiveNumber):
        return _number(question, answer)
    if isinstance(question, PutInOrder):
        return _order(question, answer)
    if isinstance(question, FindPartners):
        return _partners(question, answer)
    if isinstance(question, WriteSchedule):
        return _schedule(question, answer)
    return _choices(question, answer if question.several else [answer])


def places(answer: Any, count: int) -> list[int] | None:
    """The answer as a list of places below `count`; None if it is none."""
    if not isinstance(answer, Sequence) or isinstance(answer, str) or len(answer) > 100:
        return None
    return list(answer) if all(type(i) is int and 0 <= i < count for i in answer) else None


def _choices(question: Choose, answer: Any) -> Judged:
    """The share of the right choices that were picked, less one for each wrong one; and a remark for each pick."""
    picked = places(answer, len(question.options))
    if not picked:
        raise ValueError(_("pick a choice first"))
    chosen = [(i, question.options[i]) for i in sorted(set(picked))]
    remarks = [Remark(i, option.right, option.feedback) for i, option in chosen]
    good, bad = sum(option.right for _, option in chosen), sum(not option.right for _, option in chosen)
    wanted = sum(option.right for option in question.options)
    if bad == 0 and good < wanted:
        remarks.append(Remark(None, False, _("Right so far, but there is more to pick.")))
    return max(0.0, (good - bad) / wanted), tuple(remarks)


def _number(question: GiveNumber, answer: Any) -> Judged:
    if len(str(answer)) > LONGEST_NUMBER:
        raise ValueError(_("that is too long"))
    value = read_number(answer, question.unit)

    def is_near(key: float) -> bool:
        # A hair's breadth more, so that a tolerance of 0.5 admits exactly half away.
        return abs(value - key) <= question.tolerance + 1e-9 * max(1.0, abs(key))

    if is_near(question.key):
        return 1.0, (Remark(None, True, question.right),)
    known = next((mistake.feedback for mistake in question.mistakes if is_near(mistake.value)), question.wrong)
    return 0.0, (Remark(None, False, known),)


def _order(question: PutInOrder, answer: Any) -> Judged:
    """All or nothing: an order with one slip in it is another order."""
    count = len(question.items)
    order = places(answer, count)
    if order is None or sorted(order) != list(range(count)):
        raise ValueError(_("put each of them in its place first"))
    items = [question.items[i] for i in order]
    good = next((at for at, item in enumerate(items) if item.place != at), count)
    if good == count:
        return 1.0, (Remark(None, True, question.right),)
    so_far = plural("The first {count} is in its place.", "The first {count} are in their places.", good)
    remarks = [Remark(None, True, so_far)] if good else []
    return 0.0, (*remarks, Remark(order[good], False, items[good].feedback))


def _partners(question: FindPartners, answer: Any) -> Judged:
    """The share of the left sides whose partner was found."""
    picked = places(answer, len(question.rights))
    if picked is None or len(picked) != len(question.lefts):
        raise ValueError(_("find a partner for each of them first"))
    missed = [i for i, (left, at) in enumerate(zip(question.lefts, picked, strict=True)) if left.partner != at]
    if not missed:
        return 1.0, (Remark(None, True, question.right),)
    share = (len(question.lefts) - len(missed)) / len(question.lefts)
    return share, tuple(Remark(i, False, question.lefts[i].feedback) for i in missed)


def _schedule(question: WriteSchedule, answer: Any) -> Judged:
    """The share of the targets that a schedule meets which runs; nothing for one that does not."""
    schedule = schedule_answer.read(question.known, answer)
    try:
        schedule_answer.check_runs(schedule, question.known)
    except schedule_answer.DoesNotRun as error:
        return 0.0, (Remark(None, False, _("It cannot run: {reason}.").format(reason=error)),)
    compared = schedule_answer.compare(schedule, question)
    remarks = [Remark(None, c.met, schedule_answer.in_words(c)) for c in compared]
    remarks += [Remark(None, False, question.targets[c.target]) for c in compared if not c.met]
    share = sum(c.met for c in compared) / len(compared)
    return share, (*remarks, *([Remark(None, True, question.right)] if share == 1 else []))
