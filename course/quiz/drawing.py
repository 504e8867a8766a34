"""From a question of the file to the question that is asked: the language chosen, numbers drawn, choices shuffled."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from course.language import localized
from course.quiz import asked, schema
from course.quiz.dice import Dice
from course.quiz.generated import GENERATED, draw
from minipar.words import _

T = TypeVar("T")


def ask(question: schema.AnyQuestion, seed: int) -> asked.Asked:
    """The question as it is asked in the attempt with this seed."""
    dice = Dice(seed, f"{question.id}/order")
    if isinstance(question, schema.Generated):
        return _generated(question, seed, dice)
    solution = None if question.solution is None else localized(question.solution)
    base = asked.Question(
        id=question.id,
        text=localized(question.text),
        points=question.points,
        read_again=question.read_again,
        solution=solution,
    )
    common = vars(base)
    if isinstance(question, schema.Number):
        mistakes = (asked.KnownMistake(m.key.value, localized(m.feedback)) for m in question.mistakes)
        return asked.GiveNumber(
            key=question.key.value,
            tolerance=question.tolerance,
            unit=question.unit,
            right=localized(question.right),
            wrong=localized(question.wrong),
            mistakes=tuple(mistakes),
            **common,
        )
    if isinstance(question, schema.Order):
        things = [asked.Movable(localized(i.text), localized(i.feedback), at) for at, i in enumerate(question.items)]
        return asked.PutInOrder(items=tuple(_mixed(dice, things)), right=localized(question.right), **common)
    if isinstance(question, schema.Match):
        return _match(question, dice, common)
    if isinstance(question, schema.FillIn):
        targets: dict[str, str] = {name: localized(text) for name, text in question.targets.items()}
        return asked.WriteSchedule(known=question.known, targets=targets, right=localized(question.right), **common)
    options = [asked.Option(localized(c.text), localized(c.feedback), c.right) for c in question.choices]
    several = isinstance(question, schema.SeveralChoices)
    return asked.Choose(options=tuple(dice.shuffled(options)), several=several, **common)


def _mixed(dice: Dice, things: Sequence[T]) -> list[T]:
    """In another order than they were in; to leave all where they belong would give the answer away."""
    while (mixed := dice.shuffled(things)) == list(things):
        pass
    return mixed


def _match(question: schema.Match, dice: Dice, common: dict[str, object]) -> asked.FindPartners:
    texts = [localized(pair.right) for pair in question.pairs] + [localized(decoy) for decoy in question.decoys]
    places = dice.shuffled(range(len(texts)))  # places[shown] is the right side of this number in the file
    lefts = [
        asked.Left(localized(pair.left), localized(pair.feedback), places.index(i))
        for i, pair in enumerate(question.pairs)
    ]
    rights = tuple(texts[i] for i in places)
    return asked.FindPartners(
        lefts=tuple(dice.shuffled(lefts)),
        rights=rights,
        right=localized(question.right),
        **common,  # type: ignore[arg-type]
    )


def _generated(question: schema.Generated, seed: int, dice: Dice) -> asked.Choose | asked.GiveNumber:
    problem = draw(GENERATED[question.function], seed, f"{question.id}/{question.function}")
    base = asked.Question(
        id=question.id,
        text=problem.text,
        points=question.points,
        read_again=question.read_again,
        solution=problem.solution + " " + _("So: {answer}.").format(answer=problem.shown(problem.key)),
    )
    common = vars(base)
    if question.ask == "number":
        return asked.GiveNumber(
            key=float(problem.key),
            tolerance=problem.tolerance,
            unit=problem.unit,
            right=_("Yes."),
            wrong=_("Not this. See how it is worked out."),
            mistakes=tuple(asked.KnownMistake(float(d.value), d.feedback) for d in problem.distractors),
            **common,
        )
    options = [asked.Option(problem.shown(problem.key), _("Yes."), True)]
    options += [asked.Option(problem.shown(d.value), d.feedback, False) for d in problem.distractors]
    return asked.Choose(options=tuple(dice.shuffled(options)), several=False, **common)
