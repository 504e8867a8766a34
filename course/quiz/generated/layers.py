"""Questions about cuts: which part of a matrix a rank holds, and which layers a stage."""

from __future__ import annotations

from course.quiz import keys
from course.quiz.dice import Dice
from course.quiz.generated.problem import Distractor, Problem
from minipar.manifest import Section
from minipar.pipeline import even_cuts
from minipar.words import _


def _shape(rows: int, columns: int) -> str:
    return f"`[{rows}, {columns}]`"


def column_shape(dice: Dice) -> Problem:
    """What a rank holds of a matrix that is cut by columns or rows."""
    n = dice.pick((2, 4, 8))
    rows, columns = 64 * dice.between(2, 9), 64 * dice.between(10, 20)
    by_columns = dice.below(2) == 0
    right = _shape(rows, Section(columns).held(n)), _shape(Section(rows).held(n), columns)
    text = (
        _("`w` is `[{rows}, {columns}]` in `y = x @ w`, cut by its **columns** over {n} ranks. What does a rank hold?")
        if by_columns
        else _(
            "`w` is `[{rows}, {columns}]` in `y = x @ w`, cut by its **rows** over {n} ranks. What does a rank hold?"
        )
    )
    return Problem(
        text.format(rows=rows, columns=columns, n=n),
        right[0 if by_columns else 1],
        (
            Distractor(right[1 if by_columns else 0], _("That is the other way to cut it.")),
            Distractor(_shape(rows // n, columns // n), _("That is cut both ways at once.")),
            Distractor(_shape(rows, columns), _("That is all of it.")),
        ),
        _(
            "One of its sides is divided by {n}: the second where columns are dealt out, the first where rows are."
        ).format(n=n),
    )


def vocabulary_rows(dice: Dice) -> Problem:
    """Rows of the embedding on a rank where the vocabulary does not divide."""
    n = dice.pick((2, 4, 8, 16))
    vocabulary = n * dice.between(500, 8000) + dice.between(1, n - 1)
    key = keys.vocabulary_rows(vocabulary, n)
    return Problem(
        _("A vocabulary of {v} tokens is cut over {n} ranks, with rows of zeros added so that it divides. "
          "How many rows does each rank hold?").format(v=vocabulary, n=n),
        key,
        (
            Distractor(vocabulary // n, _("Then {left} tokens would have no row.").format(left=vocabulary % n)),
            Distractor(key * n, _("That is how many there are on all ranks together, padding included.")),
            Distractor(vocabulary, _("That is the whole vocabulary on each rank.")),
        ),
        _("$\\lceil {v} / {n} \\rceil = {key}$; {pad} rows of zeros are added in all.").format(
            v=vocabulary, n=n, key=key, pad=key * n - vocabulary
        ),
    )  # fmt: skip


def slowest_stage(dice: Dice) -> Problem:
    """The slowest stage of the best cut of a chain of layers."""
    stages = dice.between(2, 3)
    costs = tuple(dice.between(1, 9) for _ in range(dice.between(2 * stages, 7)))
    key, total = keys.slowest_stage(costs, stages), sum(costs)
    even = max(sum(costs[layer] for layer in cut) for cut in even_cuts(len(costs), stages))
    return Problem(
        _(
            "Layers take {costs} ms, in this order. They are cut into {stages} stages so that the slowest is as fast "
            "as any cut allows. How long does the slowest take?"
        ).format(costs=", ".join(map(str, costs)), stages=stages),
        key,
        (
            Distractor(even, _("That is a cut with as many layers in each stage. Another cut is better.")),
            Distractor(-(-total // stages), _("That is the average. Layers cannot be cut, and keep their order.")),
            Distractor(max(costs), _("That is the slowest layer. A stage has more of them.")),
            Distractor(key + 1, _("There is a better cut.")),
            Distractor(key - 1, _("No cut is as good as that. Layers keep their order.")),
        ),
        _("Try where the first stage may end; no cut has a slowest stage below {key} ms.").format(key=key),
        "ms",
    )


MAKERS = (column_shape, vocabulary_rows, slowest_stage)
