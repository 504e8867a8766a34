"""What every picture shares: its colours, how wide a text is, the title and the legend, and the SVG around it.

Colours are Okabe and Ito's, which colour-blind people can tell apart. Text and outlines take the page's
own colour, so a picture fits a light and a dark page. Idle time has no colour: it is nothing, outlined.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterable, Sequence
from html import escape

from rich.cells import cell_len

FORWARD, BACKWARD, INPUT_GRADIENT, WEIGHT_GRADIENT = "#0072B2", "#D55E00", "#E69F00", "#009E73"
COMMUNICATION, OPTIMIZER, YELLOW = "#56B4E9", "#CC79A7", "#F0E442"

WIDTH, LEFT, RIGHT = 900, 60, 10  # of the picture, in its own units
EDGE = 10  # what begins at no axis begins here
STANDALONE = (
    "<style>svg{color:#1f2328;background:#fff}"
    "@media(prefers-color-scheme:dark){svg{color:#e6edf3;background:#0d1117}}</style>"
)

Swatch = tuple[str, str]
"""A little picture, 14 units wide and high from 0, and what it means."""


def percent(share: float, decimals: int = 0) -> str:
    """A share between 0 and 1 in words: 0.273 is "27 %"."""
    return f"{100 * share:.{decimals}f} %"


def figure(value: float) -> str:
    """A number to three digits, and no power of ten where a reader needs none: 0.0123, 86.5, 1,024."""
    if value == 0 or not 1e-4 <= abs(value) < 1e7:
        return f"{value:.3g}"
    decimals = max(0, 2 - math.floor(math.log10(float(f"{abs(value):.2e}"))))
    return f"{value:,.{decimals}f}"


def lighter(fill: str, share: float) -> str:
    """The colour, this share of the way to white."""
    return mixed(fill, "#FFFFFF", share)


def mixed(one: str, other: str, share: float) -> str:
    """A colour between two, this share of the way to the other."""
    pairs = ((int(one[i : i + 2], 16), int(other[i : i + 2], 16)) for i in (1, 3, 5))
    return "#" + "".join(f"{round(a + (b - a) * share):02X}" for a, b in pairs)


def ink(fill: str) -> str:
    """Black or white, whichever has more contrast on the colour `fill` (WCAG 2.2, relative luminance)."""
    channels = (int(fill[i : i + 2], 16) / 255 for i in (1, 3, 5))
    linear = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels)
    luminance = sum(weight * c for weight, c in zip((0.2126, 0.7152, 0.0722), linear, strict=True))
    return "#ffffff" if (luminance + 0.05) ** 2 < 1.05 * 0.05 else "#000000"


def wide(text: str, size: float) -> float:
    """About how wide a text is; only the browser knows exactly."""
    return 0.54 * size * cell_len(text)


def lines(text: str, size: float, width: float) -> list[str]:
    """The text cut into lines that are about as wide as that, at least one."""
    return textwrap.wrap(text, max(1, int(width / (0.54 * size)))) or [""]


def svg(height: float, words: str, parts: Iterable[str]) -> str:
    """The picture: what it shows, and in `words` for people who cannot see it."""
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height:.0f}" width="100%" role="img" '
        f'aria-label="{escape(words)}" font-family="system-ui, sans-serif" fill="currentColor">'
        f"{''.join(parts)}</svg>"
    )


def standalone(picture: str) -> str:
    """A picture as a file of its own, which brings its colours for light and dark pages: in no page it inherits any."""
    head, bracket, rest = picture.partition(">")
    return f"{head}{bracket}{STANDALONE}{rest}\n"


def heading(title: str, legend: Sequence[Swatch], left: float = LEFT) -> tuple[float, str]:
    """The title at the left, the legend at the right or, where it has no room there, below; and where that ends."""
    rows = lines(title, 16, WIDTH - left - RIGHT)
    widths = [19 + wide(name, 12) + 18 for _picture, name in legend]
    bold = 1.1 * wide(title, 16)  # which is wider
    beside = len(rows) == 1 and left + bold + sum(widths) < WIDTH - RIGHT
    x, top = (WIDTH - RIGHT + 18 - sum(widths), 9) if beside else (left, 34 + 20 * (len(rows) - 1))
    parts = [
        f'<text x="{left}" y="{22 + 20 * nth}" font-size="16" font-weight="600">{escape(row)}</text>'
        for nth, row in enumerate(rows)
    ]
    for width, (picture, name) in zip(widths, legend, strict=True):
        if x > left and x + width - 18 > WIDTH - RIGHT + 1e-6:  # sums of floats
            x, top = left, top + 22
        parts.append(
            f'<g transform="translate({x:.0f} {top})">{picture}<text x="19" y="12" font-size="12">{escape(name)}'
            "</text></g>"
        )
        x += width
    return top + 29, "".join(parts)


def axis(y: float, left: float, right: float, longest: float, unit: str) -> str:
    """From 0 at `left` to `longest` at `right`: ticks at round numbers, and the unit."""
    step = nice_step(longest)
    parts = [f'<path d="M{left:.0f} {y:.0f}H{right:.0f}" stroke="currentColor" stroke-opacity=".5"/>']
    for tick in range(math.floor(longest / step + 1e-9) + 1):
        x = left + tick * step / longest * (right - left)
        parts.append(
            f'<path d="M{x:.1f} {y:.0f}v4" stroke="currentColor"/><text x="{x:.1f}" y="{y + 16:.0f}" font-size="11" '
            f'text-anchor="middle">{tick * step:g}</text>'
        )
    parts.append(f'<text x="{left:.0f}" y="{y + 32:.0f}" font-size="12">{escape(unit)}</text>')
    return "".join(parts)


def nice_step(length: float, most: int = 12) -> float:
    """The smallest of 1, 2, 5, 10, 20, … (and their tenths) that cuts `length` into at most `most` steps."""
    power: float = 10.0 ** math.floor(math.log10(length / most))
    return next(power * factor for factor in (1, 2, 5, 10) if power * factor * most >= length * (1 - 1e-9))


def hatch(x: float, y: float, width: float, height: float, step: float = 6) -> str:
    """The path of a hatched box: slanted lines that end at its edges."""
    path = []
    for nth in range(1, math.ceil((width + height) / step)):
        across = nth * step  # on this line, right + down = across
        right, left = min(across, width), max(0.0, across - height)
        path.append(f"M{x + left:.1f} {y + across - left:.1f}L{x + right:.1f} {y + across - right:.1f}")
    return "".join(path)
