"""The published schedules with one stage a rank, each as a function that writes the list of what every rank does."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from minipar.pipeline.schedule import Action, Kind, Schedule

Work = tuple[Kind, int]
"""A kind and a micro-batch; the stage is the rank's own."""


def naive(stages: int, micro_batches: int = 1) -> Schedule:
    """One micro-batch at a time through all stages and back: only one rank ever works.

    ::

        rank 0  F0 . . . . . . B0
        rank 1  . F0 . . . . B0 .
        rank 2  . . F0 . . B0 . .
        rank 3  . . . F0 B0 . . .

    Idle share of the time: (p−1)/p, however many micro-batches. Live micro-batches: 1.
    Source: Huang et al. 2019 (GPipe), Figure 2b.
    """
    kinds: tuple[Kind, Kind] = ("F", "B")
    return _written("naive", stages, micro_batches, lambda _: [(k, i) for i in range(micro_batches) for k in kinds])


def gpipe(stages: int, micro_batches: int) -> Schedule:
    """All forwards, then all backwards: micro-batches follow each other through the stages.

    For p = 4 and m = 6, a backward drawn as long as a forward::

        rank 0  F0 F1 F2 F3 F4 F5  .  .  .  .  .  . B0 B1 B2 B3 B4 B5
        rank 1   . F0 F1 F2 F3 F4 F5  .  .  .  . B0 B1 B2 B3 B4 B5  .
        rank 2   .  . F0 F1 F2 F3 F4 F5  .  . B0 B1 B2 B3 B4 B5  .  .
        rank 3   .  .  . F0 F1 F2 F3 F4 F5 B0 B1 B2 B3 B4 B5  .  .  .

    Idle share of the time: (p−1)/(m+p−1); idle over ideal time: (p−1)/m. Live micro-batches: m.
    Source: Huang et al. 2019 (GPipe), §2.3 and Figure 2c; Narayanan et al. 2021, §2.2.1.
    """
    kinds: tuple[Kind, Kind] = ("F", "B")
    return _written("GPipe", stages, micro_batches, lambda _: [(k, i) for k in kinds for i in range(micro_batches)])


def one_f_one_b(stages: int, micro_batches: int) -> Schedule:
    """After p−r forwards on rank r, a backward after each forward: as idle as GPipe, with less memory.

    For p = 4 and m = 6, a backward drawn as long as a forward::

        rank 0  F0 F1 F2 F3  .  .  . B0 F4 B1 F5 B2  . B3  . B4  . B5
        rank 1   . F0 F1 F2  .  . B0 F3 B1 F4 B2 F5 B3  . B4  . B5  .
        rank 2   .  . F0 F1  . B0 F2 B1 F3 B2 F4 B3 F5 B4  . B5  .  .
        rank 3   .  .  . F0 B0 F1 B1 F2 B2 F3 B3 F4 B4 F5 B5  .  .  .

    Bubble of a step: (p−1)(F+B), as GPipe's. Live micro-batches on rank r: min(m, p−r).
    Source: Narayanan et al. 2021, §2.2.1 and Figure 4 (PipeDream-Flush); Qi et al. 2024, Table 2.
    """

    def row(rank: int) -> Iterable[Work]:
        ahead = stages - rank
        yield from (("F", i) for i in range(ahead))
        for i in range(micro_batches):
            yield "B", i
            yield "F", i + ahead

    return _written("1F1B", stages, micro_batches, row)


def zb_h1(stages: int, micro_batches: int) -> Schedule:
    """1F1B with split backwards: rank r lets r weight gradients wait, and does them where 1F1B would idle.

    For p = 4 and m = 6::

        rank 0  F0 F1 F2 F3  .  .  . I0 W0 F4 I1 W1 F5 I2 W2 I3 W3 I4 W4 I5 W5
        rank 1   . F0 F1 F2  .  . I0 F3 I1 W0 F4 I2 W1 F5 I3 W2 I4 W3 I5 W4 W5
        rank 2   .  . F0 F1  . I0 F2 I1 F3 I2 W0 F4 I3 W1 F5 I4 W2 I5 W3 W4 W5
        rank 3   .  .  . F0 I0 F1 I1 F2 I2 F3 I3 W0 F4 I4 W1 F5 I5 W2 W3 W4 W5

    Bubble of a step: (p−1)(F+I−W), where W ≤ F and m ≥ p. Held on every rank: min(m, p) micro-batches, of which, while
    it does forwards, min(m, p) − r are live and r wait for their W.
    Source: Qi et al. 2024 (Zero Bubble), §2.1, Figure 3 (top), Table 2.
    """
    return _zero_bubble("ZB-H1", stages, micro_batches, lambda r: stages - r, lambda r: r)


def zb_h2(stages: int, micro_batches: int) -> Schedule:
    """As ZB-H1, with twice as many forwards in advance: no bubble but where W is shorter than the rest.

    For p = 4 and m = 6::

        rank 0  F0 F1 F2 F3 F4 F5  . I0 W0 I1 W1 I2 W2 I3 W3 I4 W4 I5 W5  .  .
        rank 1   . F0 F1 F2 F3 F4 I0 F5 I1  . I2 W0 I3 W1 I4 W2 I5 W3 W4 W5  .
        rank 2   .  . F0 F1 F2 I0 F3 I1 F4 I2 F5 I3  . I4 W0 I5 W1 W2 W3 W4 W5
        rank 3   .  .  . F0 I0 F1 I1 F2 I2 F3 I3 F4 I4 F5 I5 W0 W1 W2 W3 W4 W5

    Bubble of a step: (p−1)(F+I−2W), and none where that is negative, where W ≤ F or I ≤ F, and m ≥ 2p−1. Held on every
    rank: min(m, 2p−1) micro-batches, of which, while it does forwards, 2(p−r)−1 are live and 2r wait for their W.
    Source: Qi et al. 2024 (Zero Bubble), §2.2, Figure 3 (bottom), Table 2.
    """
    return _zero_bubble("ZB-H2", stages, micro_batches, lambda r: 2 * (stages - r) - 1, lambda r: 2 * r)


def _zero_bubble(
    name: str, stages: int, micro_batches: int, ahead: Callable[[int], int], waiting: Callable[[int], int]
) -> Schedule:
    """On rank r `ahead(r)` forwards first, and W of a micro-batch `waiting(r)` micro-batches after its I."""

    def row(rank: int) -> Iterable[Work]:
        first, late = ahead(rank), waiting(rank)
        yield from (("F", i) for i in range(first))
        for i in range(micro_batches + late):
            yield "I", i
            yield "W", i - late
            yield "F", i + first

    return _written(name, stages, micro_batches, row)


def _written(name: str, stages: int, micro_batches: int, row: Callable[[int], Iterable[Work]]) -> Schedule:
    """The schedule whose ranks do what `row` says, leaving out micro-batches that there are not."""
    check_counts(stages=stages, micro_batches=micro_batches)
    actions = (
        tuple(Action(kind, rank, i) for kind, i in row(rank) if 0 <= i < micro_batches) for rank in range(stages)
    )
    return Schedule(name, tuple(actions), tuple(range(stages)))


def check_counts(**counts: int) -> None:
    """Raise `ValueError` unless each is a whole number of at least 1."""
    for name, count in counts.items():
        if not isinstance(count, int) or count < 1:
            raise ValueError(f"{name}={count!r}; a schedule needs a whole number of at least 1")
