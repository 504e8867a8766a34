"""Lesson 05: how long a step of unequal stages takes; and a chain of layers cut into stages."""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Sequence
from itertools import accumulate, pairwise

from course.exercises.exercise import Exercise, Play, Refused, Status, Verdict, WrongAnswer
from course.exercises.targets import Weighed, at_most, weigh
from course.judge.plain import Other, Plain
from course.judge.ranks import Case
from minipar.pipeline import Costs, balanced_cuts, gpipe, naive, simulate
from minipar.words import _

LESSON = "05-stages"
Whole = list[int]
CLOSE = 1e-9  # of a time, as a share


def told(got: Plain) -> str:
    """What kind of value came, in a word."""
    return got.kind if isinstance(got, Other) else type(got).__name__


def between(least: int, most: int) -> int:
    """A whole number that nobody can know beforehand, both ends included."""
    return least + secrets.randbelow(most - least + 1)


# line-step


def examine_line_step(play: Play) -> Verdict:
    """Ask for the times of some lines, whose slowest stage is the first, the last or between; simulate them too.

    The slowest is far from the rest, so that no mean is taken for it; there is more than one stage and micro-batch.
    """
    for slowest in (0, -1, 1):
        stages, micro_batches = between(3, 6), between(3, 9)
        forward = [between(4, 12) for _stage in range(stages)]
        forward[slowest] = between(25, 40)
        value = play(Case(((list(forward), micro_batches),))).outcomes[0].value
        _compare_times(value, _times(forward, micro_batches), forward, micro_batches)
    return Verdict(
        Status.PASSED,
        _("Right: one at a time every stage counts once for each micro-batch; in a line the slowest sets the pace."),
    )


def _times(forward: Sequence[int], micro_batches: int) -> tuple[float, float, float]:
    """What the simulator says."""
    costs = Costs(forward=[float(one) for one in forward], backward=[2.0 * one for one in forward])
    line = simulate(gpipe(len(forward), micro_batches), costs)
    one_at_a_time = simulate(naive(len(forward), micro_batches), costs)
    return one_at_a_time.duration, line.duration, line.bubble_of_total


def _compare_times(got: Plain, want: tuple[float, ...], forward: Whole, micro_batches: int) -> None:
    if not isinstance(got, (list, tuple)) or len(got) != 3 or not all(type(n) in (int, float) for n in got):
        raise Refused(
            Status.WRONG_SHAPE,
            _("Three numbers were expected, as a tuple; your function returned {kind}.").format(kind=told(got)),
        )
    names = _("one at a time, in ms"), _("in a line, in ms"), _("idle share in a line")
    for name, mine, right in zip(names, got, want, strict=True):
        if not abs(mine - right) <= CLOSE * right:
            message = _("Stages of {forward} ms, {count} micro-batches: {name} is {got:.4g}, but should be {want:.4g}.")
            raise Refused(
                Status.WRONG_VALUE,
                message.format(forward=forward, count=micro_batches, name=name, got=mine, want=right),
            )


def line_step(forward: Whole, micro_batches: int) -> tuple[float, float, float]:
    """The solution: what every stage takes once, and the slowest once more for every other micro-batch."""
    each = [3 * one for one in forward]
    one_at_a_time = micro_batches * sum(each)
    in_a_line = sum(each) + (micro_batches - 1) * max(each)
    work = micro_batches * sum(each)
    return one_at_a_time, in_a_line, 1 - work / (len(each) * in_a_line)


def _backward_forgotten(forward: Whole, micro_batches: int) -> tuple[float, float, float]:
    line = sum(forward) + (micro_batches - 1) * max(forward)
    return micro_batches * sum(forward), line, 1 - micro_batches * sum(forward) / (len(forward) * line)


def _all_as_the_average(forward: Whole, micro_batches: int) -> tuple[float, float, float]:
    each, stages = 3 * sum(forward) / len(forward), len(forward)
    line = (micro_batches + stages - 1) * each
    return micro_batches * stages * each, line, (stages - 1) / (micro_batches + stages - 1)


def _all_as_the_slowest(forward: Whole, micro_batches: int) -> tuple[float, float, float]:
    line = (micro_batches + len(forward) - 1) * 3 * max(forward)
    work = 3 * micro_batches * sum(forward)
    return work, line, 1 - work / (len(forward) * line)


def _line_never_filled(forward: Whole, micro_batches: int) -> tuple[float, float, float]:
    line, work = micro_batches * 3 * max(forward), 3 * micro_batches * sum(forward)
    return work, line, 1 - work / (len(forward) * line)


