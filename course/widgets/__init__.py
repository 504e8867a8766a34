"""What a notebook shows and lets the learner move."""

from course.widgets.collectives import collectives
from course.widgets.home import home
from course.widgets.machine import machine
from course.widgets.matmul import matmul
from course.widgets.memory import memory
from course.widgets.mesh import mesh
from course.widgets.pipeline import column_split, on_real_ranks, pipeline, predict_bubble, stage_alone

__all__ = [
    "collectives",
    "column_split",
    "home",
    "machine",
    "matmul",
    "memory",
    "mesh",
    "on_real_ranks",
    "pipeline",
    "predict_bubble",
    "stage_alone",
]
