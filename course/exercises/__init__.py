"""Exercises: what to write, how it is checked, and help on request."""

from course.exercises.check import check, hint, solution
from course.exercises.exercise import Exercise, NotTried, Status, Verdict

__all__ = ["Exercise", "NotTried", "Status", "Verdict", "check", "hint", "solution"]
