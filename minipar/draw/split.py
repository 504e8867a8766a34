"""A matrix product cut by columns, as a picture."""

from __future__ import annotations

from html import escape

from minipar.draw.frame import COMMUNICATION, INPUT_GRADIENT, LEFT, OPTIMIZER, WEIGHT_GRADIENT, svg
from minipar.words import _


def column_split_svg(parts: int = 4) -> str:
    """The product ``x w = y`` with w cut by its columns: each rank's columns of w give the same columns of y."""
    title = _("Each rank multiplies x by its own columns of w, and gets its own columns of y")
    shades = (INPUT_GRADIENT, COMMUNICATION, WEIGHT_GRADIENT, OPTIMIZER)
    wide, tall, cell, top = 90, 70, 60, 44
    w_left = 60 + wide + 50
    y_left = w_left + parts * cell + 60
    middle = top + wide / 2

    def box(x: float, y: float, width: float, height: float, fill: str, label: str) -> str:
        ink = "currentColor" if fill == "none" else "#000000"
        return (
            f'<rect x="{x}" y="{y}" width="{width}" height="{height}" fill="{fill}" stroke="currentColor"/>'
            f'<text x="{x + width / 2}" y="{y + height / 2 + 5}" font-size="15" text-anchor="middle" fill="{ink}">'
            f"{label}</text>"
        )

    def word(x: float, y: float, text: str, size: int = 13) -> str:
        return f'<text x="{x}" y="{y}" font-size="{size}" text-anchor="middle">{escape(text)}</text>'

    rows = top + (wide - tall) / 2
    bodies = [box(60, rows, wide, tall, "none", "x"), word(60 + wide + 25, middle + 6, "×", 20)]
    for rank in range(parts):
        fill = shades[rank % len(shades)]
        bodies.append(box(w_left + rank * cell, top, cell, wide, fill, f"w{rank}"))
        bodies.append(box(y_left + rank * cell, rows, cell, tall, fill, f"y{rank}"))
        name = _("rank {number}").format(number=rank)
        bodies.append(word(w_left + rank * cell + cell / 2, top + wide + 17, name, 12))
        bodies.append(word(y_left + rank * cell + cell / 2, top + wide + 17, name, 12))
    bodies.append(word(y_left - 30, middle + 6, "=", 20))
    bodies.append(word(60 + wide / 2, top + wide + 17, _("on every rank"), 12))
    shapes = ((60 + wide / 2, "[batch, in]"), (w_left + parts * cell / 2, "[in, out]"))
    bodies += [word(x, top + wide + 36, shape) for x, shape in (*shapes, (y_left + parts * cell / 2, "[batch, out]"))]
    head = f'<text x="{LEFT}" y="22" font-size="16" font-weight="600">{escape(title)}</text>'
    return svg(top + wide + 46, title, [head, *bodies])
