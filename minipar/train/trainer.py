"""The trainer: on each rank of a layout, the steps that train a GPT, its evaluation, and its checkpoints."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, NoReturn, Protocol

from torch import Tensor

from minipar import comm
from minipar.layout import Layout
from minipar.manifest import manifest
from minipar.model import GPT, GPTConfig, ties, token_loss
from minipar.pipeline import Action, evaluate, run
from minipar.train.buckets import Buckets
from minipar.train.checkpoint import Checkpoint, CheckpointError, State, latest, read, read_whole, save, whole_config
from minipar.train.flops import mfu
from minipar.train.memory import peak_memory
from minipar.train.optimizer import MOMENTS, Optimizer
from minipar.train.rate import rate_at
from minipar.train.recipe import Precision, Recipe
from minipar.train.scale import LossScale

IGNORED = -100  # a target that does not count, as in torch.nn.functional.cross_entropy


class Data(Protocol):
    """What a training is fed with: samples in an order that depends on the seed alone, not on the mesh."""

    def batch(self, first: int, count: int, sequence: int, seed: int = 0) -> tuple[Tensor, Tensor]:
        """Inputs and targets ``[count, sequence]`` from sample number `first` on."""


class Diverged(RuntimeError):
    """A loss or a gradient is not a number any more; every rank raises this in the same step."""


@dataclass(frozen=True)
class StepReport:
    """What one step was like, the same on every rank but for `memory`.

    loss: mean over the batch's tokens, in nats. norm: of all gradients, before clipping. seconds: of the whole step.
    mfu: share of the devices' peak, where that is known. bubble: idle share of the pipeline's time, measured.
    sent: bytes that this rank put on the wire, by axis. memory: bytes that this rank held at most so far.
    updated: whether the weights were; scale: the loss scale (both for fp16).
    """

    step: int
    loss: float
    rate: float
    norm: float
    seconds: float
    tokens_per_second: float
    mfu: float | None
    bubble: float
    sent: Mapping[str, int]
    memory: int
    updated: bool = True
    scale: float | None = None


class Trainer:
    """One rank's part in the training of a GPT; every rank of the layout makes one and calls the same methods.

    `step` is the number of the next step, `samples` of the next sample; `stages` are the model's stages on this rank.
    Raises `ValueError`, before any communication, where model, layout and recipe do not fit each other.
    """

    def __init__(
        self, config: GPTConfig, layout: Layout, data: Data, recipe: Recipe | None = None, held_out: Data | None = None
    ) -> None:
        """Make this rank's stages, new. held_out: what `evaluate` reads."""
        recipe = recipe or Recipe()
        recipe.check()
        layout.check(config, recipe.batch)
        self.config, self.layout, self.recipe, self.data, self.held_out = config, layout, recipe, data, held_out
        self.mesh = mesh = layout.mesh()
        self.stages = {
            stage: GPT(
                config,
                mesh,
                layers,
                recipe.seed,
                recipe.precision.model,
                layout.sequence_parallel,
                layout.recompute,
            )
            for stage, layers in layout.stages(config, mesh.pp.rank).items()
        }
        self.entries = {name: entry for stage in self.stages.values() for name, entry in manifest(stage).items()}
        self._ties = ties(config, layout.schedule.stages)
        tied = frozenset(where for tie in self._ties for where in tie.items())
        self.buckets = Buckets(self.stages, layout.schedule, mesh.dp, recipe.precision.main, tied, layout.zero)
        self.optimizer = Optimizer(self.buckets, self.entries, mesh, recipe)
        self.scale = LossScale() if recipe.precision is Precision.FP16 else None
        self._loss = token_loss(config, mesh)
        self.step = self.samples = 0

    def train_step(self) -> StepReport:
        """One step. Raises `Diverged`, on every rank, where the loss or a gradient is not finite (fp16 skips first)."""
        began = time.perf_counter()
        rate = rate_at(self.step, self.recipe.steps, self.recipe.rate, self.recipe.warm_up, self.recipe.floor)
        with self.mesh.ledger.page() as page:
            loss, bubble = self.backward()
            if not math.isfinite(loss) and self.scale is None:
                self._stop(loss, self.optimizer.norm())
            norm, updated = self.optimizer.update(rate, self.scale)
            if not updated and (self.scale is None or self.scale.factor < 1):  # else it was the scaled loss's overflow
                self._stop(loss, norm)
        seconds = time.perf_counter() - began
        tokens = self.recipe.batch * self.config.sequence / seconds
        device, dtype = self.mesh.device, self.recipe.precision.model
        sent = {axis: sum(round(row.sent) for row in page.rows() if row.axis == axis) for axis in ("dp", "pp", "tp")}
        report = StepReport(
            step=self.step,
            loss=loss,
            rate=rate,
            norm=norm,
            seconds=seconds,
            tokens_per_second=tokens,
            mfu=mfu(tokens, self.config, device, dtype, self.layout.ranks),
            bubble=bubble,
            sent=sent,
            memory=peak_memory(device),
            updated=updated,
            scale=None if self.scale is None else self.scale.factor,
        )
        self.step += 1
        self.samples += self.recipe.batch
        return report

    def backward(self) -> tuple[float, float]:
        """The next batch's gradients, summed over micro-batches, copies and replicas into each `main_grad`.

        Returns the loss, the same on every rank, and the measured bubble. With ZeRO a replica has its share only.
        """
        self.buckets.zero()
        for stage in self.stages.values():
            stage.moment = replace(stage.moment, step=self.step)
        batch, whole = self._part(self.data, self.samples, self.recipe.seed)
        factor = 1.0 if self.scale is None else self.scale.factor
        result = run(
            self.layout.schedule,
            self.stages,
            batch,
            lambda logits, targets: factor * self._loss(logits, targets),
            self.mesh,
            before=self._before,
            after=self.buckets.after,
            ties=self._ties,
            weigh=counted,
            whole=whole,
        )
        # While the last gradients are still on their way.
        loss = sum(share for [share] in comm.gather_numbers([result.loss], self.mesh.dp))
        self.buckets.finish()
        return loss / factor, result.timeline.bubble_of_total

    def _before(self, action: Action) -> None:
        self.stages[action.stage].at(action)
        self.buckets.before(action)

    def _part(self, data: Data, first: int, seed: int) -> tuple[tuple[Tensor, Tensor], float]:
        """This replica's part of a batch, and how many tokens count in all of it."""
        inputs, targets = data.batch(first, self.recipe.batch, self.config.sequence, seed)
        replicas, replica = self.mesh.dp.size, self.mesh.dp.rank
        return (inputs.tensor_split(replicas)[replica], targets.tensor_split(replicas)[replica]), counted(targets)

    def _stop(self, loss: float, norm: float) -> NoReturn:
        raise Diverged(
            f"step {self.step}: the loss is {loss:g} and the gradients' norm {norm:g}; the weights are as the step "
            f"found them. A lower rate than {self.recipe.rate:g}, a longer warm-up or clipping may help"
        )

    def evaluate(self, batches: int = 4) -> float:
        """The mean loss of the first batches of `held_out`, in nats a token, on every rank and whatever the mesh."""
        if self.held_out is None:
            raise ValueError("there is no held-out data to evaluate on")
        total = tokens = 0.0
        for i in range(batches):
            batch, whole = self._part(self.held_out, i * self.recipe.batch, seed=0)
            schedule = self.layout.schedule
            share = evaluate(schedule, self.stages, batch, self._loss, self.mesh, weigh=counted, whole=whole)
            total += whole * sum(part for [part] in comm.gather_numbers([share], self.mesh.dp))
            tokens += whole
        return total / tokens

    def save(self, root: Path, keep: int = 3) -> Path:
        """Write a checkpoint of all that the next step depends on; see `minipar.train.checkpoint.save`."""
        facts = {
            "step": self.step,
            "samples": self.samples,
            "updates": self.optimizer.steps,
            "scale": None if self.scale is None else asdict(self.scale),
            "seed": self.recipe.seed,
            "config": asdict(self.config),
        }
        return save(root, self.step, State(self.entries, self.optimizer.state(), facts), self.mesh, keep)

    def resume(self, root: Path, notice: Callable[[str], None] = lambda _: None) -> Checkpoint | None:
        """Go on from the newest whole checkpoint, whatever layout wrote it; None, and nothing done, without one.

        Raises `CheckpointError` where it is of another model, or none of several is whole.
        """
        found = latest(root, self.mesh, notice)
        if found is None:
            return None
        facts = found.facts
        check_config(self.config, facts["config"], str(found.path))
        if facts["seed"] != self.recipe.seed:
            raise CheckpointError(f"{found.path} was trained with seed {facts['seed']}, not {self.recipe.seed}")
        kinds = read(found, self.entries, ("weights", *MOMENTS), self.mesh)
        self.optimizer.load(kinds, int(facts["updates"]))
        self.step, self.samples = facts["step"], facts["samples"]
        if self.scale is not None and facts["scale"] is not None:
            self.scale = LossScale(**facts["scale"])
        return found

    def load_weights(self, file: Path) -> None:
        """Start from the weights in one whole safetensors file, as `minipar export` writes it."""
        check_config(self.config, whole_config(file), str(file))
        whole = read_whole(file, self.entries, self.mesh)
        self.optimizer.load({"weights": whole}, 0)


def check_config(ours: GPTConfig, theirs: Mapping[str, Any], where: str) -> None:
    """Raise `CheckpointError` where the sizes in `where` are not ours."""
    if different := [f"{k}={theirs.get(k)} (here {v})" for k, v in asdict(ours).items() if theirs.get(k) != v]:
        raise CheckpointError(f"{where} is of another model: {', '.join(different)}")


def counted(targets: Tensor) -> int:
    """How many targets count."""
    return int((targets != IGNORED).sum())
