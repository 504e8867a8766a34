"""A mesh laid over nodes, as a picture: which GPUs work together with one of them, and on which axis."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from html import escape
from typing import NamedTuple

from minipar.draw.frame import EDGE, FORWARD, INPUT_GRADIENT, OPTIMIZER, RIGHT, WIDTH, hatch, heading, ink, svg, wide
from minipar.words import _

AXES = {"dp": OPTIMIZER, "pp": FORWARD, "tp": INPUT_GRADIENT}
"""The colour of each axis, in every picture."""

ROWS, TALL, GAP = 2, 46, 6  # of GPUs in a node; of one of them; between them
BAR, MOST = 20, 640  # how high the bar of a load is, and how long the longest


class Load(NamedTuple):
    """How long an axis keeps the chosen GPU's links busy, in seconds and in words; and whether inside its node."""

    axis: str
    seconds: float
    words: str
    inside: bool


def mesh_svg(
    title: str,
    nodes: int,
    per_node: int,
    chosen: int,
    partners: Mapping[str, Sequence[int]],
    name: Callable[[int], str],
    loads: Sequence[Load] = (),
    scale: float = 0.0,
) -> str:
    """Nodes of GPUs as an SVG string: the chosen one framed, and its partners on each axis in the axis's colour.

    partners: the ranks of the chosen one's group on each axis, itself among them. name: what is written in a GPU.
    loads: what the axes cost, drawn as bars below the nodes, hatched where a group leaves its node. scale: seconds that
    the longest bar stands for, unless one of them is longer.
    """
    legend = [
        (f'<rect width="14" height="14" fill="{AXES[axis]}"/>', _("its {axis} group").format(axis=axis))
        for axis, ranks in partners.items()
        if len(ranks) > 1
    ]
    top, head = heading(title, legend, EDGE)
    colours = {rank: AXES[axis] for axis, ranks in partners.items() for rank in ranks if rank != chosen}
    across = -(-per_node // ROWS)
    width = (WIDTH - EDGE - RIGHT - GAP) / 2  # two nodes beside each other
    cell = (width - 3 * GAP) / across
    high = 22 + ROWS * (TALL + GAP) + GAP
    parts = [head]
    for node in range(nodes):
        x, y = EDGE + node % 2 * (width + GAP), top + node // 2 * (high + GAP)
        label = escape(_("node {number}").format(number=node))
        parts.append(
            f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{high}" fill="none" stroke="currentColor" '
            f'stroke-opacity=".5" rx="4"/><text x="{x + 8:.1f}" y="{y + 16:.1f}" font-size="12">{label}</text>'
        )
        for place in range(per_node):
            rank = node * per_node + place
            left, above = x + GAP + place % across * cell, y + 22 + place // across * (TALL + GAP)
            lines = str(rank), escape(name(rank))
            parts.append(_gpu(left, above, cell, colours.get(rank, "none"), rank == chosen, lines))
    words = [f"{axis}: {', '.join(map(str, ranks))}" for axis, ranks in partners.items()]
    words += [f"{load.axis}: {_where(load)}" for load in loads if load.seconds > 0]
    height = top + -(-nodes // 2) * (high + GAP) + 4
    if loads:
        height, bars = _loads(loads, scale, height + 10, chosen)
        parts.append(bars)
    return svg(height, f"{title}. {_('GPU {rank} works with').format(rank=chosen)} {'; '.join(words)}", parts)


def _where(load: Load) -> str:
    place = _("inside the node") if load.inside else _("between nodes")
    return f"{load.words}, {place}"


def _loads(loads: Sequence[Load], scale: float, y: float, chosen: int) -> tuple[float, str]:
    """The bars from `y` down, and where they end."""
    longest = max(scale, *(load.seconds for load in loads)) or 1.0
    said = _("How long the links of GPU {rank} are busy in a step (hatched: between nodes)").format(rank=chosen)
    parts = [f'<text x="{EDGE}" y="{y + 12:.1f}" font-size="13" font-weight="600">{escape(said)}</text>']
    left, y = EDGE + 34, y + 22
    for load in loads:
        length = MOST * load.seconds / longest
        words = _where(load) if load.seconds > 0 else _("nothing to send")
        over = "" if load.inside else f'<path d="{hatch(left, y, length, BAR)}" stroke="#000000" stroke-opacity=".55"/>'
        parts.append(
            f'<text x="{EDGE}" y="{y + 15:.1f}" font-size="13">{load.axis}</text>'
            f'<rect x="{left}" y="{y:.1f}" width="{length:.1f}" height="{BAR}" fill="{AXES[load.axis]}" '
            f'stroke="currentColor" stroke-opacity=".4"/>{over}'
        )
        beyond = left + length + 8 + wide(words, 12) > WIDTH - RIGHT
        x, anchor = (left + length - 8, "end") if beyond else (left + length + 8, "start")
        fill, halo = (ink(AXES[load.axis]), AXES[load.axis]) if beyond else ("currentColor", "none")
        parts.append(
            f'<text x="{x:.1f}" y="{y + 14.5:.1f}" font-size="12" text-anchor="{anchor}" fill="{fill}" '
            f'stroke="{halo}" stroke-width="4" paint-order="stroke">{escape(words)}</text>'
        )
        y += BAR + 6
    return y + 4, "".join(parts)


def _gpu(x: float, y: float, wide: float, colour: str, framed: bool, lines: tuple[str, str]) -> str:
    frame = 'stroke-width="4"' if framed else 'stroke-opacity=".4"'
    written = "currentColor" if colour == "none" else ink(colour)
    middle = f'x="{x + wide / 2:.1f}" text-anchor="middle" fill="{written}"'
    return (
        f'<rect x="{x + 2:.1f}" y="{y:.1f}" width="{wide - 4:.1f}" height="{TALL}" fill="{colour}" '
        f'stroke="currentColor" {frame}/><text {middle} y="{y + 19:.1f}" font-size="13">{lines[0]}</text>'
        f'<text {middle} y="{y + 36:.1f}" font-size="11">{lines[1]}</text>'
    )
