"""The command line of the course, of which only the command that is run is imported."""

from __future__ import annotations

import sys
from typing import ClassVar

import typer

from minipar.cli import Commands

COMMANDS = {
    "start": "Open JupyterLab on a lesson; on a machine without a display say how to reach it.",
    "lessons": "List the lessons.",
    "glossary": "Say what the words of the course mean, and which lesson explains each.",
    "progress": "Show what is passed, how long it took, what comes next, and how many minutes are left.",
    "check": "Check the exercises of a notebook, saved as it is; keep the results. The exit code is 1 unless all "
    "passed.",
    "quiz": "Take a lesson's quiz here, without a browser; your answers are kept as those in the notebook.",
    "certificate": "Issue your certificate once all exercises and the final exam are passed.",
    "verify": "Say whether a certificate is valid, who signed it, and what that proves.",
    "submit": "Pack all your answers, the sources of your solutions and your progress into one file.",
    "instructor": "Make a key, grade a class again and sign its certificates, see what it found difficult.",
    "doctor": "Look at Python, JupyterLab, the data folder, the ranks and the exercises; say what is missing. Takes "
    "seconds.",
}
"""Each command's line in the help. `quiz` is `quiz_command` in `course/commands/quiz.py`, and so are all: a function,
or a Typer app of several commands."""


class CourseCommands(Commands):
    """All commands of the course."""

    package = "course.commands"
    lines: ClassVar[dict[str, str]] = COMMANDS


app = typer.Typer(cls=CourseCommands, no_args_is_help=True, add_completion=False)


@app.callback()
def course() -> None:
    """Model and pipeline parallelism, learned by splitting models over processes: lessons, quizzes, a certificate."""


if __name__ == "__main__":
    sys.exit(app())
