"""The command line: `minipar doctor`, `minipar demo` and `minipar bench`."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from minipar import RankFailed, demo
from minipar.doctor import examine
from minipar.draw import Panel, gantt_text, percent
from minipar.words import _, plural

app = typer.Typer(help=__doc__, no_args_is_help=True, add_completion=False)
bench_app = typer.Typer(help="Speed as a ratio, both sides in the same run.", no_args_is_help=True)
app.add_typer(bench_app, name="bench")
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of text.")]


@contextmanager
def clear_errors() -> Iterator[None]:
    """Turn an error that the user can mend into its sentence and exit code 1."""
    try:
        yield
    except (ValueError, RankFailed) as error:
        Console(stderr=True).print(str(error), style="red", markup=False)
        raise typer.Exit(1) from None


@app.command("doctor")
def doctor_command(as_json: Json = False) -> None:
    """Say what this machine can do: versions, devices, backend and why, how fast ranks start and talk."""
    with clear_errors():
        findings = examine()
    if as_json:
        print(json.dumps([finding._asdict() for finding in findings]))
        return
    table = Table(show_header=False, box=None)
    for finding in findings:
        table.add_row(finding.name, finding.value)
        if finding.advice:
            table.add_row("", f"→ {finding.advice}", style="dim")
    Console().print(table)


@app.command("demo")
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


@bench_app.command("tensor")
def bench_tensor(as_json: Json = False) -> None:
    """Time a split feed-forward and block, forward and backward, beside torch.distributed.tensor.parallel."""
    from minipar.bench import tensor  # PyTorch's own tensor parallelism takes a second to import

    with clear_errors():
        rows = tensor.bench()
    ratio = tensor.geomean_ratio(rows)
    if as_json:
        print(json.dumps({"rows": [asdict(row) | {"ratio": row.ratio} for row in rows], "geomean_ratio": ratio}))
        return
    table = Table(
        "model", "size", "tp", "unsplit", "minipar", "torch", "ratio", title="batch×seq×hidden, forward + backward"
    )
    for row in rows:
        size = f"{row.batch}×{row.sequence}×{row.hidden}"
        times = (f"{s * 1e3:.1f} ms" for s in (row.unsplit_seconds, row.minipar_seconds, row.torch_seconds))
        table.add_row(row.model, size, str(row.tp), *times, f"{row.ratio:.2f}")
    Console().print(table)
    Console().print(f"geometric mean of minipar ÷ torch: {ratio:.2f}")


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
    losses = split[0].losses
    fell = _("The loss went from {first:.3f} to {last:.3f} in {steps} steps.")
    console.print(fell.format(first=losses[0], last=losses[-1], steps=steps))
    error = demo.max_relative_error(split, demo.train_unsplit(text))
    beside = _(
        "Losses, gradients and weights of the first {steps} steps beside the unsplit model's (float64): "
        "{verdict}, largest relative error {error:.1e}.\n"
    )
    verdict = _("They are equal") if error <= 1e-12 else _("[red]They differ[/]")
    console.print(beside.format(steps=demo.COMPARED, verdict=verdict, error=error))
    return losses, error


def _bubbles(console: Console, text: Path | None) -> list[demo.Bubble]:
    console.print(
        _(
            "[bold]2. The same GPT as a pipeline of 4 stages.[/] The pace is emulated: in each stage a micro-batch's "
            "forward takes {forward:g} ms and its backward {backward:g} ms, slept where the work is shorter. "
            "The messages between the ranks are real."
        ).format(forward=demo.PACE.forward * 1e3, backward=demo.PACE.backward * 1e3)
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


if __name__ == "__main__":
    sys.exit(app())
