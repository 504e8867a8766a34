"""A page as PNG and PDF, by matplotlib; and how wide a text is, which SVG needs too."""

from __future__ import annotations

import io
import unicodedata
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Literal

import matplotlib as mpl
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.font_manager import fontManager
from matplotlib.ft2font import FT2Font
from matplotlib.lines import Line2D
from matplotlib.patches import Rectangle
from matplotlib.text import Text as DrawnText

from course.certificate.shapes import HEIGHT, PAPER, WIDTH, Anchor, Box, Face, Line, Page, Shape, Text

INCH = 25.4  # millimetres
POINTS = 72 / INCH  # in a millimetre
DPI = 200  # of the PNG: sharp in print, and a file of some hundred kilobytes
FINE = 1200  # dots an inch to measure in, so that their rounding does not count
FACES: dict[Face, str] = {"serif": "STIXGeneral", "sans": "DejaVu Sans", "mono": "DejaVu Sans Mono"}
ALIGNED: dict[Anchor, Literal["left", "center", "right"]] = {"start": "left", "middle": "center", "end": "right"}
BACKUP = ("DejaVu Sans", "DejaVu Serif")  # come with matplotlib: Latin, Greek, Cyrillic, Arabic, Hebrew and more


def fitted(page: Page) -> Page:
    """The page with every text as small as its room asks for, and the texts of a group equally so."""
    shrink: dict[str | int, float] = {}
    for number, shape in enumerate(page.shapes):
        if isinstance(shape, Text) and shape.room is not None:
            place = shape.group or number
            shrink[place] = min(shrink.get(place, 1.0), shape.room / width(shape))
    shapes = [
        replace(shape, size=shape.size * shrink.get(shape.group or number, 1.0)) if isinstance(shape, Text) else shape
        for number, shape in enumerate(page.shapes)
    ]
    return replace(page, shapes=tuple(shapes))


def unknown_characters(text: str) -> str:
    """The characters of `text` that no font on this machine has, each once."""
    return "".join(dict.fromkeys(c for c in text if _is_drawn(c) and not _families(c, "sans", strict=True)))


def to_png(page: Page) -> bytes:
    """The page as PNG."""
    return _saved(page, "png", {"Title": page.title, "Description": page.description, "Software": None})


def to_pdf(page: Page) -> bytes:
    """The page as PDF: letters stay letters, and no date but the certificate's is in it."""
    return _saved(page, "pdf", {"Title": page.title, "Subject": page.description, "CreationDate": None})


def _saved(page: Page, kind: str, metadata: dict[str, str | None]) -> bytes:
    target = io.BytesIO()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing from")  # said by `unknown_characters`
        # Letters as TrueType: they can be searched and copied. Dollar signs are no mathematics here.
        with mpl.rc_context({"pdf.fonttype": 42, "text.parse_math": False, "text.usetex": False}):
            figure = Figure(figsize=(WIDTH / INCH, HEIGHT / INCH), dpi=DPI, facecolor=PAPER)
            figure.add_artist(Rectangle((0, 0), 1, 1, transform=figure.transFigure, color=PAPER))
            for artist in _artists(figure, page.shapes):
                figure.add_artist(artist)
            figure.savefig(target, format=kind, metadata=metadata)
    return target.getvalue()


def _artists(figure: Figure, shapes: Iterable[Shape]) -> Iterator[Rectangle | Line2D | DrawnText]:
    for shape in shapes:
        if isinstance(shape, Box):
            corner = (shape.x / WIDTH, 1 - (shape.y + shape.height) / HEIGHT)
            size = (shape.width / WIDTH, shape.height / HEIGHT)
            yield Rectangle(
                corner, *size, transform=figure.transFigure, color=shape.color, linewidth=0, antialiased=False
            )
        elif isinstance(shape, Line):
            xs, ys = (shape.x1 / WIDTH, shape.x2 / WIDTH), (1 - shape.y1 / HEIGHT, 1 - shape.y2 / HEIGHT)
            yield Line2D(xs, ys, transform=figure.transFigure, color=shape.color, linewidth=shape.thick * POINTS)
        else:
            yield _text(figure, shape)


def _text(figure: Figure, shape: Text) -> DrawnText:
    return DrawnText(
        shape.x / WIDTH,
        1 - shape.y / HEIGHT,
        shape.text,
        transform=figure.transFigure,
        color=shape.color,
        fontsize=shape.size * POINTS,
        fontfamily=_families(shape.text, shape.face),
        fontweight="bold" if shape.bold else "normal",
        horizontalalignment=ALIGNED[shape.anchor],
        verticalalignment="baseline",
        parse_math=False,
    )


def width(shape: Text) -> float:
    """How wide a text is, in millimetres."""
    figure = Figure(figsize=(1, 1), dpi=FINE)
    FigureCanvasAgg(figure)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing from")
        drawn = _text(figure, shape)
        figure.add_artist(drawn)
        return float(drawn.get_window_extent().width) / FINE * INCH


def _families(text: str, face: Face, strict: bool = False) -> list[str]:
    """The fonts to draw `text` with, best first; with `strict`, none where some character has no font."""
    found = list(dict.fromkeys((FACES[face], *BACKUP)))
    wanted = {ord(c) for c in text if _is_drawn(c)}
    for family in found:
        wanted -= _has(family)
    if wanted:
        for family in sorted({font.name for font in fontManager.ttflist}):
            if wanted & (has := _has(family)):
                found.append(family)
                wanted -= has
    return [] if strict and wanted else found


def _is_drawn(character: str) -> bool:
    return not character.isspace() and unicodedata.category(character) != "Cf"  # joiners have no form of their own


@cache
def _has(family: str) -> frozenset[int]:
    """The characters (code points) that a family's upright font has."""
    files = [font.fname for font in fontManager.ttflist if font.name == family and font.style == "normal"]
    if not files or "LastResort" in Path(files[0]).name:  # which has a box for every character, and no letter
        return frozenset()
    try:
        return frozenset(FT2Font(files[0]).get_charmap())
    except (OSError, RuntimeError):
        return frozenset()
