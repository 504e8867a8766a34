"""A transformer block over tensor ranks, as a picture: which part of it each rank has, and where ranks talk."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from typing import NamedTuple

from minipar.draw.frame import COMMUNICATION, EDGE, WIDTH, heading, svg
from minipar.draw.matmul import fill
from minipar.words import _

BOX, HIGH, GAP, DISC = 104, 74, 12, 17  # a box's width and height, what is between two things, a disc's radius
ABOVE, ROW, ASIDE = 14, 182, 16  # the residual's line above the boxes; from half to half; room for a half's name


class Box(NamedTuple):
    """A step of a block. cut: ``""`` whole on every rank, ``"features"`` or ``"tokens"``: a part on each."""

    name: str
    cut: str


class Half(NamedTuple):
    """Half of a block, in the order of a forward. What goes in is also added in the last step."""

    name: str
    steps: Sequence[Box | Talk]


class Talk(NamedTuple):
    """A place where ranks talk: its letter, and what it does forward and backward."""

    letter: str
    forward: str
    backward: str


def block_svg(title: str, halves: Sequence[Half], ranks: int) -> str:
    """The halves of a block below each other, from left to right as a forward goes, as an SVG string.

    A part in a rank's colour is on that rank alone. Features and heads are cut into strips that lie, tokens into
    strips that stand. The thin line above each half is the residual.
    """
    names = [_("rank {number}").format(number=0), *map(str, range(1, ranks))]
    legend = [(f'<rect width="14" height="14" fill="{fill(rank)}"/>', name) for rank, name in enumerate(names)]
    whole = ('<rect x=".5" y=".5" width="13" height="13" fill="none" stroke="currentColor"/>', _("whole on every rank"))
    top, head = heading(title, [whole, *(legend if ranks > 1 else [])], EDGE)
    parts, words = [head], [title]
    y = float(top)
    for nth, half in enumerate(halves):
        y = top + 12 + ABOVE + nth * ROW
        parts += _half(half, y, ranks)
        words.append(f"{half.name}: " + ", ".join(_in_words(step, ranks) for step in half.steps))
    return svg(y + HIGH + 64, "; ".join(words), parts)


def _half(half: Half, y: float, ranks: int) -> Iterator[str]:
    steps = half.steps
    wide = sum(BOX if isinstance(step, Box) else 2 * DISC for step in steps) + GAP * (len(steps) - 1)
    x, middle = (WIDTH - wide) / 2 + ASIDE, y + HIGH / 2
    yield f'<text x="{EDGE}" y="{middle - 10:.1f}" font-size="13" font-weight="600">{escape(half.name)}</text>'
    yield _line(EDGE, x, middle)
    beside, added = x - GAP, x + wide - BOX / 2
    yield (
        f'<path d="M{beside:.1f} {middle:.1f}V{y - ABOVE:.1f}H{added:.1f}V{y:.1f}" fill="none" '
        'stroke="currentColor" stroke-opacity=".45"/>'
    )
    for step in steps:
        after = x + (BOX if isinstance(step, Box) else 2 * DISC)
        yield from _box(step, x, y, ranks) if isinstance(step, Box) else _talk(step, x + DISC, middle, y + HIGH)
        x = after + GAP
        yield _line(after, x if step is not steps[-1] else WIDTH - EDGE, middle)


def _line(left: float, right: float, y: float) -> str:
    return f'<path d="M{left:.1f} {y:.1f}H{right:.1f}" stroke="currentColor" stroke-opacity=".45"/>'


def _box(box: Box, x: float, y: float, ranks: int) -> Iterator[str]:
    n = ranks if box.cut else 1
    for rank in range(n):
        part = (
            (x + rank * BOX / n, y, BOX / n, HIGH) if box.cut == "tokens" else (x, y + rank * HIGH / n, BOX, HIGH / n)
        )
        left, above, width, height = (f"{number:.1f}" for number in part)
        colour = fill(rank) if box.cut and ranks > 1 else "none"
        yield (
            f'<rect x="{left}" y="{above}" width="{width}" height="{height}" fill="{colour}" fill-opacity=".75" '
            'stroke="currentColor" stroke-opacity=".6" stroke-width=".8"/>'
        )
    under = x + BOX / 2, y + HIGH + 16
    yield f'<text x="{under[0]:.1f}" y="{under[1]:.1f}" font-size="12.5" text-anchor="middle">{escape(box.name)}</text>'


def _talk(talk: Talk, x: float, middle: float, bottom: float) -> Iterator[str]:
    busy = talk.forward or talk.backward
    colour = COMMUNICATION if busy else "none"
    yield f'<circle cx="{x:.1f}" cy="{middle:.1f}" r="{DISC}" fill="{colour}" stroke="currentColor"/>'
    yield (
        f'<text x="{x:.1f}" y="{middle + 5:.1f}" font-size="16" font-style="italic" text-anchor="middle" '
        f'fill="{"#000" if busy else "currentColor"}">{escape(talk.letter)}</text>'
    )
    for nth, (arrow, said) in enumerate((("→", talk.forward), ("←", talk.backward))):
        text = f"{arrow} {said or _('nothing')}"
        yield (
            f'<text x="{x:.1f}" y="{bottom + 36 + 16 * nth:.1f}" font-size="12" text-anchor="middle" '
            f'font-weight="{600 if said else 400}">{escape(text)}</text>'
        )


def _in_words(step: Box | Talk, ranks: int) -> str:
    if isinstance(step, Talk):
        words = _("{letter}: forward {forward}, backward {backward}")
        nothing = _("nothing")
        return words.format(letter=step.letter, forward=step.forward or nothing, backward=step.backward or nothing)
    cut = step.cut if ranks > 1 else ""
    how = {"": _("whole"), "features": _("split"), "tokens": _("split by tokens")}[cut]
    return f"{step.name} ({how})"
