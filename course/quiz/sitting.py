"""A learner at a quiz: what was answered so far, what may be shown, what is kept. Both fronts are built on it.

Every answer is kept at once, so that a kernel or a connection that dies loses none; the next sitting goes on where the
last one was. When every question is answered (or the exam is handed in), the attempt is kept with its score; where an
answer is improved after that, it is kept again.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from course.lessons import find
from course.progress import Event, Progress, ProgressError
from course.quiz.asked import Asked
from course.quiz.attempt import MOST_SEEDS, Attempt, Result, draw, grade_attempt
from course.quiz.exam import EXAM, exam
from course.quiz.grade import Grade, grade
from course.quiz.schema import Quiz, load
from minipar.draw import percent
from minipar.words import _, plural


@dataclass(frozen=True)
class Source:
    """Where a quiz comes from: its id, and the function that makes it for a seed."""

    id: str
    make: Callable[[int], Quiz]


def source(name: str | Path) -> Source:
    """The quiz of a lesson (by number or name), the exam (``"exam"``), or of a file.

    Raises `ValueError` for an unknown lesson and `QuizError` for a file that cannot be used.
    """
    if name == EXAM:
        return Source(EXAM, exam)
    file = Path(name) if isinstance(name, Path) or name.endswith(".yaml") else find(name).quiz
    quiz = load(file)
    return Source(quiz.id, lambda _seed: quiz)


class Sitting:
    """One learner at one quiz. `attempt` has the questions, `answers` what was answered, by the questions' ids.

    `notice` says why progress could not be kept, if so; the quiz goes on.
    """

    def __init__(self, source: Source, progress: Progress, new: bool = False) -> None:
        self._source, self._progress, self.notice = source, progress, ""
        self._began: float | None = None
        kept, tries = self._kept("answer"), self._kept("attempt")
        self.best = max((min(event.points, 1.0) for event in tries), default=None)
        self.tries = len({str(_detail(event).get("seed")) for event in tries})
        seed = _detail(kept[-1]).get("seed") if kept else None
        if new or not self._resume(seed, kept, tries):
            self._begin(secrets.randbelow(MOST_SEEDS))

    def _kept(self, kind: Any) -> list[Event]:
        try:
            return self._progress.events(kind, self._source.id)
        except ProgressError as error:
            self.notice = str(error)
            return []

    def _begin(self, seed: int) -> None:
        self.quiz = self._source.make(seed)
        self.attempt: Attempt = draw(self.quiz, seed)
        self._by_id: dict[str, Asked] = {question.id: question for question in self.attempt.questions}
        self.answers: dict[str, Any] = {}
        self.handed_in, self._seconds_before, self._began = False, 0.0, None

    def _resume(self, seed: Any, kept: list[Event], tries: list[Event]) -> bool:
        """Go on with the attempt that was answered last; False where there is none, or its quiz has changed since."""
        if type(seed) is not int or not 0 <= seed < MOST_SEEDS:
            return False
        self._begin(seed)
        for event in kept:
            detail = _detail(event)
            if detail.get("seed") == seed:
                if detail.get("quiz") != self.quiz.sha256:
                    return False
                self.answers[str(detail.get("question"))] = detail.get("answer")
                self._seconds_before = _seconds(detail.get("seconds"))
        # The log may have come from elsewhere, by `course progress --import`: what is no answer is not shown as one.
        graded = grade_attempt(self.quiz, seed, self.answers).grades
        self.answers = {id_: answer for id_, answer in self.answers.items() if id_ in graded}
        self.handed_in = any(_detail(event).get("seed") == seed for event in tries)
        return True

    def begin(self) -> None:
        """The learner has seen the first question: the time runs."""
        if self._began is None:
            self._began = time.monotonic()

    @property
    def seconds(self) -> float:
        """How long the learner has been at this attempt, in seconds, in all sittings together."""
        return self._seconds_before + (0.0 if self._began is None else time.monotonic() - self._began)

    @property
    def at_the_end(self) -> bool:
        """Whether grades come when all is handed in."""
        return self.quiz.feedback == "at the end"

    @property
    def complete(self) -> bool:
        """Whether every question has an answer."""
        return len(self.answers) == len(self._by_id)

    @property
    def finished(self) -> bool:
        """Whether the attempt counts: handed in, or, where grades come at once, complete."""
        return self.handed_in if self.at_the_end else self.complete

    def question(self, question_id: Any) -> Asked | None:
        """The question with this id."""
        return self._by_id.get(question_id) if isinstance(question_id, str) else None

    def closed(self, question: Asked) -> bool:
        """Whether it takes no further answer: its solution was shown, or all was handed in."""
        if self.at_the_end:
            return self.handed_in
        return question.solution is not None and question.id in self.answers

    def answer(self, question: Asked, answer: Any) -> Grade | None:
        """Take and keep an answer; returns its grade, or None where grades come at the end.

        Raises `ValueError`, with a sentence for the learner, for an answer that is none, and for a closed question.
        """
        if self.closed(question):
            raise ValueError(_("this question is done; try again with new numbers"))
        found = grade(question, answer)
        self.begin()
        self.answers[question.id] = answer
        points = 0.0 if self.at_the_end else found.points
        self._keep("answer", points, {"question": question.id, "answer": answer})
        if not self.at_the_end and self.complete:
            self._keep_attempt()
        return None if self.at_the_end else found

    def hand_in(self) -> None:
        """End an attempt whose grades come at the end, with what is answered."""
        if self.at_the_end and not self.handed_in:
            self._keep_attempt()

    def retake(self) -> None:
        """Begin another attempt, with other numbers."""
        self._begin(secrets.randbelow(MOST_SEEDS))

    def result(self) -> Result:
        """What the answers so far are worth, for who may know it (see `grades`)."""
        return grade_attempt(self.quiz, self.attempt.seed, self.answers)

    def grades(self) -> dict[str, Grade]:
        """The grades that may be shown now, by the questions' ids."""
        return self.result().grades if not self.at_the_end or self.handed_in else {}

    def _keep_attempt(self) -> None:
        share = self.result().share
        self._keep("attempt", share, {"answers": dict(self.answers)})
        self.tries += not self.handed_in
        self.handed_in = True
        self.best = max(self.best or 0.0, share)

    def _keep(self, kind: Any, points: float, detail: Mapping[str, Any]) -> None:
        about = {"seed": self.attempt.seed, "quiz": self.quiz.sha256, "seconds": round(self.seconds, 1)}
        try:
            self._progress.record(kind, self._source.id, points, about | dict(detail))
            self.notice = ""
        except ProgressError as error:
            self.notice = str(error)

    def score(self) -> str:
        """Where the learner stands, in a few sentences."""
        mark = percent(self.quiz.pass_mark)
        said = []
        if not self.answers:
            said.append(_("Nothing answered yet. {share} of the points pass.").format(share=mark))
        elif self.finished or not self.at_the_end:
            result = self.result()
            points = _("{got:.3g} of {possible:.3g} points.").format(got=result.points, possible=result.possible)
            verdict = _("Passed.") if result.passed else _("{share} of the points pass.").format(share=mark)
            said += [points, verdict]
        if self.answers and not self.finished:
            said.append(
                _("{answered} of {all} questions are answered.").format(
                    answered=len(self.answers), all=len(self._by_id)
                )
            )
        if self.finished and self.at_the_end:
            minutes = max(1, round(self.seconds / 60))
            said.append(plural("It took {count} minute.", "It took {count} minutes.", minutes))
        if self.best is not None:
            times = plural("{count} attempt", "{count} attempts", self.tries)
            said.append(_("Best so far: {share} ({attempts}).").format(share=percent(self.best), attempts=times))
        return " ".join(said)


def _seconds(kept: Any) -> float:
    """Seconds as they were kept, or none where that is no time."""
    is_time = isinstance(kept, int | float) and not isinstance(kept, bool) and 0 <= kept < 1e9
    return float(kept) if is_time else 0.0


def _detail(event: Event) -> Mapping[str, Any]:
    return event.detail if isinstance(event.detail, Mapping) else {}
