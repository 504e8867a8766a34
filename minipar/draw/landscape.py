"""The landscape of layouts as a heat map: every mesh of so many GPUs, pp from top to bottom and tp to the right."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape

from minipar.draw.frame import EDGE, RIGHT, WIDTH, Swatch, figure, hatch, heading, ink, lines, mixed, svg, wide
from minipar.draw.terrain import Mesh, Terrain
from minipar.words import _

SLOW, FAST = "#E3F1EA", "#00513B"
"""The ends of the scale: one hue from light to dark, so that it also orders in grey."""

LEFT, GAP = 84, 5  # where cells begin, right of their rows' names; and what is between two of them


def landscape_svg(
    cells: Mapping[Mesh, float | None],
    best: Mesh | None,
    title: str,
    unit: str,
    reasons: Mapping[Mesh, str] | None = None,
) -> str:
    """A heat map as an SVG string: the cell of each mesh (dp, pp, tp) has its value, its dp, and its speed as a shade.

    cells: predicted seconds of a step, or TFLOP/s a GPU, in `unit`; None is refused: hatched, and `reasons` are read
    where one points at it. best: the mesh to mark; whether less is better follows from it. Rows and columns all of
    whose meshes are refused are left out, and named below.

    Raises `ValueError` as `Terrain` does.
    """
    terrain = Terrain(cells, best, unit, reasons or {})
    rows, columns = terrain.axes
    height = max(24.0, min(48.0, 480 / max(len(rows), 1)))
    width = min(130.0, (WIDTH - LEFT - RIGHT) / max(len(columns), 1))
    top, head = heading(f"{title}: {terrain.finding}", list(_legend(terrain)), EDGE)
    top += 22
    tops = {pp: top + nth * height for nth, pp in enumerate(rows)}
    lefts = {tp: LEFT + nth * width for nth, tp in enumerate(columns)}
    names = [_name(x + width / 2, top - 8, f"tp={tp}", "middle", width) for tp, x in lefts.items()]
    names += [_name(LEFT - 10, y + height / 2 + 4.5, f"pp={pp}", "end", LEFT - EDGE) for pp, y in tops.items()]
    shown = [mesh for mesh in cells if mesh[1] in tops and mesh[2] in lefts]
    drawn = [_cell(terrain, mesh, lefts[mesh[2]], tops[mesh[1]], width, height) for mesh in shown]
    bottom = top + height * len(rows) + 20
    below = lines(terrain.left_out, 12, WIDTH - EDGE - RIGHT) if terrain.left_out else []
    notes = [
        f'<text x="{EDGE}" y="{bottom + 17 * nth:.1f}" font-size="12">{escape(row)}</text>'
        for nth, row in enumerate(below)
    ]
    words = "; ".join([f"{title}: {terrain.finding}", terrain.summary, *filter(None, [terrain.left_out])])
    return svg(bottom + 17 * len(below) - 8, words, [head, *names, *drawn, *notes])


def _legend(terrain: Terrain) -> list[Swatch]:
    """The scale, the mark of the best, and what hatched cells are."""
    found: list[Swatch] = []
    if terrain.values:
        outline = '<rect width="14" height="14" fill="none" stroke="currentColor" stroke-opacity=".4"/>'
        for share, name in ((0.25, "25 %"), (0.5, "50 %"), (0.75, "75 %"), (1.0, _("100 % of the best's speed"))):
            found.append((f'<rect width="14" height="14" fill="{mixed(SLOW, FAST, share)}"/>{outline}', name))
    if len(terrain.values) < len(terrain.cells):
        found.append((_refused(0, 0, 14, 14), _("refused (point at it for why)")))
    return found


def _name(x: float, y: float, name: str, anchor: str, width: float) -> str:
    size = min(13.0, 13 * width / (wide(name, 13) + 2))
    return f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size:.1f}" text-anchor="{anchor}">{name}</text>'


def _cell(terrain: Terrain, mesh: Mesh, x: float, y: float, width: float, height: float) -> str:
    """A cell in its place, with its value above its dp; the best in a thick frame and with a star."""
    x, y, width, height = x + GAP / 2, y + GAP / 2, width - GAP, height - GAP
    said = f"<title>{escape(terrain.says(mesh))}</title>"
    if mesh not in terrain.values:
        words = [(f"dp={mesh[0]}", 11)] if height > 30 else []
        return f"<g>{said}{_refused(x, y, width, height)}{_words(words, x, y, width, height, 'currentColor')}</g>"
    fill = mixed(SLOW, FAST, terrain.speed(mesh))
    star = "★ " if mesh == terrain.best else ""
    words = [(star + figure(terrain.values[mesh]), 15), *([(f"dp={mesh[0]}", 11)] if height > 30 else [])]
    frame = (
        f'<rect x="{x - 2:.1f}" y="{y - 2:.1f}" width="{width + 4:.1f}" height="{height + 4:.1f}" fill="none" '
        'stroke="currentColor" stroke-width="4"/>'
    )
    return (
        f'<g>{said}<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" fill="{fill}" '
        f'stroke="currentColor" stroke-opacity=".3"/>{_words(words, x, y, width, height, ink(fill))}'
        f"{frame if star else ''}</g>"
    )


def _refused(x: float, y: float, width: float, height: float) -> str:
    return (
        f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" fill="none" pointer-events="all" '
        f'stroke="currentColor" stroke-opacity=".3"/><path d="{hatch(x, y, width, height)}" stroke="currentColor" '
        'stroke-opacity=".3"/>'
    )


def _words(rows: list[tuple[str, int]], x: float, y: float, width: float, height: float, fill: str) -> str:
    """Rows of text of a size each, in the middle of a cell and no wider; nothing that would be too small to read."""
    tall = sum(size + 3 for _row, size in rows) - 3
    down, found = y + (height - tall) / 2, []
    for row, most in rows:
        size = min(most, most * (width - 4) / wide(row, most))
        down += most
        if size >= 6:
            found.append(
                f'<text x="{x + width / 2:.1f}" y="{down - 0.12 * most:.1f}" font-size="{size:.1f}" '
                f'text-anchor="middle" fill="{fill}" pointer-events="none">{row}</text>'
            )
        down += 3
    return "".join(found)
