"""A step of a ring all-reduce: what each rank has of each part of the tensor, and what has just come."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from minipar.draw.frame import COMMUNICATION, LEFT, RIGHT, WEIGHT_GRADIENT, WIDTH, heading, ink, lighter, svg
from minipar.ring import Step
from minipar.words import _

TALL = 34


def ring_svg(held: Sequence[Sequence[frozenset[int]]], title: str, step: Step | None = None) -> str:
    """What each rank holds, as a table of ranks and parts, as an SVG string; the parts that `step` brought are framed.

    held: of each rank for each part, whose summands are in it. The more of them, the darker.
    """
    ranks = len(held)
    legend = [
        (f'<rect width="14" height="14" fill="{WEIGHT_GRADIENT}"/>', _("the whole sum")),
        (f'<rect width="14" height="14" fill="{shade(1, max(ranks, 2))}"/>', _("one summand")),
        (
            f'<rect x="1.5" y="1.5" width="11" height="11" fill="none" stroke="{COMMUNICATION}" stroke-width="3"/>',
            _("has just come"),
        ),
    ]
    top, head = heading(title, legend if step else legend[:2])
    top += 20
    cell = (WIDTH - LEFT - RIGHT - 10) / ranks
    parts = [head]
    for part in range(ranks):
        x = LEFT + 10 + (part + 0.5) * cell
        name = escape(_("part {number}").format(number=part))
        parts.append(f'<text x="{x:.1f}" y="{top - 6:.0f}" font-size="12" text-anchor="middle">{name}</text>')
    came = {((rank + 1) % ranks, part) for rank, part in enumerate(step.sent)} if step else set()
    for rank, own in enumerate(held):
        y = top + rank * (TALL + 4)
        name = escape(_("rank {number}").format(number=rank))
        parts.append(f'<text x="{LEFT}" y="{y + TALL / 2 + 4:.1f}" font-size="12" text-anchor="end">{name}</text>')
        for part, summands in enumerate(own):
            x, fill = LEFT + 10 + part * cell, shade(len(summands), ranks)
            frame = f'stroke="{COMMUNICATION}" stroke-width="4"' if (rank, part) in came else 'stroke="none"'
            parts.append(
                f'<rect x="{x + 2:.1f}" y="{y:.1f}" width="{cell - 4:.1f}" height="{TALL}" fill="{fill}" {frame}/>'
                f'<text x="{x + cell / 2:.1f}" y="{y + TALL / 2 + 5:.1f}" font-size="13" text-anchor="middle" '
                f'fill="{ink(fill)}">{"+".join(map(str, sorted(summands))) if ranks <= 6 else len(summands)}</text>'
            )
    words = [f"{_('rank {number}').format(number=rank)}: {_counts(own)}" for rank, own in enumerate(held)]
    return svg(top + ranks * (TALL + 4) + 8, f"{title}. {'; '.join(words)}", parts)


def shade(summands: int, ranks: int) -> str:
    """The colour of a part with so many of all summands: full for the sum."""
    return lighter(WEIGHT_GRADIENT, 0.75 * (ranks - summands) / max(1, ranks - 1))


def _counts(own: Sequence[frozenset[int]]) -> str:
    counts = " ".join(str(len(summands)) for summands in own)
    return _("summands of each part: {counts}").format(counts=counts)
