"""Quizzes: what a quiz file may say, how it is drawn and graded, and how a notebook and a terminal ask."""

from typing import TYPE_CHECKING

from course.quiz.attempt import Attempt, Result, draw, grade_attempt
from course.quiz.document import QuizError
from course.quiz.exam import exam
from course.quiz.grade import Grade, grade
from course.quiz.schema import Quiz, load
from minipar.lazy import at_first_use

if TYPE_CHECKING:
    from course.quiz.widget import QuizWidget, quiz

__all__ = [
    "Attempt",
    "Grade",
    "Quiz",
    "QuizError",
    "QuizWidget",
    "Result",
    "draw",
    "exam",
    "grade",
    "grade_attempt",
    "load",
    "quiz",
]

at_first_use(__name__, widget=["QuizWidget", "quiz"])  # a terminal needs no notebook's front
