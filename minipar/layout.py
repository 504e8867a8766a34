"""A layout: how a training is spread over ranks. The planner predicts it, the trainer runs it."""

from __future__ import annotations

from dataclasses import dataclass

from minipar.mesh import Mesh, check_degrees
from minipar.model import GPTConfig, Recompute
from minipar.pipeline import Schedule, check, even_cuts


@dataclass(frozen=True)
class Layout:
    """The degrees, the schedule of each pipeline, and what saves memory.

    schedule: it says over how many pipeline ranks, in how many stages and micro-batches.
    sequence_parallel: between the split regions each tensor rank has its slice of the sequence.
    recompute: which activations are computed again in the backward.
    zero: each replica keeps its share of the optimizer's states only (ZeRO-1, Rajbhandari et al. 2020, §5.1).
    """

    schedule: Schedule
    dp: int = 1
    tp: int = 1
    sequence_parallel: bool = False
    recompute: Recompute = Recompute.NONE
    zero: bool = False

    @property
    def pp(self) -> int:
        """Over how many ranks each pipeline goes."""
        return self.schedule.ranks

    @property
    def ranks(self) -> int:
        """How many ranks it needs."""
        return self.dp * self.pp * self.tp

    def mesh(self) -> Mesh:
        """The mesh, on a rank."""
        return Mesh(self.dp, self.pp, self.tp)

    def stages(self, config: GPTConfig, pp: int) -> dict[int, range]:
        """The blocks of each stage that pipeline rank `pp` holds, by the stage's number."""
        cuts = even_cuts(config.layers, self.schedule.stages)
        return {stage: cuts[stage] for stage, rank in enumerate(self.schedule.holder) if rank == pp}

    def check(self, config: GPTConfig, batch: int) -> None:
        """Raise `ValueError`, before a rank starts, where model, batch and layout do not fit each other.

        batch: samples of a step, over all replicas.
        """
        check(self.schedule)
        check_degrees(self.dp, self.pp, self.tp, self.ranks)
        config.check(self.tp)
        even_cuts(config.layers, self.schedule.stages)
        least = self.dp * self.schedule.micro_batches
        if batch < least:
            raise ValueError(
                f"a batch of {batch} samples is too small for dp={self.dp} replicas of {self.schedule.micro_batches} "
                f"micro-batches; at least {least} are needed"
            )
        if self.sequence_parallel and config.sequence % self.tp:
            raise ValueError(
                f"a sequence of {config.sequence} tokens cannot be cut evenly for tp={self.tp} (sequence parallel)"
            )

    def __str__(self) -> str:
        degrees = f"dp={self.dp} pp={self.pp} tp={self.tp}"
        names = {"sequence parallel": self.sequence_parallel, "ZeRO-1": self.zero}
        extras = [name for name, on in names.items() if on]
        if self.recompute is not Recompute.NONE:
            extras.append(f"recompute {self.recompute.value}")
        parts = self.schedule.micro_batches
        return ", ".join([degrees, self.schedule.name, f"{parts} micro-batch{'es' * (parts > 1)}", *extras])
