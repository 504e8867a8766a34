"""One layout's prediction, whole: seconds, memory, throughput, and what may be wrong with it."""

from __future__ import annotations

from dataclasses import dataclass

from minipar.plan.layout import Numbers
from minipar.plan.memory import Memory, memory, worst
from minipar.plan.model import Model
from minipar.plan.time import StepTime, step_time
from minipar.plan.work import Bench
from minipar.recompute import Recompute


@dataclass(frozen=True)
class Prediction:
    """What a layout is predicted to do.

    memory: of each pipeline rank, in bytes. usable: bytes that tensors may take. flops: a GPU's peak. warnings: in
    what it is outside of what the constants were calibrated on. refused: why the software cannot run it.
    """

    model: Model
    layout: Numbers
    time: StepTime
    memory: tuple[Memory, ...]
    usable: float
    flops: float
    warnings: tuple[str, ...] = ()
    refused: str | None = None

    @property
    def fits(self) -> bool:
        """Whether every rank's tensors have room, and the software can run it."""
        return self.worst.total <= self.usable and self.refused is None

    @property
    def worst(self) -> Memory:
        """What the rank with the most holds, in bytes."""
        return worst(self.memory)

    @property
    def step_seconds(self) -> float:
        """Seconds of a step."""
        return self.time.total

    @property
    def tokens_per_second(self) -> float:
        """Tokens that one GPU gets through in a second."""
        return self.layout.batch * self.model.sequence / (self.step_seconds * self.layout.ranks)

    @property
    def flops_per_second(self) -> float:
        """The model's operations (`Model.training_flops`: no recompute) that one GPU gets through in a second."""
        return self.tokens_per_second * self.model.training_flops

    @property
    def hardware_flops_per_second(self) -> float:
        """The same with what is computed again (Korthikanti et al. 2022, Eq. 8; Narayanan et al. 2021, Eq. 3)."""
        model, again = self.model, 0.0
        if self.layout.recompute is Recompute.FULL:
            again = model.layers * model.block_flops
        elif self.layout.recompute is Recompute.SELECTIVE:
            again = model.layers * 4 * model.hidden * model.sequence
        return self.tokens_per_second * (model.training_flops + again)

    @property
    def mfu(self) -> float:
        """Model FLOPs utilization: the share of the peak that these are (Chowdhery et al. 2022, §4.1)."""
        return self.flops_per_second / self.flops


def predict(model: Model, layout: Numbers, bench: Bench) -> Prediction:
    """Predict what a layout takes. Raises `ValueError` for one that the model cannot be cut by.

    One that only this software cannot run is predicted, and `refused` says why it cannot.
    """
    if reason := layout.refused(model):
        raise ValueError(reason)
    ranks, usable = memory(model, layout, bench), bench.hardware.memory - bench.software.reserve
    full = worst(ranks).total > usable
    return Prediction(
        model,
        layout,
        step_time(model, layout, bench, full),
        ranks,
        usable,
        bench.hardware.flops,
        tuple(bench.software.beyond(model, layout)),
        bench.software.refuses(model, layout),
    )