def _idle_over_ideal(forward: Whole, micro_batches: int) -> tuple[float, float, float]:
    line = 3 * (sum(forward) + (micro_batches - 1) * max(forward))
    work = 3 * micro_batches * sum(forward)
    return work, line, len(forward) * line / work - 1


def _one_number(forward: Whole, micro_batches: int) -> float:
    return 3 * (sum(forward) + (micro_batches - 1) * max(forward))


LINE_STEP = Exercise(
    name="line-step",
    lesson=LESSON,
    examine=examine_line_step,
    hints=(
        _("A backward takes twice its forward. How long does one micro-batch keep a stage busy, both ways together?"),
        _(
            "One at a time is the easy one: nothing overlaps, so everything is added up. For the line, follow the "
            "first micro-batch: it meets no queue, and visits every stage. When does the next one end?"
        ),
        _(
            "In a line the micro-batches end apart from each other by what the slowest stage takes. So the line takes "
            "`sum(each) + (micro_batches - 1) * max(each)`, where `each` counts forward and backward."
        ),
        _(
            "The idle share is `1 - work / room`. The work is what all stages do together, for all micro-batches; "
            "the room is the number of stages times the length of the line."
        ),
    ),
    solution=line_step,
    wrong=(
        WrongAnswer(_backward_forgotten, Status.WRONG_VALUE),
        WrongAnswer(_all_as_the_average, Status.WRONG_VALUE),
        WrongAnswer(_all_as_the_slowest, Status.WRONG_VALUE),
        WrongAnswer(_line_never_filled, Status.WRONG_VALUE),
        WrongAnswer(_idle_over_ideal, Status.WRONG_VALUE),
        WrongAnswer(_one_number, Status.WRONG_SHAPE),
    ),
)


# balanced-stages


def chains() -> Iterator[tuple[Whole, int]]:
    """Chains of layers with a number of stages, drawn anew: a language model, one that tempts, any, and a long one."""
    blocks = between(8, 9)
    yield [1, *[between(9, 11) for _block in range(blocks)], between(24, 28)], 4  # a light embedding, a heavy head
    yield _tempting(4)
    yield [between(1, 30) for _layer in range(between(8, 12))], between(2, 5)
    yield [between(1, 99) for _layer in range(24)], 7


def _tempting(stages: int) -> tuple[Whole, int]:
    """A chain on which no way that tempts is the best; about every second draw is one."""
    while True:
        costs = [between(1, 20) for _layer in range(4 * stages)]
        least = slowest(costs, best(costs, stages))
        if all(slowest(costs, way(costs, stages)) > least for way in (_even_by_count, _filled_to_the_mean, _halved)):
            return costs, stages


def best(costs: Sequence[float], stages: int) -> Whole:
    """How many layers each stage has in the library's cut."""
    return [len(cut) for cut in balanced_cuts(costs, stages)]


def slowest(costs: Sequence[int], lengths: Sequence[int]) -> int:
    """What the slowest of stages of so many layers takes."""
    ends = list(accumulate(lengths, initial=0))
    return max(sum(costs[start:end]) for start, end in pairwise(ends))


def examine_balanced_stages(play: Play) -> Verdict:
    """Cut some chains, and weigh the slowest stage against the best there is."""
    rows: list[Weighed] = []
    for costs, stages in chains():
        got = play(Case(((list(costs), stages),))).outcomes[0].value
        lengths = _checked(got, costs, stages)
        least = slowest(costs, best(costs, stages))
        name = _("slowest of {stages} stages, {layers} layers, in ms").format(stages=stages, layers=len(costs))
        rows.append(at_most(name, slowest(costs, lengths), least, least))
    return weigh(
        rows,
        passed=_("No cut of these layers has a faster slowest stage. A line of your stages runs as fast as any can."),
        outside=_("Every layer is in a stage, in order. But there is a cut whose slowest stage is faster."),
    )


def _checked(got: Plain, costs: Whole, stages: int) -> Whole:
    where = _("{layers} layers into {stages} stages").format(layers=len(costs), stages=stages)
    if not isinstance(got, (list, tuple)) or len(got) != stages or not all(type(n) is int for n in got):
        message = _("{where}: a list of {stages} whole numbers was expected; your function returned {kind}.")
        kind = _("a list of {count}").format(count=len(got)) if isinstance(got, (list, tuple)) else told(got)
        raise Refused(Status.WRONG_SHAPE, message.format(where=where, stages=stages, kind=kind))
    if min(got) < 1:
        raise Refused(Status.WRONG_VALUE, _("{where}: a stage of {got} is empty.").format(where=where, got=list(got)))
    if sum(got) != len(costs):
        message = _("{where}: your stages have {count} layers in all.")
        raise Refused(Status.WRONG_VALUE, message.format(where=where, count=sum(got)))
    return list(got)


