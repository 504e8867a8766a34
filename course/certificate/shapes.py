"""What a page is drawn of, in millimetres from its upper left corner: texts, boxes and lines, for SVG and PDF alike."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Anchor = Literal["start", "middle", "end"]
Face = Literal["serif", "sans", "mono"]

WIDTH, HEIGHT = 297.0, 210.0  # A4, landscape
INK, QUIET, RULE, PAPER = "#1b1f24", "#5b6570", "#c9ced6", "#ffffff"


@dataclass(frozen=True)
class Text:
    """A line of text: `x` and the baseline `y`, `size` of the type; `room` is the width that it may take.

    Texts that must be smaller to fit are drawn smaller, and so are all of their `group`.
    """

    x: float
    y: float
    size: float
    text: str
    face: Face = "sans"
    color: str = INK
    anchor: Anchor = "start"
    bold: bool = False
    room: float | None = None
    group: str | None = None


@dataclass(frozen=True)
class Box:
    """A filled rectangle without outline."""

    x: float
    y: float
    width: float
    height: float
    color: str


@dataclass(frozen=True)
class Line:
    """A line of `thick` millimetres."""

    x1: float
    y1: float
    x2: float
    y2: float
    color: str = RULE
    thick: float = 0.25


Shape = Text | Box | Line


@dataclass(frozen=True)
class Page:
    """A page: its shapes from back to front, a title, and what it says for people who cannot see it."""

    title: str
    description: str
    shapes: tuple[Shape, ...]
