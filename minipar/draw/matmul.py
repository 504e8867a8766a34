"""A matrix product cut over ranks, as a picture: by columns, by rows, one after the other, or into blocks."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import NamedTuple

from minipar.draw.frame import (
    COMMUNICATION,
    EDGE,
    INPUT_GRADIENT,
    OPTIMIZER,
    WEIGHT_GRADIENT,
    WIDTH,
    heading,
    lighter,
    svg,
)
from minipar.words import _

FILLS = (INPUT_GRADIENT, COMMUNICATION, WEIGHT_GRADIENT, OPTIMIZER)
MARGIN, GAP = 50, 56  # beside the matrices, where their words may be wider than they are, and between them
TOP, SHEET = 26, 4  # above the matrices; by how much a summand looks out from under the next
TALLEST = 150  # of a matrix that is as high as the picture


class Matrix(NamedTuple):
    """A matrix in the picture.

    cut: ``"columns"``, ``"rows"``, ``"blocks"`` of a `grid` of rows and columns of ranks, ``""`` where each rank has
    all of it, ``"sum"`` where each has a summand of it.
    wide: beside the others. high: of the picture, 1 at most. shape: of the part that one rank has.
    """

    name: str
    cut: str
    wide: float
    high: float
    shape: str
    grid: tuple[int, int] = (1, 1)


def matmul_svg(title: str, matrices: Sequence[Matrix], signs: Sequence[str], ranks: int) -> str:
    """The matrices beside each other with the signs between them, each part in its rank's colour, as an SVG string."""
    legend = [(f'<rect width="14" height="14" fill="{fill(rank)}"/>', str(rank)) for rank in range(ranks)]
    first = (f'<rect width="14" height="14" fill="{fill(0)}"/>', _("rank {number}").format(number=0))
    top, head = heading(title, [first, *legend[1:]], EDGE)
    side = (WIDTH - 2 * MARGIN - GAP * len(signs)) / sum(matrix.wide for matrix in matrices)
    above = SHEET * (ranks - 1) * any(matrix.cut == "sum" for matrix in matrices)
    parts, x, middle = [head], float(MARGIN), top + TOP + above + TALLEST / 2
    for matrix, sign in zip(matrices, [*signs, ""], strict=True):
        width, height = matrix.wide * side, matrix.high * TALLEST
        parts.append(_drawn(matrix, (x, middle - height / 2, width, height), ranks))
        raised = SHEET * (ranks - 1) if matrix.cut == "sum" else 0
        below = middle + TALLEST / 2
        parts.append(_text(x + width / 2, middle - height / 2 - 8 - raised, escape(matrix.name), 14))
        parts.append(_text(x + width / 2, below + 18, escape(matrix.shape), 12))
        parts.append(_text(x + width / 2, below + 34, escape(_whose(matrix, ranks)), 12))
        x += width
        if sign:
            parts.append(_text(x + GAP / 2, middle + 6, escape(sign), 20))
            x += GAP
    words = "; ".join(f"{matrix.name}: {_whose(matrix, ranks)}, {matrix.shape}" for matrix in matrices)
    return svg(middle + TALLEST / 2 + 44, f"{title}. {words}", parts)


def fill(rank: int) -> str:
    """A rank's colour: four colours, and lighter from the fifth rank on."""
    return lighter(FILLS[rank % len(FILLS)], 0.45 * (rank // len(FILLS)))


def _whose(matrix: Matrix, ranks: int) -> str:
    if ranks == 1 or not matrix.cut:
        return _("whole on every rank")
    return {
        "columns": _("cut by columns"),
        "rows": _("cut by rows"),
        "blocks": _("cut into blocks"),
        "sum": _("a summand on each rank"),
    }[matrix.cut]


def _drawn(matrix: Matrix, place: tuple[float, float, float, float], ranks: int) -> str:
    x, y, width, height = place
    boxes = []
    for rank in range(ranks if matrix.cut else 1):
        if matrix.cut == "columns":
            box = x + rank * width / ranks, y, width / ranks, height
        elif matrix.cut == "rows":
            box = x, y + rank * height / ranks, width, height / ranks
        elif matrix.cut == "blocks":
            down, across = matrix.grid
            row, column = divmod(rank, across)
            box = x + column * width / across, y + row * height / down, width / across, height / down
        elif matrix.cut == "sum":  # sheets one over the other, which are to be added
            shift = SHEET * (ranks - 1 - rank)
            box = x + shift, y - shift, width - SHEET * (ranks - 1), height
        else:
            box = place
        left, top, w, h = (f"{number:.1f}" for number in box)
        colour = fill(rank) if matrix.cut else "none"
        boxes.append(f'<rect x="{left}" y="{top}" width="{w}" height="{h}" fill="{colour}" stroke="currentColor"/>')
    return "".join(boxes)


def _text(x: float, y: float, text: str, size: int) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" text-anchor="middle">{text}</text>'
