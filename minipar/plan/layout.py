"""A layout by its numbers: what the planner weighs before any schedule is written out or any rank exists."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from minipar.pipeline.names import LOOPED, NAMES, by_name
from minipar.pipeline.schedule import Schedule
from minipar.plan.model import Model
from minipar.recompute import Recompute

if TYPE_CHECKING:
    from minipar.layout import Layout

STAGES_A_RANK = {"zb-v": 2, "v-half": 2, "v-min": 2, "dualpipe-v": 2}
"""Of the schedules in a V; others have one, or as many as `virtual` says."""


class Numbers(NamedTuple):
    """A layout: degrees, samples of a micro-batch, micro-batches of a replica's batch, schedule, and what saves memory.

    virtual: stages a rank, where the schedule loops. zero: what is sharded over the replicas (Rajbhandari et al. 2020,
    §5): 1 optimizer states, 2 gradients too, 3 weights too.
    """

    dp: int = 1
    pp: int = 1
    tp: int = 1
    micro_batch: int = 1
    micro_batches: int = 1
    schedule: str = "1f1b"
    virtual: int = 1
    sequence_parallel: bool = False
    recompute: Recompute = Recompute.NONE
    zero: int = 0

    @property
    def ranks(self) -> int:
        """How many GPUs it takes."""
        return self.dp * self.pp * self.tp

    @property
    def batch(self) -> int:
        """Samples of a step, over all replicas."""
        return self.dp * self.micro_batch * self.micro_batches

    @property
    def stages(self) -> int:
        """Into how many stages the model is cut."""
        return self.pp * STAGES_A_RANK.get(self.schedule, self.virtual)

    def refused(self, model: Model) -> str | None:
        """Why a model cannot be cut so; None where it can."""
        for name in ("dp", "pp", "tp", "micro_batch", "micro_batches", "virtual"):
            if getattr(self, name) < 1:
                return f"{name}={getattr(self, name)}; it must be at least 1"
        if self.schedule not in NAMES:
            return f"schedule {self.schedule!r} is not one of {', '.join(NAMES)}"
        if self.schedule not in LOOPED and self.virtual not in (1, STAGES_A_RANK.get(self.schedule, 1)):
            return f"{self.schedule} does not take virtual={self.virtual}; {' and '.join(LOOPED)} do"
        if self.zero not in range(4):
            return f"zero={self.zero}; it can be 0, 1, 2 or 3"
        if model.heads % self.tp:
            return f"heads={model.heads} is not divisible by tp={self.tp}"
        if model.kv_heads % self.tp and self.tp % model.kv_heads:
            return f"kv_heads={model.kv_heads} and tp={self.tp} are not divisible by one another"
        if model.ffn % self.tp:
            return f"ffn={model.ffn} is not divisible by tp={self.tp}"
        if self.stages > model.layers:
            return f"{model.layers} layers cannot fill {self.stages} stages"
        if self.sequence_parallel and model.sequence % self.tp:
            return f"a sequence of {model.sequence} tokens cannot be cut over tp={self.tp} (sequence parallel)"
        return None

    def layout(self) -> Layout:
        """The layout as the trainer takes it; raises `ValueError` for ZeRO-2 and ZeRO-3, which it does not do."""
        from minipar import layout

        if self.zero > 1:
            raise ValueError(f"zero={self.zero}; `minipar train` shards optimizer states only (ZeRO-1)")
        schedule = written(self.schedule, self.pp, self.micro_batches, self.virtual)
        return layout.Layout(schedule, self.dp, self.tp, self.sequence_parallel, self.recompute, self.zero == 1)

    @property
    def order(self) -> str:
        """The schedule with its stages a rank; nothing over one rank, where all are the same."""
        name = f"{self.schedule} v={self.virtual}" if self.schedule in LOOPED else self.schedule
        return name if self.pp > 1 else ""

    def __str__(self) -> str:
        parts = [
            f"dp={self.dp} pp={self.pp} tp={self.tp}",
            f"{self.micro_batches} micro-batch{'es' * (self.micro_batches > 1)} of {self.micro_batch}",
            self.order,
            "sequence parallel" * self.sequence_parallel,
            f"recompute {self.recompute.value}" * (self.recompute is not Recompute.NONE),
            f"ZeRO-{self.zero}" * (self.zero > 0),
        ]
        return ", ".join(filter(None, parts))


@lru_cache(maxsize=512)
def written(schedule: str, pp: int, micro_batches: int, virtual: int) -> Schedule:
    """The schedule written out."""
    return by_name(schedule, pp, micro_batches, virtual if schedule in LOOPED else None)
