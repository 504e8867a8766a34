"""A curve that was predicted, and dots that were measured, over numbers that double."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape
from typing import NamedTuple

from minipar.draw.frame import BACKWARD, FORWARD, LEFT, RIGHT, WIDTH, heading, percent, svg

TALL, FOOT = 230, 44  # of the plane, and of what is written below it


class Point(NamedTuple):
    """A number of something, from 1 on, and the share that goes with it, from 0 to 1."""

    x: int
    share: float


def curve_svg(
    title: str, curves: Sequence[tuple[str, Sequence[Point]]], dots: tuple[str, Sequence[Point]], axis: str
) -> str:
    """Curves and dots as an SVG string, each with its name: shares upwards, numbers to the right on a doubling scale.

    curves: by their names; the second one is dashed. dots: their name, and where they lie. axis: what is counted to the
    right. Raises `ValueError` for a number below 1, for a share that is not from 0 to 1, and where there is no curve.
    """
    points = [point for _name, curve in curves for point in curve]
    if not points:
        raise ValueError("there is no curve to draw")
    for count, share in [*points, *dots[1]]:
        if count < 1 or not 0 <= share <= 1:
            raise ValueError(f"({count}, {share}) has no place; numbers are from 1 on, shares from 0 to 1")
    most = max(max(point.x for point in points), 2)
    legend = [(_line(0, 7, 14, 7, nth), name) for nth, (name, _curve) in enumerate(curves)]
    top, head = heading(title, [*legend, (_dot(7, 7), dots[0])])
    bottom = top + TALL

    def place(point: Point) -> tuple[float, float]:
        along = math.log2(point.x) / math.log2(most)
        return LEFT + 14 + along * (WIDTH - LEFT - RIGHT - 40), bottom - point.share * TALL

    parts = [head, *_grid(top, bottom)]
    for nth, (_name, curve) in enumerate(curves):
        path = "L".join(f"{x:.1f} {y:.1f}" for x, y in map(place, curve))
        parts.append(f'<path d="M{path}" fill="none" stroke="{FORWARD}" stroke-width="2.5"{_dash(nth)}/>')
    ticks = sorted({point.x for point in points if math.log2(point.x).is_integer()})
    for tick in ticks:
        x, _y = place(Point(tick, 0))
        parts.append(f'<text x="{x:.1f}" y="{bottom + 17:.1f}" font-size="12" text-anchor="middle">{tick}</text>')
    for point in dots[1]:
        x, y = place(point)
        parts.append(
            f'{_dot(x, y, f"{point.x}: {percent(point.share)}")}<text x="{x + 10:.1f}" y="{y - 9:.1f}" font-size="12">'
            f"{percent(point.share)}</text>"
        )
    parts.append(f'<text x="{LEFT}" y="{bottom + 36:.1f}" font-size="12">{escape(axis)}</text>')
    words = [f"{dots[0]}: " + ", ".join(f"{count}: {percent(share)}" for count, share in dots[1])]
    return svg(bottom + FOOT, "; ".join([title, *words]), parts)


def _grid(top: float, bottom: float) -> list[str]:
    """Lines across at each quarter, with what they stand for."""
    parts = []
    for quarter in range(5):
        y = bottom - quarter / 4 * (bottom - top)
        parts.append(
            f'<path d="M{LEFT} {y:.1f}H{WIDTH - RIGHT}" stroke="currentColor" stroke-opacity=".2"/>'
            f'<text x="{LEFT - 8}" y="{y + 4:.1f}" font-size="12" text-anchor="end">{percent(quarter / 4)}</text>'
        )
    return parts


def _dash(nth: int) -> str:
    return ' stroke-dasharray="6 5"' if nth else ""


def _line(x: float, y: float, to: float, level: float, nth: int) -> str:
    return f'<path d="M{x} {y}L{to} {level}" stroke="{FORWARD}" stroke-width="2.5"{_dash(nth)}/>'


def _dot(x: float, y: float, says: str = "") -> str:
    said = f"<title>{escape(says)}</title>" if says else ""
    return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="5" fill="{BACKWARD}" stroke="currentColor">{said}</circle>'
