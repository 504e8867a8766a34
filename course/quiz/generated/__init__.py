"""Questions whose numbers are drawn for each learner and attempt: functions over the library, by name."""

from __future__ import annotations

from collections.abc import Mapping

from course.quiz.dice import Dice
from course.quiz.generated import (
    bubbles,
    layers,
    lines,
    memory,
    placement,
    places,
    planning,
    products,
    schedules,
    traffic,
)
from course.quiz.generated.problem import Distractor, Maker, Problem, draw

GENERATED: Mapping[str, Maker] = {
    make.__name__.replace("_", "-"): make
    for module in (bubbles, schedules, memory, traffic, layers, places, placement, planning, lines, products)
    for make in module.MAKERS
}


def can_be_typed(name: str) -> bool:
    """Whether the key of this function is a number, not a text."""
    return not isinstance(GENERATED[name](Dice(0, name)).key, str)


__all__ = ["GENERATED", "Distractor", "Maker", "Problem", "can_be_typed", "draw"]