def balanced_stages(costs: Whole, stages: int) -> Whole:
    """The solution: fill the stages up to a limit, and look for the least limit with which they suffice."""

    def filled(limit: int) -> Whole:
        lengths, used = [0], 0
        for cost in costs:
            if used + cost > limit and lengths[-1]:
                lengths.append(0)
                used = 0
            lengths[-1] += 1
            used += cost
        return lengths

    limit = max(costs)
    while len(filled(limit)) > stages:
        limit += 1
    lengths = filled(limit)
    while len(lengths) < stages:  # to spare: cut a longer stage in two, which makes none slower
        at = lengths.index(max(lengths))
        lengths[at : at + 1] = [1, lengths[at] - 1]
    return lengths


def _even_by_count(costs: Whole, stages: int) -> Whole:
    short, spare = divmod(len(costs), stages)
    return [short + (stage < spare) for stage in range(stages)]


def _filled_to_the_mean(costs: Whole, stages: int) -> Whole:
    mean, lengths = sum(costs) / stages, [0]
    used = 0
    for place, cost in enumerate(costs):
        left = stages - len(lengths)
        if lengths[-1] and left and (used + cost > mean or len(costs) - place <= left):
            lengths.append(0)
            used = 0
        lengths[-1] += 1
        used += cost
    return lengths + [0] * (stages - len(lengths))


def _halved(costs: Whole, stages: int) -> Whole:
    def halved(chain: Whole, parts: int) -> Whole:
        if parts == 1:
            return [len(chain)]
        few = parts // 2
        ways = range(few, len(chain) - (parts - few) + 1)
        first = min(ways, key=lambda n: abs(sum(chain[:n]) / few - sum(chain[n:]) / (parts - few)))
        return halved(chain[:first], few) + halved(chain[first:], parts - few)

    return halved(costs, stages)


def _blocks_even_and_the_ends_alone(costs: Whole, stages: int) -> Whole:
    if stages < 3:
        return [1, len(costs) - 1][:stages]
    short, spare = divmod(len(costs) - 2, stages - 2)
    return [1, *(short + (stage < spare) for stage in range(stages - 2)), 1]


def _where_each_starts(costs: Whole, stages: int) -> Whole:
    short = len(costs) // stages
    return [stage * short for stage in range(stages)]


def _one_too_many(costs: Whole, stages: int) -> Whole:
    return [1] * (stages + 1)


def _last_layer_forgotten(costs: Whole, stages: int) -> Whole:
    short, spare = divmod(len(costs) - 1, stages)
    return [short + (stage < spare) for stage in range(stages)]


BALANCED_STAGES = Exercise(
    name="balanced-stages",
    lesson=LESSON,
    examine=examine_balanced_stages,
    hints=(
        _(
            "Turn the question round. Say somebody gave you the time of the slowest stage as a limit. How would you "
            "find out whether so many stages are enough for it?"
        ),
        _(
            "With a limit it is easy: fill the first stage with as many layers as the limit allows, then the next. If "
            "that takes more stages than there are, the limit is too low. No other way to fill does better."
        ),
        _(
            "So try limits. The least that can work is `max(costs)`, as no layer can be cut. Raise it by 1 until the "
            "stages suffice. (Or halve an interval, which is quicker.)"
        ),
        _(
            "Filling may leave stages over. Each must have a layer: then cut any stage with two or more layers in two, "
            "until there are enough. That makes no stage slower."
        ),
    ),
    solution=balanced_stages,
    wrong=(
        WrongAnswer(_even_by_count, Status.OUTSIDE_TARGET),
        WrongAnswer(_filled_to_the_mean, Status.OUTSIDE_TARGET),
        WrongAnswer(_halved, Status.OUTSIDE_TARGET),
        WrongAnswer(_blocks_even_and_the_ends_alone, Status.OUTSIDE_TARGET),
        WrongAnswer(_where_each_starts, Status.WRONG_VALUE),
        WrongAnswer(_last_layer_forgotten, Status.WRONG_VALUE),
        WrongAnswer(_one_too_many, Status.WRONG_SHAPE),
    ),
)
