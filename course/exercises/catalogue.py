"""All exercises, by name."""

from __future__ import annotations

from course.exercises.exercise import Exercise
from course.exercises.lesson00 import COLUMN_LINEAR
from course.exercises.lesson01 import COUNT_BYTES, MOST_BLOCKS
from course.exercises.lesson02 import MEAN_IN_TWO, RING_ALL_REDUCE
from course.exercises.lesson03 import COLUMN_ROW_PAIR, ROW_SPLIT
from course.exercises.lesson04 import ATTENTION_HEADS, VOCABULARY_LOSS
from course.exercises.lesson05 import BALANCED_STAGES, LINE_STEP
from course.exercises.lesson06 import CHOOSE_MICRO_BATCHES, GPIPE_ROWS
from course.exercises.lesson07 import BEAT_THE_BUBBLE, ONE_F_ONE_B
from course.exercises.lesson08 import PARTNERS, PLACE_AXES
from course.exercises.lesson09 import BEAT_THE_PLANNER, PLAN_175B
from minipar.words import _

EXERCISES = {
    exercise.name: exercise
    for exercise in (
        COLUMN_LINEAR,
        COUNT_BYTES,
        MOST_BLOCKS,
        RING_ALL_REDUCE,
        MEAN_IN_TWO,
        ROW_SPLIT,
        COLUMN_ROW_PAIR,
        ATTENTION_HEADS,
        VOCABULARY_LOSS,
        LINE_STEP,
        BALANCED_STAGES,
        GPIPE_ROWS,
        CHOOSE_MICRO_BATCHES,
        ONE_F_ONE_B,
        BEAT_THE_BUBBLE,
        PARTNERS,
        PLACE_AXES,
        BEAT_THE_PLANNER,
        PLAN_175B,
    )
}


def find(name: str) -> Exercise:
    """The exercise with this name; `ValueError` that names those there are."""
    if name not in EXERCISES:
        known = ", ".join(EXERCISES)
        raise ValueError(_("there is no exercise {name!r}; there are: {known}").format(name=name, known=known))
    return EXERCISES[name]
