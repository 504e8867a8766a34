"""Questions about split products and blocks: what they send, how many sums they need, what a rank works on."""

from __future__ import annotations

from course.quiz import keys
from course.quiz.dice import Dice
from course.quiz.generated.problem import Distractor, Problem
from minipar.words import _

KIB = 1024


def split_product_bytes(dice: Dice) -> Problem:
    """What a product split by columns or rows sends, in one direction."""
    n, batch = dice.pick((2, 4, 8)), 64 * dice.between(1, 8)
    wide, out = 512 * dice.between(1, 4), 512 * dice.between(5, 12)
    by_rows = dice.below(2) == 0
    size, other = (batch * out, batch * wide) if by_rows else (batch * wide, batch * out)
    key = keys.all_reduce_sent(n, 4 * size) / KIB
    text = (
        _(
            "`y = x @ w` in float32: `x` is `[{batch}, {wide}]`, `w` is `[{wide}, {out}]`, cut by its **rows** "
            "over {n} "
            "ranks. How many KiB does each rank send in the forward, in a ring?"
        )
        if by_rows
        else _(
            "`y = x @ w` in float32: `x` is `[{batch}, {wide}]`, `w` is `[{wide}, {out}]`, cut by its "
            "**columns** over {n} "
            "ranks. How many KiB does each rank send in the backward, in a ring?"
        )
    )
    summed = "y" if by_rows else "dx"
    return Problem(
        text.format(batch=batch, wide=wide, out=out, n=n),
        key,
        (
            Distractor(0, _("Each rank has a summand. Somebody must add them up.")),
            Distractor(keys.all_reduce_sent(n, 4 * other) / KIB, _("That would be the size of the other one.")),
            Distractor(keys.all_gather_sent(n, 4 * size) / KIB, _("Summands are not gathered. They are all-reduced.")),
            Distractor(keys.all_reduce_sent(n, 4 * wide * out) / KIB, _("The weights stay where they are.")),
        ),
        _("`{summed}` is all-reduced, {size:g} KiB: $2 \\cdot \\frac{{{less}}}{{{n}}} \\cdot {size:g}$ KiB.").format(
            summed=summed, size=4 * size / KIB, less=n - 1, n=n
        ),
        "KiB",
    )


def sums_of_a_model(dice: Dice) -> Problem:
    """How many all-reduces a tensor-parallel transformer needs."""
    layers, forward = dice.between(6, 96), dice.below(2) == 0
    key = 2 * layers if forward else 4 * layers
    text = (
        _(
            "A transformer has {layers} blocks, each an attention and a feed-forward, cut as Megatron-LM does. "
            "How many "
            "all-reduces does a forward through the blocks need?"
        )
        if forward
        else _(
            "A transformer has {layers} blocks, each an attention and a feed-forward, cut as Megatron-LM does. "
            "How many "
            "all-reduces do a forward and a backward through the blocks need together?"
        )
    )
    return Problem(
        text.format(layers=layers),
        key,
        (
            Distractor(layers, _("A block has two pairs of products: attention and feed-forward.")),
            Distractor(6 * layers - key, _("Count forward and backward again: which of them is asked?")),
            Distractor(8 * layers, _("Not every product needs one. A pair of cuts needs one sum in each direction.")),
        ),
        _("One sum a pair and direction, two pairs a block: {key}.").format(key=key),
    )


def heads_of_a_rank(dice: Dice) -> Problem:
    """How many rows of queries, keys and values a rank holds."""
    n, heads, size = dice.pick((2, 4, 8)), 8 * dice.between(1, 6), dice.pick((32, 64, 128))
    hidden = heads * size
    key = 3 * hidden // n
    return Problem(
        _(
            "Attention with {heads} heads of {size} features is cut by heads over {n} ranks. Queries, keys and "
            "values come "
            "from one matrix. How many of its output features does a rank compute?"
        ).format(heads=heads, size=size, n=n),
        key,
        (
            Distractor(hidden // n, _("Those are the queries alone. Keys and values are as many each.")),
            Distractor(3 * hidden, _("That is the whole matrix.")),
            Distractor(3 * size, _("That is one head. A rank has {count}.").format(count=heads // n)),
        ),
        _("{count} heads, each with $3 \\cdot {size}$ features: {key}.").format(count=heads // n, size=size, key=key),
    )


MAKERS = (split_product_bytes, sums_of_a_model, heads_of_a_rank)
