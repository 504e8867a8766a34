"""The ring all-reduce as plain data: which part of a tensor each rank sends in each step, and what it has then.

n ranks in a ring cut their tensors into n parts. In n−1 steps each rank sends one part on, which the next one adds to
its own: after them each rank has the whole sum of one part (a reduce-scatter). In n−1 more the sums go round (an
all-gather). So each rank sends 2·(n−1)/n of the tensor, however many ranks there are. (Thakur et al. 2005, §4.)
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

REDUCE_SCATTER, ALL_GATHER = "reduce-scatter", "all-gather"


@dataclass(frozen=True)
class Step:
    """A step in which every rank sends one part to the next rank.

    phase: ``"reduce-scatter"`` or ``"all-gather"``. sent: the part that each rank sends. held: after the step, of each
    rank for each part, whose summands are in it.
    """

    phase: str
    sent: tuple[int, ...]
    held: tuple[tuple[frozenset[int], ...], ...]


def begin(ranks: int) -> tuple[tuple[frozenset[int], ...], ...]:
    """What each rank has before the first step: its own summand of every part. Raises `ValueError` below one rank."""
    if ranks < 1:
        raise ValueError(f"ranks={ranks}; a ring has at least 1")
    return tuple(tuple(frozenset({rank}) for _ in range(ranks)) for rank in range(ranks))


def steps(ranks: int) -> Iterator[Step]:
    """The 2·(n−1) steps of a ring of n ranks; none where there is one."""
    held = begin(ranks)
    for number in range(2 * (ranks - 1)):
        adds = number < ranks - 1
        # In the first step rank r sends part r. What comes in is what is sent on in the next one.
        sent = tuple((rank - number) % ranks for rank in range(ranks))
        after = [list(parts) for parts in held]
        for rank, part in enumerate(sent):
            to = (rank + 1) % ranks
            after[to][part] = held[rank][part] | held[to][part] if adds else held[rank][part]
        held = tuple(tuple(parts) for parts in after)
        yield Step(REDUCE_SCATTER if adds else ALL_GATHER, sent, held)
