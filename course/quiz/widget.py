"""The notebook's front of a quiz: it shows what a sitting lets it show, and passes on what the learner does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anywidget
import traitlets

from course.progress import Progress
from course.quiz import page
from course.quiz.sitting import Sitting, source
from course.widgets.front import script, style
from minipar.words import _, plural


def _words() -> dict[str, str]:
    """The page's own words."""
    return {
        "answer": _("Your answer:"),
        "check": _("Check"),
        "keep": _("Keep this answer"),
        "kept": _("Kept. You can change it until you hand in."),
        "read_again": _("Read again:"),
        "solution": _("Worked out:"),
        "up": _("Move up:"),
        "down": _("Move down:"),
        "moved": _("Now at place {place} of {count}."),
        "pick": _("pick one"),
        "schedule": _("Your schedule, one line for each of {count} ranks:"),
        "schedule_help": _("`F0` is the forward of micro-batch 0, `B0` its backward. Rank 0 comes first."),
        "no_answer": _("You gave no answer."),
        "right": _("Right:"),
        "wrong": _("Not right:"),
        "hand_in": _("Hand in"),
        "retake": _("Again, with new numbers"),
    }


class QuizWidget(anywidget.AnyWidget):
    """A quiz in a notebook. The page gets the texts; the keys stay here."""

    _esm = script("quiz_text", "quiz_inputs", "quiz")
    _css = style("quiz")
    words = traitlets.Dict().tag(sync=True)
    questions = traitlets.List(traitlets.Dict()).tag(sync=True)
    answers = traitlets.Dict().tag(sync=True)
    grades = traitlets.Dict().tag(sync=True)
    closed = traitlets.List(traitlets.Unicode()).tag(sync=True)
    buttons = traitlets.List(traitlets.Unicode()).tag(sync=True)
    at_the_end = traitlets.Bool().tag(sync=True)
    score = traitlets.Unicode().tag(sync=True)

    def __init__(self, sitting: Sitting) -> None:
        self.sitting = sitting
        self._notices: dict[str, str] = {}
        self._warned = ""
        super().__init__(words=_words(), **self._state())
        self.on_msg(self._heard)

    def _state(self) -> dict[str, Any]:
        """All that the page shows of the sitting."""
        sitting = self.sitting
        grades: dict[str, Any] = {id_: page.grade(grade) for id_, grade in sitting.grades().items()}
        for id_, notice in self._notices.items():
            grades[id_] = {"remarks": [], "notice": notice}
        buttons = ["hand_in"] if sitting.at_the_end and not sitting.handed_in else []
        return {
            "questions": [page.question(question) for question in sitting.attempt.questions],
            "answers": dict(sitting.answers),
            "grades": grades,
            "closed": [question.id for question in sitting.attempt.questions if sitting.closed(question)],
            "buttons": buttons + (["retake"] if sitting.finished else []),
            "at_the_end": sitting.at_the_end,
            "score": " ".join(filter(None, (sitting.score(), self._warned, sitting.notice))),
        }

    def _show(self) -> None:
        with self.hold_sync():
            for name, value in self._state().items():
                setattr(self, name, value)

    def _hand_in(self) -> None:
        """Hand in, where something is not answered only when asked a second time."""
        missing = len(self.questions) - len(self.sitting.answers)
        if missing and not self._warned:
            text = plural("{count} question has no answer yet.", "{count} questions have no answer yet.", missing)
            self._warned = text + " " + _("Hand in again, if you mean it.")
        else:
            self._warned = ""
            self.sitting.hand_in()

    def _heard(self, _widget: Any, content: dict[str, Any], _buffers: Any) -> None:
        do = content.get("do")
        question = self.sitting.question(content.get("question"))
        if do == "begin":
            self.sitting.begin()
            return
        if do == "hand_in" and do in self.buttons:
            self._hand_in()
        elif do == "retake" and do in self.buttons:
            self.sitting.retake()
            self._notices, self._warned = {}, ""
        elif do == "answer" and question is not None:
            self._notices.pop(question.id, None)
            try:
                self.sitting.answer(question, content.get("answer"))
            except ValueError as error:
                self._notices[question.id] = str(error)
        self._show()


def quiz(name: str | Path, progress: Progress | None = None) -> QuizWidget:
    """The quiz of a lesson (by number or name), ``"exam"``, or of a file; answers are kept in the progress store.

    Raises `ValueError` for an unknown lesson and `QuizError` for a file that cannot be used.
    """
    return QuizWidget(Sitting(source(name), progress or Progress()))
