"""Curves and dots over two axes, as SVG: what is predicted as a line, what was measured as dots upon it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from typing import NamedTuple

from minipar.draw.frame import (
    BACKWARD,
    EDGE,
    FORWARD,
    OPTIMIZER,
    WEIGHT_GRADIENT,
    WIDTH,
    Swatch,
    heading,
    nice_step,
    svg,
)

HEIGHT, LEFT, RIGHT = 260, 76, 24
COLORS = (FORWARD, BACKWARD, WEIGHT_GRADIENT, OPTIMIZER)
DASHES = ("", "7 4", "2 4", "9 3 2 3")  # which also tells lines apart where a picture is printed in grey
SUPERSCRIPT = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


class Curve(NamedTuple):
    """A named row of points (x, y): joined by a line, or, where it was `measured`, dots."""

    name: str
    points: Sequence[tuple[float, float]]
    measured: bool = False


@dataclass(frozen=True)
class Axis:
    """What an axis counts, with its unit; `log`: each tick is ten times the one before. A `most` ends it there."""

    unit: str
    log: bool = False
    most: float | None = None

    def ends(self, values: Sequence[float]) -> tuple[float, float]:
        """Where it begins and ends, so that every value is on it. Raises `ValueError` for what it cannot show."""
        finite = [value for value in values if math.isfinite(value)]
        if len(finite) < len(values) or not finite or (self.log and min(finite) <= 0):
            kind = "numbers above 0" if self.log else "finite numbers"
            raise ValueError(f"{self.unit}: an axis shows {kind}, and at least one")
        top = max(*finite, self.most or 0.0) if self.most is not None else max(finite)
        if self.log:
            low, high = (10.0 ** round_(math.log10(v)) for round_, v in ((math.floor, min(finite)), (math.ceil, top)))
            return low, high if high > low else 10 * low
        return min(0.0, *finite), top if top > min(0.0, *finite) else 1.0

    def share(self, value: float, ends: tuple[float, float]) -> float:
        """Where a value is between the ends, from 0 to 1."""
        low, high = map(math.log10, ends) if self.log else ends
        return ((math.log10(value) if self.log else value) - low) / (high - low)

    def ticks(self, ends: tuple[float, float]) -> Iterator[float]:
        """Round numbers from end to end."""
        low, high = ends
        if self.log:
            yield from (10.0**power for power in range(round(math.log10(low)), round(math.log10(high)) + 1))
            return
        step = nice_step(high - low, 8)
        yield from (step * n for n in range(math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9) + 1))


def curves_svg(curves: Sequence[Curve], title: str, x: Axis, y: Axis, words: str = "") -> str:
    """Curves over each other as an SVG string; `words` say what they show to who cannot see it.

    Each line has its own dashes and colour; the dots of what was measured have the colour of the line before them.
    Raises `ValueError` where there is nothing to draw, or what an axis cannot show.
    """
    points = [point for curve in curves for point in curve.points]
    if not points:
        raise ValueError("there is no point to draw")
    wide, tall = x.ends([point[0] for point in points]), y.ends([point[1] for point in points])
    looks = _looks(curves)
    legend: list[Swatch] = [(_swatch(*looks[i], curve.measured), curve.name) for i, curve in enumerate(curves)]
    top, head = heading(title, legend, EDGE)
    top += 8
    bottom, right = top + HEIGHT, WIDTH - RIGHT

    def place(point: tuple[float, float]) -> tuple[float, float]:
        across, up = x.share(point[0], wide), y.share(point[1], tall)
        return LEFT + across * (right - LEFT), bottom - up * HEIGHT

    parts = [head, *_across(x, wide, top, bottom, right), *_up(y, tall, top, bottom, right)]
    parts += [
        _drawn([place(point) for point in curve.points], *looks[i], curve.measured) for i, curve in enumerate(curves)
    ]
    return svg(bottom + 40, f"{title}: {words}" if words else title, parts)


def _looks(curves: Sequence[Curve]) -> list[tuple[str, str]]:
    """The colour and the dashes of each curve."""
    lines, looks = -1, []
    for curve in curves:
        lines += not curve.measured or lines < 0
        looks.append((COLORS[lines % len(COLORS)], DASHES[lines % len(DASHES)]))
    return looks


def _swatch(color: str, dashes: str, measured: bool) -> str:
    if measured:
        return f'<circle cx="7" cy="7" r="4.5" fill="{color}" stroke="currentColor" stroke-width=".8"/>'
    return f'<path d="M0 7h15" stroke="{color}" stroke-width="2.5" stroke-dasharray="{dashes}"/>'


def _drawn(places: Sequence[tuple[float, float]], color: str, dashes: str, measured: bool) -> str:
    if measured:
        dots = "".join(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4.5"/>' for x, y in places)
        return f'<g fill="{color}" stroke="currentColor" stroke-width=".8">{dots}</g>'
    path = "L".join(f"{x:.1f} {y:.1f}" for x, y in places)
    return f'<path d="M{path}" fill="none" stroke="{color}" stroke-width="2.5" stroke-dasharray="{dashes}"/>'


def _across(axis: Axis, ends: tuple[float, float], top: float, bottom: float, right: float) -> Iterator[str]:
    for tick in axis.ticks(ends):
        x = LEFT + axis.share(tick, ends) * (right - LEFT)
        yield f'<path d="M{x:.1f} {bottom:.1f}V{top:.1f}" stroke="currentColor" stroke-opacity=".12"/>'
        yield f'<text x="{x:.1f}" y="{bottom + 16:.1f}" font-size="11" text-anchor="middle">{_number(tick)}</text>'
    yield f'<path d="M{LEFT} {bottom:.1f}H{right}" stroke="currentColor" stroke-opacity=".5"/>'
    yield f'<text x="{right}" y="{bottom + 33:.1f}" font-size="12" text-anchor="end">{escape(axis.unit)}</text>'


def _up(axis: Axis, ends: tuple[float, float], top: float, bottom: float, right: float) -> Iterator[str]:
    for tick in axis.ticks(ends):
        y = bottom - axis.share(tick, ends) * HEIGHT
        yield f'<path d="M{LEFT} {y:.1f}H{right}" stroke="currentColor" stroke-opacity=".12"/>'
        yield f'<text x="{LEFT - 8}" y="{y + 4:.1f}" font-size="11" text-anchor="end">{_number(tick)}</text>'
    middle = (top + bottom) / 2
    yield (
        f'<text x="{EDGE + 10}" y="{middle:.1f}" font-size="12" text-anchor="middle" '
        f'transform="rotate(-90 {EDGE + 10} {middle:.1f})">{escape(axis.unit)}</text>'
    )


def _number(value: float) -> str:
    """Short: thousands apart, no zeros after the point, and powers of ten where it would be long."""
    if abs(value) >= 1e6 or 0 < abs(value) < 1e-3:
        power = math.floor(math.log10(abs(value)) + 1e-9)
        digits = f"{value / 10.0**power:.3g}"
        return ("" if digits == "1" else f"{digits} · ") + "10" + str(power).translate(SUPERSCRIPT)
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.6g}"
