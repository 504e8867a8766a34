"""What a search may choose from."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import product

from minipar.pipeline.names import LOOPED, NAMES
from minipar.plan.layout import STAGES_A_RANK, Numbers
from minipar.recompute import Recompute


@dataclass(frozen=True)
class Space:
    """The options of every mesh.

    virtual: stages a rank of the schedules that loop. micro_batch: sizes up to it that divide a replica's batch.
    """

    schedules: tuple[str, ...] = NAMES
    virtual: tuple[int, ...] = (2, 3, 4, 6, 8)
    micro_batch: int = 16
    sequence_parallel: tuple[bool, ...] = (False, True)
    recompute: tuple[Recompute, ...] = tuple(Recompute)
    zero: tuple[int, ...] = (0, 1, 2, 3)

    def within(self, most_zero: int) -> Space:
        """Without the ZeRO that a software does not do; raises `ValueError` where that leaves none."""
        zero = tuple(level for level in self.zero if level <= most_zero)
        if not zero:
            raise ValueError(f"zero={self.zero}; the software does ZeRO-{most_zero} at most")
        return replace(self, zero=zero)

    def plans(self, pp: int, layers: int) -> list[tuple[str, int]]:
        """Schedules and their stages a rank, where the blocks fill them; over one rank they are all the same."""
        if pp == 1:
            return [("1f1b", 1)]
        named = [(name, virtual) for name in self.schedules for virtual in (self.virtual if name in LOOPED else (1,))]
        return [(name, virtual) for name, virtual in named if pp * STAGES_A_RANK.get(name, virtual) <= layers]

    def works(self, mesh: Numbers, batch: int, sequence: int) -> Iterator[Numbers]:
        """What a mesh can do for a micro-batch, whatever the schedule and ZeRO."""
        own = batch // mesh.dp
        sizes = [size for size in range(1, self.micro_batch + 1) if own % size == 0]
        cut = [on for on in self.sequence_parallel if not on or (mesh.tp > 1 and sequence % mesh.tp == 0)] or [False]
        for size, sequence_parallel, recompute in product(sizes, cut, self.recompute):
            yield Numbers(
                mesh.dp,
                mesh.pp,
                mesh.tp,
                size,
                own // size,
                sequence_parallel=sequence_parallel,
                recompute=recompute,
            )

    def zeros(self, layout: Numbers) -> list[Numbers]:
        """The layout under every ZeRO; with one replica there is nothing to shard."""
        if layout.dp == 1:
            return [layout._replace(zero=0)]
        return [layout._replace(zero=zero) for zero in self.zero]

    def alike(self, work: Numbers, layers: int, split: tuple[str, ...]) -> Iterator[list[Numbers]]:
        """A mesh's layouts that do the same work, whatever ZeRO, those together whose schedules have as many stages."""
        groups: dict[tuple[int, bool], list[Numbers]] = {}
        for name, virtual in self.plans(work.pp, layers):
            layout = work._replace(schedule=name, virtual=virtual)
            groups.setdefault((layout.stages, name in split), []).append(layout)
        yield from groups.values()
