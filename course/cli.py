"""The command line: `course start` and `course lessons`."""

from __future__ import annotations

import contextlib
import sys
import webbrowser
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from course import server
from course.lessons import find, lessons
from course.progress import data_folder
from minipar.words import _

app = typer.Typer(help=__doc__, no_args_is_help=True, add_completion=False)
Browser = Annotated[bool, typer.Option("--browser/--no-browser", help="Open the lesson in a browser.")]


@app.command()
def start(lesson: Annotated[str, typer.Argument(help="Number of a lesson.")] = "00", browser: Browser = True) -> None:
    """Open JupyterLab on a lesson; on a machine without a display say how to reach it."""
    console = Console(soft_wrap=True, highlight=False)
    try:
        running = server.start(find(lesson))
    except OSError as error:
        text = _("The course cannot start: {reason} ({folder}). Set COURSE_DATA to a folder that can be written.")
        _stop(text.format(reason=error.strerror or error, folder=data_folder()))
    except ValueError as error:
        _stop(str(error))
    # From here on a Ctrl-C reaches JupyterLab too, which ends by itself.
    with contextlib.suppress(KeyboardInterrupt):
        try:
            running.wait()
        except RuntimeError as error:
            running.process.terminate()
            _stop(str(error))
        console.print(_("The lesson is at"), f"\n\n    {running.address}\n")
        if browser and server.has_display():
            webbrowser.open(running.address)
        elif not server.has_display():
            console.print(_("Is this machine somewhere else? Then first run, on your own:"))
            console.print(f"\n    {server.tunnel(running.port)}\n")
        console.print(_("Ctrl-C ends it."))
        running.process.wait()
    running.process.terminate()
    running.process.wait()


def _stop(sentence: str) -> None:
    Console(stderr=True).print(sentence, style="red", markup=False)
    raise typer.Exit(1)


@app.command("lessons")
def list_lessons() -> None:
    """List the lessons."""
    table = Table(_("lesson"), _("title"), _("minutes"), box=None)
    for lesson in lessons():
        table.add_row(lesson.id, lesson.title, str(lesson.minutes))
    Console().print(table)


if __name__ == "__main__":
    sys.exit(app())
