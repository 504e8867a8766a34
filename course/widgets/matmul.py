"""The matmul explorer: a product cut by columns, rows, both in turn, or over a grid: who has what, who sends what."""

from __future__ import annotations

from course.widgets.explorer import Control, Explorer, View
from course.widgets.units import bytes_in_words
from minipar.draw.matmul import Matrix, matmul_svg
from minipar.ledger import Traffic
from minipar.words import _, plural

BATCH, FEATURES, WIDE = 64, 1024, 4096  # of the products: [batch, in] · [in, middle] · [middle, out]
DEGREES = (1, 2, 4, 8)
NUMBER = 4  # bytes, in float32
COLUMNS, ROWS, PAIR, GRID = range(4)


def ways() -> tuple[str, ...]:
    """The cuts, in the slider's order."""
    return _("by columns"), _("by rows"), _("columns, then rows"), _("on a grid")


def grid_of(ranks: int) -> tuple[int, int]:
    """Rows and columns of the grid: as square as it can be."""
    rows = {1: 1, 2: 1, 4: 2, 8: 2}[ranks]
    return rows, ranks // rows


def look(way: int, degree: int) -> View:
    """The picture and the numbers for a cut over so many ranks."""
    n = DEGREES[degree]
    if way == GRID:
        title = _("on a grid of {rows} × {columns} ranks").format(rows=grid_of(n)[0], columns=grid_of(n)[1])
    else:
        title = _("{way}, over {ranks}").format(way=ways()[way], ranks=plural("{count} rank", "{count} ranks", n))
    matrices, signs = _matrices(way, n)
    forward, backward, sent = moved(way, n)
    weights = (2 if way == PAIR else 1) * FEATURES * WIDE
    facts = (
        (_("weights on each rank"), bytes_in_words(NUMBER * weights / n)),
        (_("forward"), _in_words(forward, _("blocks") if way == GRID else _("all-reduce of y"))),
        (_("backward"), _in_words(backward, _("blocks and sums") if way == GRID else _("all-reduce of dx"))),
        (_("each rank sends, in both"), bytes_in_words(sent)),
    )
    return View(matmul_svg(title[0].upper() + title[1:], matrices, signs, n), facts)


def moved(way: int, n: int) -> tuple[int, int, float]:
    """Bytes of what is communicated in the forward, in the backward, and what each rank sends for both in a ring."""
    if way == GRID:
        rows, columns = grid_of(n)
        along_row, along_column = NUMBER * BATCH * FEATURES // rows, NUMBER * FEATURES * WIDE // columns
        blocks = along_row * (columns > 1) + along_column * (rows > 1)
        once = (
            Traffic("broadcast", "", columns, 1, along_row).sent + Traffic("broadcast", "", rows, 1, along_column).sent
        )
        return blocks, 2 * blocks, 3 * once
    features = NUMBER * BATCH * FEATURES * (n > 1)
    forward, backward = features * (way != COLUMNS), features * (way != ROWS)
    return forward, backward, Traffic("all-reduce", "", n, 1, forward + backward).sent


def _matrices(way: int, n: int) -> tuple[list[Matrix], list[str]]:
    """What is drawn, and the signs between."""
    whole = f"[{BATCH}, {FEATURES}]"
    up, middle, down = f"[{FEATURES}, {WIDE // n}]", f"[{BATCH}, {WIDE // n}]", f"[{WIDE // n}, {FEATURES}]"
    product = ["·", "="]
    if way == COLUMNS:
        w, y = Matrix("w", "columns", 1.6, 0.8, up), Matrix("y", "columns", 1.6, 0.5, middle)
        return [Matrix("x", "", 0.8, 0.5, whole), w, y], product
    if way == ROWS:
        x, w = Matrix("x", "columns", 1.6, 0.5, middle), Matrix("w", "rows", 0.8, 1.0, down)
        return [x, w, Matrix("y", "sum", 0.8, 0.5, whole)], product
    if way == GRID:
        grid = rows, columns = grid_of(n)
        x = Matrix("x", "blocks", 0.8, 0.5, f"[{BATCH // rows}, {FEATURES // columns}]", grid)
        w = Matrix("w", "blocks", 1.6, 0.8, f"[{FEATURES // rows}, {WIDE // columns}]", grid)
        return [x, w, Matrix("y", "blocks", 1.6, 0.5, f"[{BATCH // rows}, {WIDE // columns}]", grid)], product
    x, w = Matrix("x", "", 0.5, 0.4, whole), Matrix("w", "columns", 1.2, 0.5, up)
    v, y = Matrix("v", "rows", 0.5, 1.0, down), Matrix("y", "sum", 0.6, 0.4, whole)
    return [x, w, Matrix("x w", "columns", 1.2, 0.4, middle), v, y], ["·", "→", "·", "="]


def _in_words(size: int, what: str) -> str:
    return _("{what}, {size}").format(what=what, size=bytes_in_words(size)) if size else _("nothing")


def matmul(degree: int = 4) -> Explorer:
    """Sliders for the cut and the number of ranks over the picture of the product."""
    return Explorer(
        (
            Control("way", _("Cut"), 0, 3, 0, names=ways()),
            Control("degree", _("Ranks"), 0, len(DEGREES) - 1, DEGREES.index(degree), names=tuple(map(str, DEGREES))),
        ),
        look,
    )
