"""The notebook's front of a quiz: it asks, lets `grade` judge, keeps the points, and shows every remark."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import anywidget
import traitlets

from course.language import localized
from course.lessons import find
from course.progress import Progress, ProgressError
from course.quiz.grade import grade
from course.quiz.schema import AnyQuestion, Number, Quiz, load
from course.widgets.front import script, style
from minipar.draw import percent
from minipar.words import _


class QuizWidget(anywidget.AnyWidget):
    """A quiz in a notebook. The page gets the texts; the keys stay here."""

    _esm = script("quiz")
    _css = style()
    words = traitlets.Dict().tag(sync=True)
    questions = traitlets.List(traitlets.Dict()).tag(sync=True)
    grades = traitlets.Dict().tag(sync=True)
    score = traitlets.Unicode().tag(sync=True)

    def __init__(self, quiz: Quiz, progress: Progress) -> None:
        self._quiz, self._progress = quiz, progress
        self._best: dict[str, float | None] = {}
        notice = self._recall()
        words = {"check": _("Check"), "answer": _("Your answer:"), "read_again": _("Read again:")}
        super().__init__(
            words=words, questions=[_for_page(q) for q in quiz.questions], grades={}, score=self._sum(notice)
        )
        self.on_msg(self._heard)

    def _recall(self) -> str:
        """Take the best points so far from the progress store; returns why that failed, if it did."""
        try:
            self._best = {q.id: self._progress.best("answer", self._item(q)) for q in self._quiz.questions}
        except ProgressError as error:
            return str(error)
        return ""

    def _item(self, question: AnyQuestion) -> str:
        return f"{self._quiz.id}/{question.id}"

    def _heard(self, _widget: Any, content: dict[str, Any], _buffers: Any) -> None:
        question = next((q for q in self._quiz.questions if q.id == content.get("question")), None)
        if question is not None:
            self.grades = {**self.grades, question.id: self.answer(question, content.get("answer"))}

    def answer(self, question: AnyQuestion, answer: Any) -> dict[str, Any]:
        """Grade and keep one answer; returns what the page shows for it."""
        try:
            result = grade(question, answer)
        except ValueError as error:
            return {"remarks": [], "notice": str(error)}
        notice = ""
        try:
            self._progress.record("answer", self._item(question), result.points, answer)
        except ProgressError as error:
            notice = str(error)
        self._best[question.id] = max(self._best.get(question.id) or 0.0, result.points)
        self.score = self._sum("")
        return {"remarks": [asdict(r) for r in result.remarks], "read_again": result.read_again, "notice": notice}

    def _sum(self, notice: str) -> str:
        """The score in words: the best points of each question so far."""
        got = sum(points or 0.0 for points in self._best.values())
        possible, mark = sum(q.points for q in self._quiz.questions), percent(self._quiz.pass_mark)
        tried = sum(points is not None for points in self._best.values())
        if notice or not tried:
            return notice or _("Nothing answered yet. {share} of the points pass.").format(share=mark)
        passed = got >= self._quiz.pass_mark * possible
        verdict = _("Passed.") if passed else _("{share} of the points pass.").format(share=mark)
        return _("Your best so far: {got:g} of {possible:g} points.").format(got=got, possible=possible) + " " + verdict


def _for_page(question: AnyQuestion) -> dict[str, Any]:
    """What the page may know of a question."""
    page: dict[str, Any] = {"id": question.id, "kind": question.kind, "text": localized(question.text)}
    if isinstance(question, Number):
        return page | {"unit": question.unit}
    return page | {"choices": [localized(choice.text) for choice in question.choices]}


def quiz(name: str | Path, progress: Progress | None = None) -> QuizWidget:
    """The quiz of a lesson (by number or name), or of a file; answers are kept in the progress store.

    Raises `ValueError` for an unknown lesson and `QuizError` for a file that cannot be used.
    """
    path = name if isinstance(name, Path) else find(name).quiz
    return QuizWidget(load(path), progress or Progress())
