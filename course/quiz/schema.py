"""What a quiz file may say: the kinds of question and their fields.

Every field is checked when a file is loaded, and every error names file, line and field.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, PrivateAttr, ValidationError, model_validator

from course.quiz import keys
from course.quiz.document import Document, read
from course.quiz.document import QuizError as QuizError
from course.quiz.generated import GENERATED, can_be_typed
from course.quiz.texts import Text
from minipar.pipeline import Schedule, check
from minipar.pipeline.names import by_name

Id = Annotated[str, Field(strict=True, pattern=r"^[a-z0-9-]+$", max_length=64)]
Line = Annotated[str, Field(strict=True, min_length=1, max_length=200)]
Flag = Annotated[bool, Field(strict=True)]
Count = Annotated[int, Field(strict=True, ge=1)]


class Part(BaseModel):
    """Any part of a quiz: fields that the schema does not know are errors."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class Base(Part):
    """What all kinds of question have. `read_again` is the heading in the lesson that explains the answer."""

    id: Id
    read_again: Line | None = None
    points: Annotated[float, Field(strict=True, gt=0, le=100)] = 1.0


class Question(Base):
    """A question whose text stands in the file.

    solution: how it is worked out. It is shown with the grade, and then the question takes no further answer.
    """

    text: Text
    solution: Text | None = None


class Choice(Part):
    """One choice, and what the learner reads after picking it."""

    text: Text
    feedback: Text
    right: Flag = False


Choices = Annotated[tuple[Choice, ...], Field(min_length=2, max_length=12)]


class OneChoice(Question):
    """Pick the one right choice."""

    kind: Literal["one"]
    choices: Choices

    @model_validator(mode="after")
    def _one_is_right(self) -> OneChoice:
        if sum(choice.right for choice in self.choices) != 1:
            raise ValueError("a question of kind 'one' needs exactly one choice with 'right: true'")
        _differ("choices", [choice.text["en"] for choice in self.choices])
        return self


class SeveralChoices(Question):
    """Pick every right choice; each wrong one takes away what a right one gives."""

    kind: Literal["several"]
    choices: Choices

    @model_validator(mode="after")
    def _some_are_right(self) -> SeveralChoices:
        if not 0 < sum(choice.right for choice in self.choices) < len(self.choices):
            raise ValueError("a question of kind 'several' needs right choices and wrong ones")
        _differ("choices", [choice.text["en"] for choice in self.choices])
        return self


class Key(BaseModel):
    """A number that the library computes: a function of `course.quiz.keys` and its arguments."""

    model_config = ConfigDict(extra="allow", frozen=True)

    formula: Annotated[str, Field(strict=True)]

    @model_validator(mode="after")
    def _can_be_computed(self) -> Key:
        _ = self.value
        return self

    @property
    def value(self) -> float:
        """The number."""
        return keys.value(self.formula, self.model_extra or {})


class Mistake(Part):
    """A number that a known mistake leads to, and what to say about it."""

    key: Key
    feedback: Text


class Number(Question):
    """Give a number, within `tolerance` of the key, in `unit`."""

    kind: Literal["number"]
    key: Key
    tolerance: Annotated[float, Field(strict=True, ge=0)]
    unit: Annotated[str, Field(strict=True, max_length=20)] = ""
    right: Text
    wrong: Text
    mistakes: Annotated[tuple[Mistake, ...], Field(max_length=12)] = ()

    @model_validator(mode="after")
    def _mistakes_are_wrong(self) -> Number:
        values = [mistake.key.value for mistake in self.mistakes]
        for i, value in enumerate(values):
            if abs(value - self.key.value) <= 2 * self.tolerance + 1e-9:
                raise ValueError(f"mistake {i} leads to {value:g}, which the tolerance takes for the key")
            if any(abs(value - other) <= 1e-9 for other in values[:i]):
                raise ValueError(f"two mistakes lead to {value:g}")
        return self


class Item(Part):
    """One thing to put in its place; `feedback` says what must come before it, for when it stands too early."""

    text: Text
    feedback: Text


class Order(Question):
    """Put the items in order; the file has them in the right one."""

    kind: Literal["order"]
    items: Annotated[tuple[Item, ...], Field(min_length=3, max_length=12)]
    right: Text

    @model_validator(mode="after")
    def _items_differ(self) -> Order:
        _differ("items", [item.text["en"] for item in self.items])
        return self


class Pair(Part):
    """What belongs together, and what to say where it was not found."""

    left: Text
    right: Text
    feedback: Text


