"""The page's side of a widget: its script behind the helpers that all share, and the one style sheet."""

from __future__ import annotations

from pathlib import Path

HERE = Path(__file__).parent


def script(name: str) -> str:
    """The script of the front `name`."""
    return "\n".join((HERE / file).read_text(encoding="utf-8") for file in ("common.js", f"{name}.js"))


def style() -> str:
    """The style sheet of every front."""
    return (HERE / "common.css").read_text(encoding="utf-8")
