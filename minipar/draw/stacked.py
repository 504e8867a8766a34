"""Several pictures as one, below each other."""

from __future__ import annotations

import re
from collections.abc import Sequence
from html import unescape

from minipar.draw.frame import svg

OPENING = re.compile(r'<svg [^>]*?viewBox="0 0 [0-9.]+ ([0-9.]+)"[^>]*?aria-label="([^"]*)"[^>]*>')
GAP = 14


def stacked_svg(pictures: Sequence[str]) -> str:
    """The pictures below each other as one SVG string, which says what they all show. Each is one of `svg`'s.

    Raises `ValueError` for what is no picture of this package.
    """
    y, parts, words = 0.0, [], []
    for picture in pictures:
        opening = OPENING.match(picture)
        if opening is None or not picture.endswith("</svg>"):
            raise ValueError(f"{picture[:40]!r} is no picture that `minipar.draw` has made")
        inside = picture[opening.end() : -len("</svg>")]
        parts.append(f'<g transform="translate(0 {y:g})">{inside}</g>')
        words.append(unescape(opening[2]))
        y += float(opening[1]) + GAP
    return svg(max(y - GAP, 0), ". ".join(words), parts)
