"""A problem whose numbers were drawn: its text, its key, what mistakes lead to, and how it is worked out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from course.quiz.dice import Dice

CHOICES = 4
TRIES = 200


@dataclass(frozen=True)
class Distractor:
    """What a known mistake leads to, and what to say about it."""

    value: float | str
    feedback: str


@dataclass(frozen=True)
class Problem:
    """A problem in the reader's language. `unit` is of the key and of the distractors, shown with `decimals`."""

    text: str
    key: float | str
    distractors: tuple[Distractor, ...]
    solution: str
    unit: str = ""
    decimals: int = 0

    @property
    def tolerance(self) -> float:
        """How far a typed number may be away: one unit in the last place, as some round and some cut; else nothing."""
        whole = self.decimals == 0 and float(self.key) == round(float(self.key))
        return 0.0 if whole else 10.0**-self.decimals

    def shown(self, value: float | str) -> str:
        """A value as a choice shows it."""
        number = value if isinstance(value, str) else f"{value:.{self.decimals}f}"
        return f"{number} {self.unit}".strip()

    def distinct(self) -> Problem:
        """The same with those distractors alone that differ from the key and from each other, as they are shown."""
        kept: list[Distractor] = []
        for distractor in self.distractors:
            others = [self.key, *(other.value for other in kept)]
            if all(self._differ(distractor.value, other) for other in others):
                kept.append(distractor)
        return replace(self, distractors=tuple(kept[: CHOICES - 1]))

    def _differ(self, one: float | str, other: float | str) -> bool:
        if self.shown(one) == self.shown(other):
            return False
        return isinstance(one, str) or isinstance(other, str) or abs(one - other) > 2 * self.tolerance + 1e-9


Maker = Callable[[Dice], Problem]


def draw(make: Maker, seed: int, name: str) -> Problem:
    """A problem of `make` with at least two wrong choices that differ; the same for the same seed and name."""
    for attempt in range(TRIES):
        problem = make(Dice(seed, f"{name}/{attempt}")).distinct()
        if len(problem.distractors) >= 2:
            return problem
    raise RuntimeError(f"{name}: {TRIES} draws gave no two wrong choices that differ")
