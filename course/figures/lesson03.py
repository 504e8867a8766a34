"""Lesson 03: a product cut each way on real ranks, beside the whole one, with what was sent for it."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from IPython.display import HTML

from course.figures.cuts import RANKS, Beside, Way, measure, on_grid, on_line
from course.widgets.home import STYLE
from course.widgets.predict import Prediction
from course.widgets.units import bytes_in_words
from minipar import run
from minipar.ledger import Traffic
from minipar.words import _

LESSON = "03-matmul"
NUMBERS = ".course-numbers { overflow-x: auto } .course-numbers td { white-space: nowrap }"
SINGLE = 4  # bytes of a number in float32


def predict_backward(batch: int = 64, features: int = 1024) -> Prediction:
    """Ask what a column split sends in its backward."""
    sent = Traffic("all-reduce", "tp", RANKS, 1, SINGLE * batch * features).sent
    question = _(
        "`x` is [{batch}, {features:,}] in float32, and `w` is cut by columns over {ranks} ranks. `dx` is needed "
        "on every "
        "rank. How many KiB does each rank send in the backward?"
    ).format(batch=batch, features=features, ranks=RANKS)
    because = _(
        "The {ranks} summands of `dx` are all-reduced. It is as large as `x`, {size}, and a ring sends "
        "2 · {less}/{ranks} of it. The backward is not free."
    ).format(ranks=RANKS, size=bytes_in_words(SINGLE * batch * features), less=RANKS - 1)
    return Prediction(f"{LESSON}/backward", question, "KiB", sent / 1024, because)


def predict_pair() -> Prediction:
    """Ask how many all-reduces a feed-forward with two cuts needs in its forward."""
    question = _(
        "`gelu(x @ w) @ v` over {ranks} ranks: two products, both of them cut. How many all-reduces does the "
        "forward need, "
        "at least?"
    ).format(ranks=RANKS)
    because = _(
        "`w` by columns leaves columns of the middle, and `v` by rows wants just those. Only the end must be summed."
    )
    return Prediction(f"{LESSON}/pair", question, "", 1, because)


def line_sent(batch: int, features: int, ranks: int = RANKS) -> float:
    """Bytes that each rank sends forward for ``x w v`` on a line, columns then rows, in float32: one all-reduce."""
    return Traffic("all-reduce", "tp", ranks, 1, SINGLE * batch * features).sent


def grid_sent(batch: int, features: int, side: int = 2) -> float:
    """Bytes that each rank sends forward for the same by SUMMA on a square grid, in float32; w is 4 times as wide.

    For each product its blocks of the left matrix go along the rows and those of the right one along the columns.
    Backward it is twice as much: for each of the two gradients one of them is sent again, and summands of the other.
    """
    wide = 4 * features
    blocks = batch * features, features * wide, batch * wide, wide * features
    return sum(Traffic("broadcast", "tp", side, 1, SINGLE * block // side).sent for block in blocks)


def predict_grid(batch: int = 2048, features: int = 4096) -> Prediction:
    """Ask how much more a grid sends than a line in a usual feed-forward."""
    line, grid = line_sent(batch, features), grid_sent(batch, features)
    question = _(
        "A feed-forward `x @ w @ v` for {batch:,} tokens, {features:,} features, four times as wide inside. On a "
        "line of "
        "{ranks} ranks, columns then rows, each rank sends {line} forward. On a 2 × 2 grid, how many times as much?"
    ).format(batch=batch, features=features, ranks=RANKS, line=bytes_in_words(line))
    because = _("{grid}. More than half of that are blocks of the weights, which a line never sends.").format(
        grid=bytes_in_words(grid)
    )
    return Prediction(f"{LESSON}/grid", question, _("times"), round(grid / line, 2), because)


def beside_whole(*ways: Way) -> HTML:
    """Run each cut on real ranks, forward and backward, and show it beside the whole product."""
    rows = [(way.__name__, _worst(run(measure, RANKS, way))) for way in ways]
    heads = (
        _("cut"),
        _("error of the result"),
        _("error of the gradients"),
        _("each rank sends, forward"),
        _("backward"),
    )
    cells = [
        (name, f"{one.result:.0e}", f"{one.gradients:.0e}", bytes_in_words(one.forward), bytes_in_words(one.backward))
        for name, one in rows
    ]
    return table(heads, cells)


def _worst(measured: Sequence[Beside]) -> Beside:
    return Beside(*map(max, zip(*measured, strict=True)))


def grid_beside_line(samples: Sequence[int], features: int = 128) -> HTML:
    """Run ``x w v`` on a line and on a grid of real ranks for each number of samples, and show what each rank sent."""
    cells = []
    for batch in samples:
        line, grid = (_worst(run(cut, RANKS, batch, features)) for cut in (on_line, on_grid))
        sizes = line.forward, grid.forward, line.backward, grid.backward
        errors = max(line.result, grid.result), max(line.gradients, grid.gradients)
        cells.append((f"{batch:,}", *map(bytes_in_words, sizes), *(f"{error:.0e}" for error in errors)))
    heads = (
        _("samples"),
        _("forward: line sends"),
        _("grid sends"),
        _("backward: line sends"),
        _("grid sends"),
        _("error of the result"),
        _("error of the gradients"),
    )
    return table(heads, cells)


def table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> HTML:
    """A table that scrolls where the page is narrow; every text in it is escaped."""
    head = "".join(f"<th scope='col'>{escape(text)}</th>" for text in heads)
    body = "".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    table = f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
    page = f"<style>{STYLE} {NUMBERS}</style><div class='course-home course-numbers'>{table}</div>"
    return HTML(page)  # type: ignore[no-untyped-call]
