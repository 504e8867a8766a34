"""Sizes and times in the unit that suits them."""

from __future__ import annotations


def bytes_in_words(size: float) -> str:
    """A number of bytes in the unit that suits it."""
    for unit in ("B", "KiB", "MiB"):
        if size < 1024:
            return f"{_short(size)} {unit}"
        size /= 1024
    return f"{_short(size)} GiB"


def seconds_in_words(time: float) -> str:
    """A time in the unit that suits it."""
    if time < 1e-3:
        return f"{_short(time * 1e6)} µs"
    return f"{_short(time * 1e3)} ms" if time < 1 else f"{_short(time)} s"


def _short(number: float) -> str:
    """Three digits, and no zeros after the point."""
    return f"{number:.3g}" if number < 1000 else f"{number:,.0f}"
