"""The command line: `course start` and `course lessons`."""

from __future__ import annotations

import signal
import sys
import webbrowser
from typing import Annotated, NoReturn

import typer
from rich.console import Console
from rich.table import Table

from course import server
from course.commands.certificate import certificate_command
from course.commands.check import check_command
from course.commands.doctor import doctor_command
from course.commands.progress import progress_command
from course.commands.quiz import quiz_command
from course.commands.submit import submit_command
from course.commands.verify import verify_command
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
    except (ValueError, RuntimeError) as error:
        _stop(str(error))
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # to be ended is to be interrupted: nothing stays behind
    try:
        running.wait()
        _say_where(console, running)
        if browser and server.has_display():
            webbrowser.open(running.address)
        running.process.wait()
    except KeyboardInterrupt:
        console.print(_("The course ends. What you did is kept."))
    except RuntimeError as error:
        _stop(str(error))
    finally:
        running.process.terminate()
        running.process.wait()


def _say_where(console: Console, running: server.Server) -> None:
    console.print(_("The lesson is at"), f"\n\n    {running.address}\n")
    if not server.has_display():
        console.print(_("Is this machine somewhere else? Then first run, on your own:"))
        console.print(f"\n    {server.tunnel(running.port)}\n")
    console.print(_("Ctrl-C ends it."))


def _stop(sentence: str) -> NoReturn:
    Console(stderr=True).print(sentence, style="red", markup=False)
    raise typer.Exit(1)


@app.command("lessons")
def list_lessons() -> None:
    """List the lessons."""
    table = Table(_("lesson"), _("title"), _("minutes"), box=None)
    for lesson in lessons():
        table.add_row(lesson.id, lesson.title, str(lesson.minutes))
    Console().print(table)


app.command("check")(check_command)
app.command("progress")(progress_command)
app.command("doctor")(doctor_command)

app.command("certificate")(certificate_command)
app.command("verify")(verify_command)
app.command("submit")(submit_command)

app.command("quiz")(quiz_command)

if __name__ == "__main__":
    sys.exit(app())
