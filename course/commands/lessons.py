"""`course lessons`: the list of lessons."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table

from course.lessons import find, lessons
from minipar.words import _


def lessons_command() -> None:
    """List the lessons."""
    table = Table(_("lesson"), _("title"), _("minutes"), _("builds on"), box=None)
    for lesson in lessons():
        table.add_row(
            lesson.id, lesson.title, str(lesson.minutes), ", ".join(find(name).id for name in lesson.builds_on)
        )
    Console(markup=False).print(table)
