"""`minipar demo`: the tour in the terminal."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from minipar import demo
from minipar.commands.common import Json, clear_errors
from minipar.draw import Panel, gantt_text, percent
from minipar.pipeline import Action
from minipar.words import _, plural


def demo_command(
    as_json: Json = False,
    text: Annotated[Path | None, typer.Option(help="A file to train on instead of Python's help topics.")] = None,
    steps: Annotated[int, typer.Option(min=demo.COMPARED, help="Training steps.")] = 30,
) -> None:
    """Train a GPT split over 4 ranks, prove it equal to the unsplit one, and watch micro-batches shrink the bubble."""
    console = Console(stderr=as_json, quiet=as_json)
    with clear_errors():
        losses, error = _train(console, text, steps)
        bubbles = _bubbles(console, text)
    if as_json:
        rows = [
            {
                "micro_batches": b.micro_batches,
                "predicted": b.predicted.bubble_of_total,
                "measured": b.measured.bubble_of_total,
            }
            for b in bubbles
        ]
        facts = {"loss_first": losses[0], "loss_last": losses[-1], "equal_max_rel_error": error, "bubbles": rows}
        print(json.dumps(facts))


def _train(console: Console, text: Path | None, steps: int) -> tuple[list[float], float]:
    config = demo.CONFIG
    console.print(
        _(
            "[bold]1. One GPT on 4 ranks.[/] {layers} blocks in {stages} pipeline stages; inside each stage the "
            "{heads} heads and the feed-forward are split over {tp} tensor ranks."
        ).format(layers=config.layers, stages=demo.PP, heads=config.heads, tp=demo.TP)
    )
    loss_column = TextColumn(_("loss") + " {task.fields[loss]}")
    columns = (TextColumn("{task.description}"), BarColumn(), loss_column, TimeElapsedColumn())
    with Progress(*columns, console=console) as progress:
        task = progress.add_task(_("training"), total=steps, loss="…")
        split = demo.train_split(steps, text, lambda loss: progress.update(task, advance=1, loss=f"{loss:.3f}"))
    losses = split.losses
    fell = _("The loss went from {first:.3f} to {last:.3f} in {steps} steps.")
    console.print(fell.format(first=losses[0], last=losses[-1], steps=steps))
    error = demo.max_relative_error(split, demo.train_unsplit(steps, text))
    beside = _(
        "Losses, gradients and weights of the first {steps} steps beside the unsplit model's (float64): "
        "{verdict}, largest relative error {error:.1e}.\n"
    )
    verdict = _("They are equal") if error <= 1e-12 else _("[red]They differ[/]")
    console.print(beside.format(steps=demo.COMPARED, verdict=verdict, error=error))
    return losses, error


def _bubbles(console: Console, text: Path | None) -> list[demo.Bubble]:
    forward, backward = (demo.PACE.of(action) for action in (Action("F", 0, 0), Action("B", 0, 0)))
    console.print(
        _(
            "[bold]2. The same GPT as a pipeline of 4 stages.[/] The pace is emulated: in each stage a micro-batch's "
            "forward takes {forward:g} ms and its backward {backward:g} ms, slept where the work is shorter. "
            "The messages between the ranks are real."
        ).format(forward=forward * 1e3, backward=backward * 1e3)
    )
    table = Table(_("micro-batches"), _("predicted idle"), _("measured idle"), title=_("The bubble"))
    bubbles = []
    for micro_batches in (1, 2, 4, 8):
        bubble = demo.bubble(micro_batches, text)
        bubbles.append(bubble)
        label = plural("{count} micro-batch, measured", "{count} micro-batches, measured", micro_batches)
        console.print(gantt_text(Panel(label, bubble.measured), min(console.width, 100)))
        shares = (timeline.bubble_of_total for timeline in (bubble.predicted, bubble.measured))
        table.add_row(str(micro_batches), *map(percent, shares))
    console.print(table)
    return bubbles
