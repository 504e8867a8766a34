"""The published schedules, each as a function that writes the list of what every rank does."""

from __future__ import annotations

from minipar.pipeline.schedule import Action, Kind, Schedule


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
    _check_counts(stages, micro_batches)
    order: list[tuple[Kind, int]] = [(kind, i) for i in range(micro_batches) for kind in ("F", "B")]
    return _same_order_everywhere("naive", stages, order)


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
    _check_counts(stages, micro_batches)
    order: list[tuple[Kind, int]] = [(kind, i) for kind in ("F", "B") for i in range(micro_batches)]
    return _same_order_everywhere("GPipe", stages, order)


def _same_order_everywhere(name: str, stages: int, order: list[tuple[Kind, int]]) -> Schedule:
    actions = tuple(tuple(Action(kind, stage, i) for kind, i in order) for stage in range(stages))
    return Schedule(name, actions, tuple(range(stages)))


def _check_counts(stages: int, micro_batches: int) -> None:
    for name, count in (("stages", stages), ("micro_batches", micro_batches)):
        if not isinstance(count, int) or count < 1:
            raise ValueError(f"{name}={count!r}; a schedule needs a whole number of at least 1")
