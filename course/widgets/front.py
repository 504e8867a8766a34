"""The page's side of a widget: its script behind the helpers that all share, and the one style sheet."""

from __future__ import annotations

from pathlib import Path

HERE = Path(__file__).parent


def script(*names: str) -> str:
    """The script of a front, from its files in this order."""
    return "\n".join((HERE / f"{name}.js").read_text(encoding="utf-8") for name in ("common", *names))


def style(*names: str) -> str:
    """The style sheet of every front, and a front's own."""
    return "\n".join((HERE / f"{name}.css").read_text(encoding="utf-8") for name in ("common", *names))