class Match(Question):
    """Find the partner of each left side; each found is worth the same. `decoys` are right sides without a partner."""

    kind: Literal["match"]
    pairs: Annotated[tuple[Pair, ...], Field(min_length=2, max_length=12)]
    decoys: Annotated[tuple[Text, ...], Field(max_length=6)] = ()
    right: Text

    @model_validator(mode="after")
    def _sides_differ(self) -> Match:
        _differ("left sides", [pair.left["en"] for pair in self.pairs])
        _differ("right sides", [*(pair.right["en"] for pair in self.pairs), *(decoy["en"] for decoy in self.decoys)])
        return self


class FillIn(Question):
    """Write a schedule that runs and, in each of the targets, is as good as a published one.

    targets: what is compared, and what to say where the learner's schedule is worse. ``bubble`` is the idle share of
    all time, a backward taking twice a forward; ``live`` the most live micro-batches on any rank.
    """

    kind: Literal["schedule"]
    ranks: Annotated[Count, Field(le=8)]
    micro_batches: Annotated[Count, Field(le=16)]
    as_good_as: Annotated[str, Field(strict=True)]
    virtual: Annotated[Count, Field(le=4)] | None = None
    targets: Annotated[dict[Literal["bubble", "live"], Text], Field(min_length=1)]
    right: Text

    @model_validator(mode="after")
    def _exists(self) -> FillIn:
        _ = self.known
        return self

    @property
    def known(self) -> Schedule:
        """The published schedule."""
        return check(by_name(self.as_good_as, self.ranks, self.micro_batches, self.virtual))


class Generated(Base):
    """A question whose numbers are drawn for each attempt; `function` is one of `course.quiz.generated`.

    ask: with a choice of answers (``one``) or for the ``number`` itself.
    """

    kind: Literal["generated"]
    function: Annotated[str, Field(strict=True)]
    ask: Literal["one", "number"] = "one"

    @model_validator(mode="after")
    def _exists(self) -> Generated:
        if self.function not in GENERATED:
            raise ValueError(f"there is no function {self.function!r}; there are: {', '.join(GENERATED)}")
        if self.ask == "number" and not can_be_typed(self.function):
            raise ValueError(f"the answer of {self.function!r} is not a number; leave out 'ask: number'")
        return self


AnyQuestion = Annotated[
    OneChoice | SeveralChoices | Number | Order | Match | FillIn | Generated, Field(discriminator="kind")
]


def _differ(what: str, texts: list[str]) -> None:
    if twice := [text for text in texts if texts.count(text) > 1]:
        raise ValueError(f"two {what} are the same: {twice[0]!r}")


def _ids_differ(questions: tuple[AnyQuestion, ...]) -> tuple[AnyQuestion, ...]:
    ids = [question.id for question in questions]
    if twice := [one for one in ids if ids.count(one) > 1]:
        raise ValueError(f"two questions have the id {twice[0]!r}")
    return questions


class Quiz(Part):
    """A quiz: its questions in order, and the share of the points that passes it.

    lesson: whose headings `read_again` names; the lesson of the quiz's own id if it is left out.
    feedback: after each answer, or when all are handed in.
    """

    id: Id
    title: Text
    pass_mark: Annotated[float, Field(strict=True, gt=0, le=1)] = 0.8
    lesson: Id | None = None
    feedback: Literal["at once", "at the end"] = "at once"
    questions: Annotated[tuple[AnyQuestion, ...], Field(min_length=1, max_length=100), AfterValidator(_ids_differ)]
    _sha256: str = PrivateAttr(default="")

    @property
    def sha256(self) -> str:
        """The hash of the file that it was loaded from, in hex; of its content, where it came from no file."""
        return self._sha256 or hashlib.sha256(self.model_dump_json().encode()).hexdigest()


def load(path: Path) -> Quiz:
    """Read and check a quiz file; raises `QuizError` with file, line and field."""
    return understand(read(path))


def understand(document: Document) -> Quiz:
    """The quiz that a file says; raises `QuizError` with file, line and field."""
    try:
        quiz = Quiz.model_validate(document.content)
    except ValidationError as error:
        sentences = [document.error(detail["loc"], _message(detail)) for detail in error.errors()]
        raise QuizError("\n".join(dict.fromkeys(sentences))) from None
    quiz._sha256 = hashlib.sha256(document.bytes).hexdigest()
    return quiz


def _message(detail: Any) -> str:
    return str(detail["msg"]).removeprefix("Value error, ")
