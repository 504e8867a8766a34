"""`course quiz`: take a quiz in the terminal, see what there is, or prove the quiz files."""

from __future__ import annotations

import io
import sys
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from course.lessons import lessons
from course.progress import Progress
from course.quiz.check import check_quiz, quiz_files
from course.quiz.document import QuizError
from course.quiz.exam import EXAM
from course.quiz.sitting import Sitting, Source, source
from course.quiz.terminal import Terminal
from minipar.commands.common import clear_errors, complain
from minipar.draw import percent
from minipar.words import _, plural


def quiz_command(
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="LESSON|exam|FILE", help=_("Number of a lesson, exam for the final exam, or a file. Nothing: all.")
        ),
    ] = None,
    new: Annotated[bool, typer.Option("--new", help=_("Begin again with new numbers, not where you were."))] = False,
    check: Annotated[bool, typer.Option("--check", help=_("Prove every quiz file: keys, feedback, sections."))] = False,
) -> None:
    """Take a lesson's quiz here, without a browser; your answers are kept as those in the notebook."""
    console = Console(highlight=False)
    if check:
        if not _check_all(console):
            raise typer.Exit(1)
        return
    if name is None:
        console.print(_overview())
        return
    with clear_errors():
        sitting = _sitting(source(name), new)
    if isinstance(sys.stdin, io.TextIOWrapper):
        sys.stdin.reconfigure(errors="replace")  # a key of another encoding is no answer, and no crash
    if not Terminal(sitting, console).run():
        raise typer.Exit(130)


def _sitting(quiz: Source, new: bool) -> Sitting:
    """Where the learner was; a new attempt where that one is finished."""
    sitting = Sitting(quiz, Progress(), new)
    if sitting.finished:
        sitting.retake()
    return sitting


def _check_all(console: Console) -> bool:
    good = True
    for path in quiz_files():
        try:
            quiz = check_quiz(path)
        except QuizError as error:
            complain(str(error))
            good = False
        else:
            text = plural("{count} question, nothing wrong", "{count} questions, nothing wrong", len(quiz.questions))
            console.print(f"{path.name}: {text}")
    return good


def _overview() -> Table:
    """Each quiz with the best score so far, and how to take it."""
    table = Table(_("quiz"), _("title"), _("best so far"), _("attempts"), _("passed with"), box=None)
    titles = {lesson.id: lesson.title for lesson in lessons()} | {EXAM: _("Final exam")}
    for name, title in titles.items():
        with clear_errors():
            sitting = Sitting(source(name), Progress())
        best = "–" if sitting.best is None else percent(sitting.best)
        table.add_row(name, title, best, str(sitting.tries), percent(sitting.quiz.pass_mark))
    return table
