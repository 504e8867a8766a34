"""The matmul explorer: a product cut by columns, by rows, or one after the other: who has what, and who sends what."""

from __future__ import annotations

from course.widgets.explorer import Control, Explorer, View
from course.widgets.units import bytes_in_words
from minipar.draw.matmul import Matrix, matmul_svg
from minipar.words import _, plural

BATCH, FEATURES, WIDE = 64, 1024, 4096  # of the products: [batch, in] · [in, middle] · [middle, out]
DEGREES = (1, 2, 4, 8)
NUMBER = 4  # bytes, in float32
COLUMNS, ROWS, PAIR = range(3)


def ways() -> tuple[str, ...]:
    """The cuts, in the slider's order."""
    return _("by columns"), _("by rows"), _("columns, then rows")


def look(way: int, degree: int) -> View:
    """The picture and the numbers for a cut over so many ranks."""
    n = DEGREES[degree]
    whole = f"[{BATCH}, {FEATURES}]"
    up, middle = f"[{FEATURES}, {WIDE // n}]", f"[{BATCH}, {WIDE // n}]"
    if way == COLUMNS:
        matrices = [
            Matrix("x", "", 0.8, 0.5, whole),
            Matrix("w", "columns", 1.6, 0.8, up),
            Matrix("y", "columns", 1.6, 0.5, middle),
        ]
        signs, weights = ["·", "="], FEATURES * WIDE
        forward, backward = 0, BATCH * FEATURES
    elif way == ROWS:
        matrices = [
            Matrix("x", "columns", 1.6, 0.5, middle),
            Matrix("w", "rows", 0.8, 1.0, f"[{WIDE // n}, {FEATURES}]"),
            Matrix("y", "sum", 0.8, 0.5, whole),
        ]
        signs, weights = ["·", "="], FEATURES * WIDE
        forward, backward = BATCH * FEATURES, 0
    else:
        matrices = [
            Matrix("x", "", 0.5, 0.4, whole),
            Matrix("w", "columns", 1.2, 0.5, up),
            Matrix("x w", "columns", 1.2, 0.4, middle),
            Matrix("v", "rows", 0.5, 1.0, f"[{WIDE // n}, {FEATURES}]"),
            Matrix("y", "sum", 0.6, 0.4, whole),
        ]
        signs, weights = ["·", "→", "·", "="], 2 * FEATURES * WIDE
        forward, backward = BATCH * FEATURES, BATCH * FEATURES
    title = _("{way}, over {ranks}").format(way=ways()[way], ranks=plural("{count} rank", "{count} ranks", n))
    facts = (
        (_("weights on each rank"), bytes_in_words(NUMBER * weights / n)),
        (_("forward: all-reduced"), _moved(forward, n)),
        (_("backward: all-reduced"), _moved(backward, n)),
        (_("each rank sends, in both"), bytes_in_words(NUMBER * (forward + backward) * 2 * (n - 1) / n)),
    )
    return View(matmul_svg(title[0].upper() + title[1:], matrices, signs, n), facts)


def _moved(numbers: int, ranks: int) -> str:
    return bytes_in_words(NUMBER * numbers) if numbers and ranks > 1 else _("nothing")


def matmul(degree: int = 4) -> Explorer:
    """Sliders for the cut and the number of ranks over the picture of the product."""
    return Explorer(
        (
            Control("way", _("Cut"), 0, 2, 0, names=ways()),
            Control("degree", _("Ranks"), 0, len(DEGREES) - 1, DEGREES.index(degree), names=tuple(map(str, DEGREES))),
        ),
        look,
    )
