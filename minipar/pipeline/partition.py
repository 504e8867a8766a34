"""Which layers go to which stage."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from itertools import accumulate, pairwise


def even_cuts(layers: int, stages: int) -> tuple[range, ...]:
    """Cut `layers` layers into `stages` runs whose lengths differ by at most one, the longer runs in the middle.

    The first stage also embeds and the last also computes the loss, so spare layers go between them.
    Raises `ValueError` where a stage would be empty.
    """
    _check_stages(layers, stages)
    short, spare = divmod(layers, stages)
    first = (stages - spare) // 2
    lengths = [short + (first <= stage < first + spare) for stage in range(stages)]
    starts = [sum(lengths[:stage]) for stage in range(stages)]
    return tuple(range(start, start + length) for start, length in zip(starts, lengths, strict=True))


def balanced_cuts(costs: Sequence[float], stages: int, first: float = 0.0, last: float = 0.0) -> tuple[range, ...]:
    """Cut a chain of layers into `stages` runs so that the slowest stage costs as little as any cut allows.

    costs: what each layer costs, in any one unit, such as seconds. first and last: what the first stage has to do
    besides, such as to embed, and the last, such as the logits and the loss.

    Of the cuts that are best so, the one with the smallest sum of squared stage costs, as a single slow layer would
    else leave all others to chance; of those, the one whose last stage starts latest, then the one before it, and so
    on. Found by dynamic programming over the stages and where each ends, as PipeDream finds its stages (Narayanan
    et al. 2019, §3.1), in O(stages · layers²) sums, which are exact.

    Raises `ValueError` where a stage would be empty, and for a cost that is negative or not finite.
    """
    _check_stages(len(costs), stages)
    names = [*(f"layer {layer}" for layer in range(len(costs))), "what comes first", "what comes last"]
    for name, cost in zip(names, (*costs, first, last), strict=True):
        if not 0 <= cost < math.inf:
            raise ValueError(f"{name} costs {cost}; a cost is a finite number, at least 0")
    *chain, head, tail = _whole([*costs, first, last])
    chain[0] += head
    chain[-1] += tail
    until = list(accumulate(chain, initial=0))
    # Two searches, as the first stages of the best cut need not be the best cut of their layers by both in turn.
    _, slowest = _search(until, stages, lambda cost: cost, max, limit=until[-1])
    starts, _ = _search(until, stages, lambda cost: cost * cost, operator.add, limit=slowest)
    return tuple(range(start, end) for start, end in pairwise([*starts, len(chain)]))


def equal_cuts(layers: int, stages: int, last: float = 0.0) -> tuple[int, ...]:
    """How many layers each stage has in `balanced_cuts([1.0] * layers, stages, 0.0, last)`, in O(layers) sums.

    However many the last stage has, the others share the rest evenly, the longer ones first.
    Raises `ValueError` where a stage would be empty.
    """
    _check_stages(layers, stages)
    others = stages - 1
    if not others:
        return (layers,)
    one, tail = _whole([1.0, last])

    def worth(own: int) -> tuple[int, int]:
        (short, longer), end = divmod(layers - own, others), own * one + tail
        slowest = max(end, one * (short + (longer > 0)))
        return slowest, end**2 + one**2 * (longer * (short + 1) ** 2 + (others - longer) * short**2)

    own = min(range(1, layers - others + 1), key=worth)
    short, longer = divmod(layers - own, others)
    return (*[short + 1] * longer, *[short] * (others - longer), own)


def _check_stages(layers: int, stages: int) -> None:
    if not 1 <= stages <= layers:
        raise ValueError(f"{layers} layers cannot fill {stages} stages; stages can be 1 to {layers}")


def _whole(costs: Sequence[float]) -> list[int]:
    """The costs as multiples of one unit, since sums of floats are rounded, and rounding would choose between ties."""
    ratios = [float(cost).as_integer_ratio() for cost in costs]
    unit = max(denominator for _, denominator in ratios)  # all are powers of two
    return [numerator * (unit // denominator) for numerator, denominator in ratios]


def _search(
    until: Sequence[int], stages: int, worth: Callable[[int], int], join: Callable[[int, int], int], limit: int
) -> tuple[list[int], int]:
    """Where each stage starts so that the joined worth of all is least and none costs over `limit`; and that worth.

    until: the cost of the layers before each, and of all.
    """
    layers = len(until) - 1
    least = {0: 0}  # by how many layers the stages so far hold
    starts: list[dict[int, int]] = []  # by the stage and its end
    for stage in range(stages):
        before, least = least, {}
        starts.append({})
        for end in range(stage + 1, layers - (stages - 1 - stage) + 1):
            for start in range(end - 1, stage - 1, -1):
                cost = until[end] - until[start]
                own = worth(cost)
                # The earlier it starts, the more it costs.
                if cost > limit or (end in least and own >= least[end]):
                    break
                if start in before:
                    total = join(before[start], own)
                    if end not in least or total < least[end]:
                        least[end], starts[stage][end] = total, start
    cut = [layers]
    for by_end in reversed(starts):
        cut.append(by_end[cut[-1]])
    return cut[:0:-1], least[layers]
