"""Questions about lines of unequal stages, and about what cutting a batch does to the loss and to memory."""

from __future__ import annotations

from course.quiz import keys
from course.quiz.dice import Dice
from course.quiz.generated.problem import Distractor, Problem
from minipar.words import _


def _unequal(dice: Dice) -> tuple[tuple[int, ...], int]:
    """What the stages take for a micro-batch, one of them clearly longest; and how many micro-batches there are."""
    stages = dice.between(3, 4)
    times = [dice.between(10, 30) for _stage in range(stages)]
    times[dice.below(stages)] = dice.between(36, 60)
    return tuple(times), dice.between(3, 12)


def unequal_line(dice: Dice) -> Problem:
    """How long a step of a line with unequal stages takes."""
    times, m = _unequal(dice)
    total, slowest = sum(times), max(times)
    return Problem(
        _(
            "Stages take {times} ms for a micro-batch, forward and backward together (a third of it forward). {m} "
            "micro-batches follow each other under GPipe; messages take no time. How long is the step?"
        ).format(times=", ".join(map(str, times)), m=m),
        keys.line_milliseconds(times, m),
        (
            Distractor(m * total, _("That is one micro-batch at a time, the naive pipeline.")),
            Distractor(m * slowest, _("So long the slowest stage works. It also waits for the first micro-batch.")),
            Distractor(
                (m + len(times) - 1) * slowest, _("That takes every stage for the slowest. The others are faster.")
            ),
            Distractor(
                round((m + len(times) - 1) * total / len(times)), _("That takes every stage for the average one.")
            ),
        ),
        _(
            "The first micro-batch visits every stage: {total} ms. Each of the other {others} comes {slowest} ms "
            "later: ${total} + {others} \\cdot {slowest} = {key:g}$ ms."
        ).format(total=total, others=m - 1, slowest=slowest, key=keys.line_milliseconds(times, m)),
        "ms",
    )


def mean_of_means(dice: Dice) -> Problem:
    """The loss of a batch from those of two micro-batches of different size."""
    few = dice.between(1, 3) * 100
    many = 1000 - few
    small, large = dice.between(6, 9), dice.between(1, 4)
    key = keys.batch_loss((few, many), (small, large))
    return Problem(
        _(
            "A batch has two micro-batches: one of {few} tokens with a mean loss of {small}, and one of {many} tokens "
            "with a mean loss of {large}. What is the mean loss of the batch's tokens?"
        ).format(few=few, small=small, many=many, large=large),
        key,
        (
            Distractor((small + large) / 2, _("That is the mean of the means. A token of the small one counts more.")),
            Distractor((small * many + large * few) / (few + many), _("The weights are the other way round.")),
            Distractor(small + large, _("That is the sum of the means, and no mean of anything.")),
        ),
        _("Each counts by its tokens: $({few} \\cdot {small} + {many} \\cdot {large}) / {all} = {key:.1f}$.").format(
            few=few, small=small, many=many, large=large, all=few + many, key=key
        ),
        "",
        1,
    )


def recompute_memory(dice: Dice) -> Problem:
    """What a stage holds under GPipe where it keeps its inputs and computes the rest again."""
    samples = 2 ** dice.between(4, 6)
    m = 2 ** dice.between(1, 4)
    edge, inside = dice.between(2, 9), 10 * dice.between(5, 20)
    key = keys.recomputed_held(samples, m, edge, inside)
    return Problem(
        _(
            "GPipe with recompute. A stage keeps the input of every sample, {edge} MiB each. Inside, a sample takes "
            "{inside} MiB, while its micro-batch is computed again. The batch has {samples} samples in {m} "
            "micro-batches. How many MiB does the stage hold, at most?"
        ).format(edge=edge, inside=inside, samples=samples, m=m),
        key,
        (
            Distractor(samples * inside, _("That is without recompute: everything of every sample.")),
            Distractor(samples * (edge + inside), _("Only one micro-batch at a time has its inside there.")),
            Distractor(samples // m * (edge + inside), _("The inputs of all micro-batches stay, not of one alone.")),
            Distractor(samples * edge, _("While a micro-batch is computed again, its inside is there too.")),
        ),
        _(
            "Inputs: ${samples} \\cdot {edge}$. One micro-batch has {each} samples: ${each} \\cdot {inside}$. Together "
            "{key:g} MiB."
        ).format(samples=samples, edge=edge, each=samples // m, inside=inside, key=key),
        "MiB",
    )  # fmt: skip


MAKERS = (unequal_line, mean_of_means, recompute_memory)
