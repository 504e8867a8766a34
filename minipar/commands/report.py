"""A prediction as JSON, and as a table for a terminal."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rich.console import Console
from rich.table import Table

from minipar.plan.layout import Numbers
from minipar.plan.predict import Prediction
from minipar.plan.work import Bench
from minipar.words import _


def facts(found: Prediction, bench: Bench) -> dict[str, Any]:
    """What `--json` prints of a prediction: seconds, bytes, 10¹² operations a second."""
    layout = found.layout
    return {
        "layout": layout_facts(layout),
        "hardware": bench.hardware.name,
        "software": bench.software.name,
        "step_seconds": found.step_seconds,
        "tokens_per_second_per_gpu": found.tokens_per_second,
        "tflops_per_gpu": found.flops_per_second / 1e12,
        "hardware_tflops_per_gpu": found.hardware_flops_per_second / 1e12,
        "mfu": found.mfu,
        "seconds": found.time.parts,
        "memory_bytes": {**found.worst.parts, "total": found.worst.total},
        "memory_bytes_by_rank": [{**rank.parts, "total": rank.total} for rank in found.memory],
        "usable_bytes": found.usable,
        "fits": found.fits,
        "refused": found.refused,
        "warnings": list(found.warnings),
    }


def layout_facts(layout: Numbers) -> dict[str, Any]:
    """A layout as JSON."""
    return {**layout._asdict(), "recompute": layout.recompute.value, "gpus": layout.ranks, "batch": layout.batch}


def show(found: Prediction, bench: Bench) -> None:
    """Print a prediction: what it is, the step in one line, then seconds and bytes by part."""
    console = Console(highlight=False)
    console.print(f"[bold]{found.layout}[/bold]  ({bench.hardware.name}, {bench.software.name})", soft_wrap=True)
    speed = _("{seconds:.4g} s a step, {tokens:,.0f} tokens/s and {tflops} TFLOP/s a GPU, MFU {mfu:.1%}")
    console.print(
        speed.format(
            seconds=found.step_seconds,
            tokens=found.tokens_per_second,
            tflops=tera(found.flops_per_second),
            mfu=found.mfu,
        )
    )
    unit, size_of_unit = ("GiB", 2**30) if found.worst.total >= 2**28 else ("MiB", 2**20)
    table = Table(_("seconds by part"), "", "", _("memory by part"), unit, box=None, padding=(0, 2, 0, 0))
    for column in (1, 2, 4):
        table.columns[column].justify = "right"
    times = [(name, s) for name, s in found.time.parts.items() if s > 1e-6 * found.step_seconds]
    sizes = [*found.worst.parts.items(), (_("in all"), found.worst.total), (_("room for tensors"), found.usable)]
    for row in range(max(len(times), len(sizes))):
        name, seconds = times[row] if row < len(times) else ("", None)
        part, size = sizes[row] if row < len(sizes) else ("", None)
        share = "" if seconds is None else f"{seconds / found.step_seconds:.1%}"
        table.add_row(
            name,
            "" if seconds is None else f"{seconds:.4g}",
            share,
            part,
            "" if size is None else f"{size / size_of_unit:,.2f}",
        )
    console.print(table)
    for sentence in remarks(found):
        console.print(sentence, style="yellow", soft_wrap=True)


def tera(flops: float) -> str:
    """Operations a second, in 10¹²; of a CPU there are few."""
    return f"{flops / 1e12:.1f}" if flops >= 1e12 else f"{flops / 1e12:.2g}"


def remarks(found: Prediction) -> Iterator[str]:
    """What a reader of a prediction must know besides its figures."""
    if found.refused:
        yield _("It cannot run: {reason}.").format(reason=found.refused)
    if found.worst.total > found.usable:
        over = (found.worst.total - found.usable) / 2**30
        yield _("It does not fit: {over:.1f} GiB too much.").format(over=over)
    if found.warnings:
        yield _("Outside of what was calibrated: {what}.").format(what="; ".join(found.warnings))
