"""What a notebook shows and lets the learner move."""

from course.widgets.pipeline import pipeline
from course.widgets.predict import predict

__all__ = ["pipeline", "predict"]
