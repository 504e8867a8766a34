"""The home of the course in a notebook: what is passed, how long it took, what comes next. A table, without script."""

from __future__ import annotations

from html import escape
from urllib.parse import quote

from IPython.display import HTML

from course.progress import Progress, ProgressError
from course.standing import standing
from course.table import Table, table

# The colours are the page's own, so that it fits a light and a dark theme; in a narrow window the table scrolls.
STYLE = """
.course-home { color: inherit; max-width: 900px; overflow-x: auto; }
.course-home table { border-collapse: collapse; color: inherit; font-variant-numeric: tabular-nums; margin: 0; }
.course-home caption { text-align: left; font-weight: 600; padding: 2px 0 6px; color: inherit; caption-side: top; }
.course-home th, .course-home td { text-align: left !important; padding: 4px 18px 4px 0; vertical-align: top;
  border: 0; border-bottom: 1px solid rgba(128, 128, 128, 0.45); background: none; color: inherit; }
.course-home p { margin: 8px 0 0; }
"""


def home() -> HTML:
    """The table of progress, as it is now; run the cell again to see it anew."""
    try:
        page = to_html(table(standing(Progress().log())))
    except ProgressError as error:
        page = f"<p>{escape(str(error))}</p>"
    return HTML(page)  # type: ignore[no-untyped-call]


def to_html(shown: Table) -> str:
    """The table as a page's part; every text in it is escaped."""
    head = "".join(f"<th scope='col'>{escape(text)}</th>" for text in shown.heads)
    body = "".join(
        f"<tr><th scope='row'>{_linked(name, notebook)}</th>"
        + "".join(f"<td>{escape(text)}</td>" for text in rest)
        + "</tr>"
        for (name, *rest), notebook in zip(shown.rows, shown.notebooks, strict=True)
    )
    below = "".join(f"<p>{escape(sentence)}</p>" for sentence in shown.sentences)
    title = escape(shown.title)
    return (
        f"<style>{STYLE}</style><div class='course-home' role='region' tabindex='0' aria-label='{title}'>"
        f"<table><caption>{title}</caption><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"
        f"<div class='course-home'>{below}</div>"
    )


def _linked(name: str, notebook: str) -> str:
    return f"<a href='{quote(notebook)}'>{escape(name)}</a>" if notebook else escape(name)
