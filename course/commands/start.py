"""`course start`: open JupyterLab on a lesson."""

from __future__ import annotations

import signal
import webbrowser
from typing import Annotated, NoReturn

import typer
from rich.console import Console

from course import server
from course.lessons import find
from course.progress import data_folder
from minipar.commands.common import complain
from minipar.words import _

Browser = Annotated[bool, typer.Option("--browser/--no-browser", help="Open the lesson in a browser.")]


def start_command(
    lesson: Annotated[str, typer.Argument(help="Number of a lesson.")] = "00", browser: Browser = True
) -> None:
    """Open JupyterLab on a lesson; on a machine without a display say how to reach it."""
    console = Console(soft_wrap=True, highlight=False)
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # to be ended is to be interrupted: nothing stays behind
    try:
        with server.running(find(lesson)) as lab:
            _say_where(console, lab)
            if browser and server.has_display():
                webbrowser.open(lab.address)
            lab.process.wait()
    except KeyboardInterrupt:
        console.print(_("The course ends. What you did is kept."))
    except OSError as error:
        text = _("The course cannot start: {reason} ({folder}). Set COURSE_DATA to a folder that can be written.")
        _stop(text.format(reason=error.strerror or error, folder=data_folder()))
    except (ValueError, RuntimeError) as error:
        _stop(str(error))


def _say_where(console: Console, lab: server.Server) -> None:
    console.print(_("The lesson is at"), f"\n\n    {lab.address}\n")
    if not server.has_display():
        console.print(_("Is this machine somewhere else? Then first run, on your own:"))
        console.print(f"\n    {server.tunnel(lab.port)}\n")
    console.print(_("Ctrl-C ends it."))


def _stop(sentence: str) -> NoReturn:
    complain(sentence)
    raise typer.Exit(1)
