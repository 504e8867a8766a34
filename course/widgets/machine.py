"""What `minipar doctor` finds, as a table in a notebook."""

from __future__ import annotations

from html import escape

from IPython.display import HTML

from minipar.doctor import examine


def machine() -> HTML:
    """Examine this machine and show what was found."""

    def row(name: str, value: str, advice: str) -> str:
        more = f"<br><small>→ {escape(advice)}</small>" if advice else ""
        left = "style='text-align:left'"
        return f"<tr><th {left}>{escape(name)}</th><td {left}>{escape(value)}{more}</td></tr>"

    return HTML(f"<table>{''.join(row(*finding) for finding in examine())}</table>")  # type: ignore[no-untyped-call]
