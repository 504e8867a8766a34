"""The landscape of layouts, as a table for a terminal."""

from __future__ import annotations

from collections.abc import Mapping

from rich.text import Text

from minipar.draw.frame import figure, ink, mixed
from minipar.draw.landscape import FAST, SLOW
from minipar.draw.terrain import Mesh, Terrain
from minipar.words import _


def landscape_text(
    cells: Mapping[Mesh, float | None], best: Mesh | None, unit: str, reasons: Mapping[Mesh, str] | None = None
) -> Text:
    """The heat map of `landscape_svg` for a terminal: a row for each pp, and below it what was refused and why."""
    terrain = Terrain(cells, best, unit, reasons or {})
    rows, columns = terrain.axes
    places = {mesh[1:]: mesh for mesh in cells}
    table = [[_entry(terrain, places.get((pp, tp))) for tp in columns] for pp in rows]
    widths = [max(len(f"tp={tp}"), *(len(row[nth]) for row in table)) + 2 for nth, tp in enumerate(columns)]
    left = max((len(f"pp={pp}") for pp in rows), default=0)
    text = Text(f"{terrain.finding}\n", style="bold")
    text.append(" " * left + "".join(f"tp={tp}".rjust(width) for tp, width in zip(columns, widths, strict=True)) + "\n")
    for pp, row in zip(rows, table, strict=True):
        text.append(f"pp={pp}".ljust(left))
        for tp, entry, width in zip(columns, row, widths, strict=True):
            text.append(" " * (width - len(entry)))
            text.append(entry, style=_style(terrain, places.get((pp, tp))))
        text.append("\n")
    text.append(_("{unit} (dp); ★ the best; –: refused, dp × pp × tp below").format(unit=unit) + "\n", style="dim")
    alike: dict[str, list[str]] = {}
    for mesh in [mesh for mesh in cells if mesh not in terrain.values]:
        alike.setdefault(terrain.reasons.get(mesh, _("refused")), []).append("×".join(map(str, mesh)))
    for reason, meshes in alike.items():
        text.append(f"{', '.join(meshes)}: {reason}\n", style="dim")
    return text


def _style(terrain: Terrain, mesh: Mesh | None) -> str:
    if mesh is None or mesh not in terrain.values:
        return "dim"
    fill = mixed(SLOW, FAST, terrain.speed(mesh))
    return f"{ink(fill)} on {fill}"


def _entry(terrain: Terrain, mesh: Mesh | None) -> str:
    if mesh is None:
        return ""
    if mesh not in terrain.values:
        return f"– ({mesh[0]})"
    return f"{'★' if mesh == terrain.best else ''}{figure(terrain.values[mesh])} ({mesh[0]})"
