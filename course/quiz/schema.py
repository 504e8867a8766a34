"""What a quiz file may say: its schema, and errors that name the line.

A text is a mapping from language to sentence; English is required. In a text, `…` in backticks is code.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, model_validator
from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedMap, CommentedSeq
from ruamel.yaml.error import MarkedYAMLError, YAMLError

from course.quiz.keys import KEYS


class QuizError(ValueError):
    """A quiz file that cannot be used; the message names the file, the line and the field."""


def _has_english(texts: dict[str, str]) -> dict[str, str]:
    if not texts.get("en", "").strip():
        raise ValueError("a text needs an English sentence under 'en'")
    return texts


Text = Annotated[dict[str, str], AfterValidator(_has_english)]


class Part(BaseModel):
    """Any part of a quiz: fields that the schema does not know are errors."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Choice(Part):
    """One choice, and what the learner reads after picking it."""

    text: Text
    feedback: Text
    right: bool = False


class Question(Part):
    """What all kinds of question have. `read_again` is the heading in the lesson that explains the answer."""

    id: Annotated[str, Field(pattern=r"^[a-z0-9-]+$")]
    text: Text
    read_again: Annotated[str, Field(min_length=1)]
    points: Annotated[float, Field(gt=0)] = 1.0


class OneChoice(Question):
    """Pick the one right choice."""

    kind: Literal["one"]
    choices: Annotated[tuple[Choice, ...], Field(min_length=2)]

    @model_validator(mode="after")
    def _one_is_right(self) -> OneChoice:
        if sum(choice.right for choice in self.choices) != 1:
            raise ValueError("a question of kind 'one' needs exactly one choice with 'right: true'")
        return self


class SeveralChoices(Question):
    """Pick every right choice."""

    kind: Literal["several"]
    choices: Annotated[tuple[Choice, ...], Field(min_length=2)]

    @model_validator(mode="after")
    def _some_are_right(self) -> SeveralChoices:
        if not 0 < sum(choice.right for choice in self.choices) < len(self.choices):
            raise ValueError("a question of kind 'several' needs right choices and wrong ones")
        return self


class Key(Part):
    """A number that the library computes: a function of `course.quiz.keys` and its arguments."""

    formula: str
    stages: Annotated[int, Field(ge=1, le=64)]
    micro_batches: Annotated[int, Field(ge=1, le=1024)]

    @model_validator(mode="after")
    def _formula_exists(self) -> Key:
        if self.formula not in KEYS:
            raise ValueError(f"there is no formula {self.formula!r}; there are: {', '.join(KEYS)}")
        return self

    @property
    def value(self) -> float:
        """The number."""
        return KEYS[self.formula](self.stages, self.micro_batches)


class Mistake(Part):
    """A number that a known mistake leads to, and what to say about it."""

    key: Key
    feedback: Text


class Number(Question):
    """Give a number, within `tolerance` of the key."""

    kind: Literal["number"]
    key: Key
    tolerance: Annotated[float, Field(ge=0)]
    unit: str = ""
    right: Text
    wrong: Text
    mistakes: tuple[Mistake, ...] = ()


AnyQuestion = Annotated[OneChoice | SeveralChoices | Number, Field(discriminator="kind")]


def _ids_differ(questions: tuple[Question, ...]) -> tuple[Question, ...]:
    ids = [question.id for question in questions]
    if twice := [one for one in ids if ids.count(one) > 1]:
        raise ValueError(f"two questions have the id {twice[0]!r}")
    return questions


class Quiz(Part):
    """A quiz: its questions in order, and the share of the points that passes it."""

    id: Annotated[str, Field(pattern=r"^[a-z0-9-]+$")]
    title: Text
    pass_mark: Annotated[float, Field(gt=0, le=1)] = 0.8
    questions: Annotated[tuple[AnyQuestion, ...], Field(min_length=1), AfterValidator(_ids_differ)]


def load(path: Path) -> Quiz:
    """Read and check a quiz file; raises `QuizError` with file, line and field."""
    try:
        document = YAML(typ="rt").load(path.read_text(encoding="utf-8"))
        return Quiz.model_validate(document)
    except ValidationError as error:
        raise QuizError("\n".join(_sentence(path, document, detail) for detail in error.errors())) from None
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = mark.line + 1 if mark else 1
        raise QuizError(f"{path.name}, line {line}: {error.problem or error.context}") from None
    except (YAMLError, UnicodeDecodeError) as error:
        raise QuizError(f"{path.name}: this is not a YAML file in UTF-8: {error}") from None
    except OSError as error:
        raise QuizError(f"the quiz {path} cannot be read: {error.strerror}") from None


def _sentence(path: Path, document: Any, detail: Any) -> str:
    """One error of the schema with its line."""
    line, known = _locate(document, detail["loc"])
    field = ".".join(str(part) for part in known)
    message = detail["msg"].removeprefix("Value error, ")
    return f"{path.name}, line {line}: {f'{field}: ' if field else ''}{message}"


def _locate(document: Any, location: Sequence[str | int]) -> tuple[int, list[str | int]]:
    """The line of the innermost part of `location` that the document has, and the location as the file spells it.

    The names of kinds, which the schema puts into a location, are left out; a missing field is kept.
    """
    line, known, at = 1, [], document
    for i, part in enumerate(location):
        if isinstance(at, CommentedMap) and part in at:
            line, at, found = at.lc.key(part)[0] + 1, at[part], True
        elif isinstance(at, CommentedSeq) and isinstance(part, int) and part < len(at):
            line, at, found = at.lc.item(part)[0] + 1, at[part], True
        else:
            found = False
        if found or i + 1 == len(location):
            known.append(part)
    return line, known
