"""A training from start to end: what it reads and writes, and what each rank does about it."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from minipar.layout import Layout
from minipar.model import GPTConfig
from minipar.pipeline import naive
from minipar.rank import report
from minipar.train.checkpoint import CheckpointError, whole_config
from minipar.train.data import ByteText
from minipar.train.metrics import Metrics, read
from minipar.train.recipe import Recipe
from minipar.train.sample import sample
from minipar.train.trainer import Diverged, StepReport, Trainer, check_config


@dataclass(frozen=True)
class Job:
    """What to train, how, on what, and what to write where.

    text: a file to train on; without one, the help topics of Python. held_out: the share of it to evaluate on.
    checkpoints: a folder to write checkpoints to, every `save_every` steps and at the end, of which the last `keep`
    stay; what is there already is gone on from. weights: a whole safetensors file to start from instead of at random.
    evaluate_every: steps; 0 evaluates at the end only. metrics: a file for a line of JSON a step.
    tensorboard: a folder for TensorBoard. prompt: what to go on from, once trained, for `sample_bytes` bytes.
    """

    config: GPTConfig = field(default_factory=GPTConfig)
    layout: Layout = field(default_factory=lambda: Layout(naive(1)))
    recipe: Recipe = field(default_factory=Recipe)
    text: Path | None = None
    held_out: float = 0.1
    checkpoints: Path | None = None
    save_every: int = 50
    keep: int = 3
    weights: Path | None = None
    evaluate_every: int = 0
    metrics: Path | None = None
    tensorboard: Path | None = None
    prompt: str | None = None
    sample_bytes: int = 200

    def check(self) -> None:
        """Raise `ValueError`, before a rank starts, for what cannot work."""
        self.recipe.check()
        self.layout.check(self.config, self.recipe.batch)
        for part in self.data():
            part.batch(0, 1, self.config.sequence)
        if self.config.vocabulary < 256:
            raise ValueError(f"vocabulary={self.config.vocabulary}; a text of bytes has 256 tokens")
        for name, least in (("save_every", 1), ("keep", 1), ("evaluate_every", 0), ("sample_bytes", 1)):
            if getattr(self, name) < least:
                raise ValueError(f"{name}={getattr(self, name)}; it must be at least {least}")
        if self.prompt == "":
            raise ValueError("the prompt is empty; it needs at least one character to go on from")
        if self.weights is not None:
            check_config(self.config, whole_config(self.weights), str(self.weights))
        for name, path, folder in (
            ("metrics file", self.metrics, False),
            ("TensorBoard folder", self.tensorboard, True),
            ("checkpoint folder", self.checkpoints, True),
        ):
            if path is not None:
                _check_writable(name, path, folder)
        if self.metrics is not None and self.metrics.exists():
            read(self.metrics)  # a file of something else is not to be written over

    def data(self) -> tuple[ByteText, ByteText]:
        """What is trained on, and what is held out."""
        return ByteText(self.text).split(self.held_out)


def _check_writable(name: str, path: Path, folder: bool) -> None:
    """Raise `ValueError` where a file or folder of this name cannot be made or written to."""
    if path.exists() and path.is_dir() != folder:
        raise ValueError(f"the {name} {str(path)!r} is {'a file' if folder else 'a folder'}")
    there = next(p for p in (path, *path.absolute().parents) if p.exists())
    if there != path and not there.is_dir():
        raise ValueError(f"the {name} {str(path)!r} cannot be made: {str(there)!r} is a file")
    if not os.access(there, os.W_OK):
        raise ValueError(f"the {name} {str(path)!r} cannot be written: permission denied")


@dataclass(frozen=True)
class Begun:
    """The first report of a rank: from which step it goes on, and where it runs."""

    step: int
    where: str


@dataclass(frozen=True)
class Evaluated:
    """The loss on held-out text before step `step`, in nats and in bits a byte."""

    step: int
    loss: float

    @property
    def bits(self) -> float:
        """Bits per byte."""
        return self.loss / math.log(2)


@dataclass(frozen=True)
class Notice:
    """Something that the reader should know."""

    text: str


Report = Begun | StepReport | Evaluated | Notice
"""What the ranks report: rank 0 all of it."""


@dataclass(frozen=True)
class Outcome:
    """How a training ended: after which step, the held-out loss, and the text that it wrote.

    stopped: why it ended early, if it did: a fault that would come again, so that a restart is of no use.
    """

    steps: int
    held_out: float | None = None
    text: str | None = None
    stopped: str | None = None


def train_on_rank(job: Job) -> Outcome:
    """On each rank of the layout: train from the newest checkpoint, or from the start, to the last step."""
    train, held_out = job.data()
    trainer = Trainer(job.config, job.layout, train, job.recipe, held_out)
    first = trainer.mesh.rank == 0
    tell: Callable[[Report], None] = report if first else lambda _: None
    try:
        found = None
        if job.checkpoints is not None:
            found = trainer.resume(job.checkpoints, lambda text: tell(Notice(text)))
        if found is None and job.weights is not None:
            trainer.load_weights(job.weights)
        tell(Begun(trainer.step, str(trainer.mesh.placement)))
        paths = (job.metrics, job.tensorboard) if first else (None, None)
        with Metrics(*paths, first_step=trainer.step) as metrics:
            return _steps(job, trainer, metrics, tell)
    except (Diverged, CheckpointError) as error:
        return Outcome(trainer.step, stopped=str(error))


def _steps(job: Job, trainer: Trainer, metrics: Metrics, tell: Callable[[Report], None]) -> Outcome:
    def write(record: Mapping[str, Any]) -> None:
        try:
            if not metrics.closed:
                metrics.write(record)
        except ValueError as error:  # such as a full disk
            tell(Notice(f"{error}; the training goes on without metrics"))

    def evaluate() -> float:
        found = Evaluated(trainer.step, trainer.evaluate())
        # The line belongs to the last step: what goes on from here keeps it.
        write({"step": trainer.step - 1, "evaluation_loss": found.loss, "bits_per_byte": found.bits})
        tell(found)
        return found.loss

    saved, held_out = trainer.step, None
    while trainer.step < job.recipe.steps:
        done = trainer.train_step()
        write(vars(done))
        tell(done)
        last = trainer.step == job.recipe.steps
        if last or (job.evaluate_every and trainer.step % job.evaluate_every == 0):
            held_out = evaluate()
        if job.checkpoints is not None and (last or trainer.step - saved >= job.save_every):
            trainer.save(job.checkpoints, job.keep)
            saved = trainer.step
    if held_out is None:
        held_out = trainer.evaluate()  # it was trained to the end before
    text = None if job.prompt is None else sample(trainer, job.prompt, job.sample_bytes)
    return Outcome(trainer.step, held_out, text)
