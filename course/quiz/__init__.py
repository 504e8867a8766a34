"""Quizzes: what a quiz file may say, how an answer is graded, and how a notebook asks."""

from course.quiz.grade import Grade, grade
from course.quiz.schema import Quiz, QuizError, load
from course.quiz.widget import QuizWidget, quiz

__all__ = ["Grade", "Quiz", "QuizError", "QuizWidget", "grade", "load", "quiz"]
