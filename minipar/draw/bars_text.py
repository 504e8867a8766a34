"""Stacked bars of a prediction's parts, as text for a terminal; they can also be read without colours."""

from __future__ import annotations

import math
import textwrap

from rich.text import Text

from minipar.draw.bars import Bar, Chart, Part
from minipar.draw.frame import figure, ink


def bars_text(chart: Chart, width: int = 72) -> Text:
    """The bars for a terminal `width` columns wide: for each its label and sum, the bar, and every part's number.

    Limits are lines across: ┃ each bar's own, ┆ that of all.
    """
    columns = max(width, 10)
    text = Text()
    for bar in chart.bars:
        name = f"{bar.label}: {bar.end}" if bar.label else bar.end
        text.append(f"{name} ({bar.crossed})\n" if bar.crossed else f"{name}\n", style="bold")
        for letter, style in _cells(chart, bar, columns):
            text.append(letter, style=style)
        text.append("\n")
        sizes = [f"{part.name} {figure(bar.sizes[nth])}" for nth, part in chart.used]
        # A number stays with its name where a line ends.
        rows = textwrap.wrap(", ".join(size.replace(" ", "\0") for size in sizes), columns, break_long_words=False)
        text.append("".join(f"{row}\n" for row in rows).replace("\0", " "), style="dim")
    for name in legend(chart):
        text.append(f"{name}\n", style="dim")
    return text


def legend(chart: Chart) -> list[str]:
    """What the lines across the bars are, and what the numbers count."""
    limits = sorted({bar.limit for bar in chart.bars if bar.limit < math.inf})
    names = [f"┃ {chart.limit} {figure(limit)} {chart.unit}" for limit in limits]
    if chart.whole is not None:
        names.append(f"┆ {chart.whole_name} {figure(chart.whole)} {chart.unit}")
    return [*names, chart.axis]


def _cells(chart: Chart, bar: Bar, columns: int) -> list[tuple[str, str]]:
    """A letter and its style for each column."""
    per_unit = columns / chart.longest
    cells = [(" ", "")] * columns
    total = 0.0
    for part, size in zip(chart.parts, bar.sizes, strict=True):
        start, end = round(total * per_unit), round((total + size) * per_unit)
        total += size
        cells[start:end] = [(letter, _style(part)) for letter in _name(part, size, end - start)]
    for limit, line in ((chart.whole, "┆"), (bar.limit, "┃")):
        if limit is not None and limit < math.inf:
            cells[min(round(limit * per_unit), columns - 1)] = (line, "bold")
    return cells[:columns]


def _style(part: Part) -> str:
    return "dim" if part.fill is None else f"{ink(part.fill)} on {part.fill}"


def _name(part: Part, size: float, width: int) -> str:
    """As much of the name and the number as there is room for; what is idle is dots, what is hatched strokes."""
    fill = "/" if part.hatched else "·" if part.fill is None else "─"
    ways = (f"{part.name} {figure(size)}", part.name, part.name[:1])
    return next((way for way in ways if len(way) < width or len(way) == width == 1), "").ljust(width, fill)
