"""What a notebook shows and lets the learner move."""

from course.widgets.block import block
from course.widgets.collectives import collectives
from course.widgets.home import home
from course.widgets.machine import machine
from course.widgets.matmul import matmul
from course.widgets.memory import memory
from course.widgets.mesh import mesh
from course.widgets.micro_batches import micro_batches
from course.widgets.own_schedule import own_schedule
from course.widgets.pipeline import pipeline
from course.widgets.planner import planner
from course.widgets.predictions import predictions
from course.widgets.schedules import schedules
from course.widgets.stages import stages

__all__ = [
    "block",
    "collectives",
    "home",
    "machine",
    "matmul",
    "memory",
    "mesh",
    "micro_batches",
    "own_schedule",
    "pipeline",
    "planner",
    "predictions",
    "schedules",
    "stages",
]
