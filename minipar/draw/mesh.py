"""A mesh laid over nodes, as a picture: which GPUs work together with one of them, and on which axis."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from html import escape

from minipar.draw.frame import EDGE, FORWARD, INPUT_GRADIENT, OPTIMIZER, RIGHT, WIDTH, heading, ink, svg
from minipar.words import _

AXES = {"dp": OPTIMIZER, "pp": FORWARD, "tp": INPUT_GRADIENT}
"""The colour of each axis, in every picture."""

ROWS, TALL, GAP = 2, 46, 6  # of GPUs in a node; of one of them; between them


def mesh_svg(
    title: str,
    nodes: int,
    per_node: int,
    chosen: int,
    partners: Mapping[str, Sequence[int]],
    name: Callable[[int], str],
) -> str:
    """Nodes of GPUs as an SVG string: the chosen one framed, and its partners on each axis in the axis's colour.

    partners: the ranks of the chosen one's group on each axis, itself among them. name: what is written in a GPU.
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
    height = top + -(-nodes // 2) * (high + GAP) + 4
    return svg(height, f"{title}. {_('GPU {rank} works with').format(rank=chosen)} {'; '.join(words)}", parts)


def _gpu(x: float, y: float, wide: float, colour: str, framed: bool, lines: tuple[str, str]) -> str:
    frame = 'stroke-width="4"' if framed else 'stroke-opacity=".4"'
    written = "currentColor" if colour == "none" else ink(colour)
    middle = f'x="{x + wide / 2:.1f}" text-anchor="middle" fill="{written}"'
    return (
        f'<rect x="{x + 2:.1f}" y="{y:.1f}" width="{wide - 4:.1f}" height="{TALL}" fill="{colour}" '
        f'stroke="currentColor" {frame}/><text {middle} y="{y + 19:.1f}" font-size="13">{lines[0]}</text>'
        f'<text {middle} y="{y + 36:.1f}" font-size="11">{lines[1]}</text>'
    )
