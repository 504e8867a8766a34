"""A prediction before the reveal: the learner types a number, which is kept, and then sees what is true."""

from __future__ import annotations

from typing import Any

import anywidget
import traitlets

from course.number import read_number
from course.progress import Progress, ProgressError
from course.widgets.front import script, style
from minipar.words import _


class Prediction(anywidget.AnyWidget):
    """Asks `question` in `unit`; after the answer it shows `truth`, `because`, and `picture` (SVG).

    The answer is kept under the name `item`, such as ``"00-start/bubble"``; `predictions` shows a lesson's at its end.
    `picture` is empty where there is nothing to draw; what is true must be known when the question is asked.
    """

    _esm = script("predict")
    _css = style()
    question = traitlets.Unicode().tag(sync=True)
    unit = traitlets.Unicode().tag(sync=True)
    words = traitlets.Dict().tag(sync=True)
    outcome = traitlets.Dict().tag(sync=True)

    def __init__(self, item: str, question: str, unit: str, truth: float, because: str, picture: str = "") -> None:
        self._item, self._truth, self._because, self._picture = item, truth, because, picture
        super().__init__(question=question, unit=unit, words={"commit": _("This is my prediction")}, outcome={})
        self.on_msg(self._heard)

    def _heard(self, _widget: Any, content: dict[str, Any], _buffers: Any) -> None:
        try:
            self.outcome = self.reveal(read_number(content.get("prediction"), self.unit))
        except ValueError as error:
            self.outcome = {"notice": str(error)}

    def reveal(self, predicted: float) -> dict[str, Any]:
        """What to show after `predicted`, which is kept."""
        notice = ""
        asked = {"question": self.question, "unit": self.unit}
        detail = {"predicted": predicted, "truth": self._truth, **asked}
        try:
            Progress().record("prediction", self._item, detail=detail)
        except ProgressError as error:
            notice = str(error)
        said = _("You said {predicted}; it is {truth}.")
        told, true = (f"{number:g} {self.unit}".strip() for number in (predicted, self._truth))
        sentence = said.format(predicted=told, truth=true)
        return {"sentences": [sentence, self._because], "picture": self._picture, "notice": notice}
