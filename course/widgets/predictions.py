"""The predictions of a lesson beside what is true: what a learner believed before, to look at when it is over."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from IPython.display import HTML

from course.events import Event
from course.lessons import find
from course.progress import Progress, ProgressError
from course.widgets.home import STYLE
from minipar.words import _


def predictions(lesson: str) -> HTML:
    """The first prediction of each question of the lesson (its number or name), and the truth beside it.

    A later one is no prediction: the answer was there to read. Raises `ValueError` for an unknown lesson.
    """
    name = find(lesson).name
    try:
        made = [event for event in Progress().log("prediction") if event.item.startswith(f"{name}/")]
    except ProgressError as error:
        return HTML(f"<p>{escape(str(error))}</p>")  # type: ignore[no-untyped-call]
    return HTML(to_html(firsts(made)))  # type: ignore[no-untyped-call]


def firsts(made: Sequence[Event]) -> list[Event]:
    """The first prediction of each question, in the order in which they were made."""
    seen: dict[str, Event] = {}
    for event in made:
        seen.setdefault(event.item, event)
    return list(seen.values())


def to_html(made: Sequence[Event]) -> str:
    """The predictions as a table; every text in it is escaped."""
    if not made:
        words = _("You typed no prediction in this lesson. Go back to one: a guess that is wrong teaches the most.")
        return f"<p>{escape(words)}</p>"
    heads = (_("question"), _("you said"), _("it is"))
    head = "".join(f"<th scope='col'>{escape(text)}</th>" for text in heads)
    body = "".join(_row(event) for event in made)
    title = escape(_("What you predicted"))
    return (
        f"<style>{STYLE}</style><div class='course-home' role='region' tabindex='0' aria-label='{title}'>"
        f"<table><caption>{title}</caption><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"
    )


def _row(event: Event) -> str:
    detail = event.detail if isinstance(event.detail, dict) else {}
    question, unit = str(detail.get("question") or event.item), str(detail.get("unit") or "")
    values = "".join(f"<td>{escape(_number(detail.get(key), unit))}</td>" for key in ("predicted", "truth"))
    return f"<tr><td>{escape(question)}</td>{values}</tr>"


def _number(value: object, unit: str) -> str:
    if not isinstance(value, (int, float)):
        return "–"
    return f"{value:,.6g} {unit}".strip()
