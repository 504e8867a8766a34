"""`minipar train`: train a GPT on a mesh, on this machine or in the ranks that torchrun started."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from minipar.commands.common import Json, clear_errors, complain
from minipar.commands.layout import Recomputed, layout_of
from minipar.commands.options import (
    Dp,
    MicroBatches,
    Pp,
    ScheduleName,
    SequenceParallel,
    Tp,
    Virtual,
    Zero,
    option,
)
from minipar.commands.progress import Show
from minipar.model import GPTConfig, Recompute
from minipar.train import Precision, Recipe
from minipar.train.job import Job, Outcome
from minipar.train.launch import launch
from minipar.words import _

PRESETS = {
    "demo": GPTConfig(),
    "small": GPTConfig(sequence=256, hidden=256, layers=8, heads=8),
    "medium": GPTConfig(sequence=512, hidden=768, layers=12, heads=12),
    "large": GPTConfig(sequence=1024, hidden=2048, layers=24, heads=16),
}
DEFAULTS = Recipe()


MODEL, UPDATES, FILES, RANKS = "Model", "Recipe", "Files", "Ranks"


def train_command(
    dp: Dp = 1,
    pp: Pp = 1,
    tp: Tp = 1,
    micro_batches: MicroBatches = 4,
    schedule: ScheduleName = "1f1b",
    virtual: Virtual = None,
    sequence_parallel: SequenceParallel = False,
    recompute: Recomputed = Recompute.NONE,
    zero: Zero = False,
    preset: Annotated[str, option(f"A model's sizes: {', '.join(PRESETS)}.", MODEL, "NAME")] = "demo",
    hidden: Annotated[int | None, option("Features, in place of the preset's.", MODEL, "N")] = None,
    layers: Annotated[int | None, option("Blocks, in place of the preset's.", MODEL, "N")] = None,
    heads: Annotated[int | None, option("Heads, in place of the preset's.", MODEL, "N")] = None,
    sequence: Annotated[int | None, option("Tokens of a sample, in place of the preset's.", MODEL, "N")] = None,
    tied: Annotated[bool, option("Use the embedding as the head too.", MODEL, name="--tied")] = False,
    dropout: Annotated[float, option("Share of features set to 0 in training.", MODEL, "P")] = 0.0,
    steps: Annotated[int, option("Steps in all, those of a resumed training too.", UPDATES, "N")] = DEFAULTS.steps,
    batch: Annotated[int, option("Samples of a step, over all replicas.", UPDATES, "B")] = DEFAULTS.batch,
    rate: Annotated[float, option("Highest learning rate.", UPDATES, "R")] = DEFAULTS.rate,
    warm_up: Annotated[
        int | None, option("Steps until it is reached (a tenth of the steps, at most 20).", UPDATES, "N")
    ] = None,
    decay: Annotated[float, option("Weight decay of matrices.", UPDATES, "W")] = DEFAULTS.decay,
    clip: Annotated[float, option("Largest gradient norm; 0 does not clip.", UPDATES, "C")] = DEFAULTS.clip or 0.0,
    precision: Annotated[Precision, option("What the model computes in.", UPDATES)] = DEFAULTS.precision,
    seed: Annotated[int, option("Of weights, data order and dropout.", UPDATES, "S")] = DEFAULTS.seed,
    text: Annotated[Path | None, option("A file to train on instead of Python's help topics.", FILES)] = None,
    held_out: Annotated[float, option("Share of the text to evaluate on.", FILES, "P")] = 0.1,
    checkpoint: Annotated[
        Path | None, option("A folder for checkpoints; a training that is there goes on.", FILES, "DIR")
    ] = None,
    save_every: Annotated[int, option("Steps between checkpoints.", FILES, "N")] = 50,
    keep: Annotated[int, option("How many checkpoints stay.", FILES, "N")] = 3,
    weights: Annotated[
        Path | None, option("A safetensors file to start from, as minipar export writes it.", FILES, "FILE")
    ] = None,
    metrics: Annotated[Path | None, option("A file for one line of JSON a step.", FILES, "FILE")] = None,
    tensorboard: Annotated[Path | None, option("A folder for TensorBoard.", FILES, "DIR")] = None,
    evaluate_every: Annotated[int, option("Steps between evaluations; 0 evaluates at the end only.", FILES, "N")] = 0,
    prompt: Annotated[str | None, option("Let the trained model go on from this text.", FILES, "TEXT")] = None,
    restarts: Annotated[
        int, option("Starts after a lost rank, from the last checkpoint (torchrun has its own).", RANKS, "N")
    ] = 0,
    timeout: Annotated[float, option("Seconds without a step after which ranks count as hanging.", RANKS, "S")] = 300,
    as_json: Json = False,
) -> None:
    """Train a GPT on a dp × pp × tp mesh. Starts its own ranks; under torchrun it joins those that are there."""
    with clear_errors():
        config = config_of(preset, hidden, layers, heads, sequence, tied, dropout)
        warm_up = min(DEFAULTS.warm_up, steps // 10) if warm_up is None else warm_up
        recipe = Recipe(steps, batch, rate, warm_up, decay=decay, clip=clip or None, precision=precision, seed=seed)
        job = Job(
            config,
            layout_of(dp, pp, tp, micro_batches, schedule, virtual, sequence_parallel, recompute, zero),
            recipe,
            text=text,
            held_out=held_out,
            checkpoints=checkpoint,
            save_every=save_every,
            keep=keep,
            weights=weights,
            evaluate_every=evaluate_every,
            metrics=metrics,
            tensorboard=tensorboard,
            prompt=prompt,
        )
        here = os.environ.get("RANK", "0") == "0"
        console = Console(stderr=as_json, quiet=not here)
        with Show(console, job) as show:
            outcome = launch(job, restarts, timeout, on_report=show.hear)
    if here:
        _tell(console, outcome, as_json, show)
    if outcome.stopped is not None:
        raise typer.Exit(1)


def config_of(
    preset: str,
    hidden: int | None,
    layers: int | None,
    heads: int | None,
    sequence: int | None,
    tied: bool,
    dropout: float,
) -> GPTConfig:
    """The preset with what was given in its place; raises `ValueError` for an unknown one."""
    if preset not in PRESETS:
        raise ValueError(f"preset {preset!r} is not one of {', '.join(PRESETS)}")
    given = {"hidden": hidden, "layers": layers, "heads": heads, "sequence": sequence}
    sizes = asdict(PRESETS[preset]) | {name: size for name, size in given.items() if size is not None}
    return GPTConfig(**sizes | {"tied": tied, "dropout": dropout})


def _tell(console: Console, outcome: Outcome, as_json: bool, show: Show) -> None:
    if as_json:
        print(json.dumps(asdict(outcome) | {"last": None if show.last is None else vars(show.last)}))
    if outcome.stopped is not None:
        complain(outcome.stopped)
    if outcome.text is not None and not as_json:
        console.print(_("[bold]The model goes on:[/]"))
        sys.stdout.write(outcome.text + "\n")
