"""Everything that can be proven of the quiz files: `course quiz --check`."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from course.lessons import ROOT, lessons
from course.quiz import schedule_answer
from course.quiz.asked import WriteSchedule
from course.quiz.attempt import draw, grade_attempt
from course.quiz.document import Document, QuizError, read
from course.quiz.perfect import perfect
from course.quiz.schema import Generated, Quiz, understand

QUIZZES = ROOT / "quizzes"
HEADING = re.compile(r"#{1,6}\s+")
SEEDS = range(20)


def quiz_files() -> list[Path]:
    """The files of all quizzes."""
    return sorted(QUIZZES.glob("*.yaml"))


def check_quiz(path: Path, notebooks: Path = ROOT / "notebooks") -> Quiz:
    """The quiz of a file, proven: its keys are computed, every right answer gives all points, sections exist.

    Raises `QuizError` that names, for everything that is wrong, file, line and field.
    """
    document = read(path)
    quiz = understand(document)
    if found := [*_names(document, quiz), *_sections(document, quiz, notebooks), *_answers(document, quiz)]:
        raise QuizError("\n".join(found))
    return quiz


def _names(document: Document, quiz: Quiz) -> Iterator[str]:
    if quiz.id != document.path.stem:
        yield document.error(["id"], f"{quiz.id!r}; the file's name says {document.path.stem!r}")


def _sections(document: Document, quiz: Quiz, notebooks: Path) -> Iterator[str]:
    """What is wrong with the headings to read again. A lesson's questions must have one each."""
    of_lesson = quiz.id in {lesson.name for lesson in lessons()}
    known = None
    for i, question in enumerate(quiz.questions):
        where: list[str | int] = ["questions", i, "read_again"]
        if question.read_again is None:
            if of_lesson:
                yield document.error(where, "a lesson's question names the section to read again")
            continue
        if known is None:
            try:
                known = headings(notebooks / f"{quiz.lesson or quiz.id}.ipynb")
            except (OSError, ValueError, KeyError):
                yield document.error(
                    ["lesson"] if quiz.lesson else where, f"there is no notebook {quiz.lesson or quiz.id!r}"
                )
                return
        if question.read_again not in known:
            there = f"{quiz.lesson or quiz.id} has no heading {question.read_again!r}; it has: {'; '.join(known)}"
            yield document.error(where, there)


def headings(notebook: Path) -> Sequence[str]:
    """The headings of a notebook, in order."""
    cells = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
    texts = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown"]
    return [HEADING.sub("", line).strip() for text in texts for line in _outside_code(text) if HEADING.match(line)]


def _outside_code(text: str) -> Iterator[str]:
    """The lines that are not in a block of code, in which # begins a comment."""
    inside = False
    for line in text.splitlines():
        if line.lstrip().startswith("```"):
            inside = not inside
        elif not inside:
            yield line


def _answers(document: Document, quiz: Quiz) -> Iterator[str]:
    """What is wrong with keys: where the answer that is known to be right does not get all points, by some seed."""
    for seed in SEEDS if any(isinstance(question, Generated) for question in quiz.questions) else SEEDS[:3]:
        attempt = draw(quiz, seed)
        answers = {question.id: perfect(question) for question in attempt.questions}
        grades = grade_attempt(quiz, seed, answers).grades
        for i, question in enumerate(attempt.questions):
            if question.id not in grades or not grades[question.id].right:
                yield document.error(["questions", i], f"the right answer is not graded right (seed {seed})")
            if isinstance(question, WriteSchedule):
                schedule_answer.check_runs(question.known, question.known)
