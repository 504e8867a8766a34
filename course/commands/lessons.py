"""`course lessons`: the list of lessons."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table

from course.lessons import lessons
from minipar.words import _


def lessons_command() -> None:
    """List the lessons."""
    table = Table(_("lesson"), _("title"), _("minutes"), box=None)
    for lesson in lessons():
        table.add_row(lesson.id, lesson.title, str(lesson.minutes))
    Console(markup=False).print(table)
