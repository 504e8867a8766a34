"""The list of lessons: what each is called, how long it takes, where it is, and what it builds on."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from minipar.words import _

ROOT = Path(__file__).resolve().parents[1]


@dataclass(frozen=True)
class Lesson:
    """One lesson. `name` is the stem of its notebook and of its quiz, `id` the number that it starts with.

    builds_on: the names of the lessons that it takes for granted.
    """

    name: str
    title: str
    minutes: int
    builds_on: tuple[str, ...] = ()

    @property
    def id(self) -> str:
        """The lesson's number, such as ``"00"``."""
        return self.name[:2]

    @property
    def notebook(self) -> Path:
        """The notebook's file."""
        return ROOT / "notebooks" / f"{self.name}.ipynb"

    @property
    def quiz(self) -> Path:
        """The quiz's file."""
        return ROOT / "quizzes" / f"{self.name}.yaml"


def lessons() -> tuple[Lesson, ...]:
    """All lessons, in the order to take them."""
    return (
        Lesson("00-start", _("Start here"), 25),
        Lesson("01-memory", _("Why one device is not enough"), 35, ("00-start",)),
        Lesson("02-collectives", _("Ranks and collectives"), 35, ("00-start",)),
        Lesson("03-matmul", _("Cutting a matmul"), 40, ("00-start", "02-collectives")),
        Lesson("04-transformer", _("A tensor-parallel transformer"), 45, ("03-matmul",)),
        Lesson("05-stages", _("Stages and the bubble"), 40, ("00-start",)),
        Lesson("06-micro-batches", _("Micro-batches"), 45, ("05-stages",)),
        Lesson("07-schedules", _("Better schedules"), 45, ("06-micro-batches",)),
        Lesson("08-mesh", _("3D meshes"), 40, ("04-transformer", "06-micro-batches")),
        Lesson("09-layout", _("Choosing a layout"), 40, ("07-schedules", "08-mesh")),
    )


def find(name: str) -> Lesson:
    """The lesson with this number or name; `ValueError` that names those there are."""
    known = lessons()
    for lesson in known:
        if name in (lesson.id, lesson.name):
            return lesson
    raise ValueError(
        _("there is no lesson {name!r}; there are: {known}").format(
            name=name, known=", ".join(lesson.name for lesson in known)
        )
    )
