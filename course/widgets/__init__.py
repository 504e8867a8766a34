"""What a notebook shows and lets the learner move."""

from course.widgets.home import home
from course.widgets.machine import machine
from course.widgets.pipeline import column_split, on_real_ranks, pipeline, predict_bubble, stage_alone

__all__ = ["column_split", "home", "machine", "on_real_ranks", "pipeline", "predict_bubble", "stage_alone"]
