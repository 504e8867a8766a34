"""`minipar predict`: the seconds and bytes of one layout, or of a file of layouts, with no rank started."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

from rich.console import Console
from rich.table import Table

from minipar.commands.common import Json, clear_errors
from minipar.commands.options import Dp, Pp, ScheduleName, SequenceParallel, Tp, Virtual, option
from minipar.commands.sizes import (
    Ffn,
    HardwareName,
    Heads,
    Hidden,
    KvHeads,
    Layers,
    Llama,
    Name,
    Seq,
    SoftwareName,
    Vocab,
    bench_of,
    model_of,
)
from minipar.pipeline.names import LOOPED
from minipar.plan.layout import Numbers
from minipar.plan.model import Model
from minipar.plan.predict import Prediction, predict
from minipar.plan.time import Bench
from minipar.recompute import Recompute
from minipar.words import _

PANEL = "Layout"
ZeroLevel = Annotated[
    int, option("What replicas shard: 0 nothing, 1 optimizer, 2 gradients too, 3 weights too.", PANEL, "N")
]
Batch = Annotated[int | None, option("Samples of a step, over all replicas.", PANEL, "N")]
MicroBatch = Annotated[int | None, option("Samples of a micro-batch; the fastest with room by default.", PANEL, "N")]
Recomputed = Annotated[Recompute, option("Activations to compute again in the backward.", PANEL)]
Layouts = Annotated[
    Path | None,
    option(
        "Predict each row of a CSV file with the columns model,nodes,dp,pp,tp,zero,mbs,grad_acc, as nanotron unless "
        "--software says otherwise, and print it with tok_s_gpu, gpu_mem_gb (GiB), fits and reason.",
        "Many layouts",
        "FILE",
    ),
]


def predict_command(
    model: Name = None,
    layers: Layers = None,
    hidden: Hidden = None,
    heads: Heads = None,
    kv_heads: KvHeads = None,
    ffn: Ffn = None,
    vocab: Vocab = None,
    seq: Seq = None,
    llama: Llama = False,
    dp: Dp = 1,
    pp: Pp = 1,
    tp: Tp = 1,
    batch: Batch = None,
    micro_batch: MicroBatch = None,
    schedule: ScheduleName = "1f1b",
    virtual: Virtual = None,
    recompute: Recomputed = Recompute.NONE,
    sequence_parallel: SequenceParallel = False,
    zero: ZeroLevel = 0,
    hardware: HardwareName = "a100-80gb",
    software: SoftwareName = None,
    layouts: Layouts = None,
    as_json: Json = False,
) -> None:
    """Predict the time and the memory of a step in this layout, by part, without starting a rank."""
    with clear_errors():
        if layouts is not None:
            from minipar.commands.many import print_many

            print_many(layouts, bench_of(hardware, software or "nanotron"), as_json)
            return
        sizes = model_of(model, layers, hidden, heads, kv_heads, ffn, vocab, seq, llama)
        bench = bench_of(hardware, software)
        asked = Numbers(dp, pp, tp, 1, 1, schedule, virtual or 1, sequence_parallel, recompute, zero)
        found = fastest(sizes, list(complete(asked, sizes, batch, micro_batch, virtual)), bench)
    if as_json:
        print(json.dumps(facts(found, bench)))
    else:
        show(found, bench)


def complete(
    asked: Numbers, model: Model, batch: int | None, micro_batch: int | None, virtual: int | None
) -> Iterator[Numbers]:
    """Every layout that the options leave open: sizes of micro-batches, and stages a rank where the schedule loops.

    Raises `ValueError` for a batch that cannot be cut so.
    """
    if batch is None:
        batch = asked.dp * (micro_batch or 1)
    if batch < 1 or asked.dp < 1 or batch % asked.dp:
        raise ValueError(f"a batch of {batch} samples is not divisible by dp={asked.dp}")
    own = batch // asked.dp
    sizes = [micro_batch] if micro_batch is not None else [size for size in range(1, own + 1) if own % size == 0]
    if micro_batch is not None and (micro_batch < 1 or own % micro_batch):
        raise ValueError(f"the {own} samples of a replica cannot be cut into micro-batches of {micro_batch}")
    virtuals = [virtual or 1]
    if asked.schedule in LOOPED and virtual is None and asked.pp > 1:
        even = [v for v in range(2, 9) if model.layers % (asked.pp * v) == 0]
        virtuals = even or [2]
    for size in sizes:
        for stages in virtuals:
            yield asked._replace(micro_batch=size, micro_batches=own // size, virtual=stages)


def fastest(model: Model, layouts: list[Numbers], bench: Bench) -> Prediction:
    """The fastest of these with room for its tensors; where none has, the one that needs least."""
    found = [predict(model, layout, bench) for layout in layouts]
    fitting = [one for one in found if one.fits]
    return min(fitting, key=lambda one: one.step_seconds) if fitting else min(found, key=lambda one: one.worst.total)


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
    speed = _("{seconds:.4g} s a step, {tokens:,.0f} tokens/s and {tflops:.1f} TFLOP/s a GPU, MFU {mfu:.1%}")
    console.print(
        speed.format(
            seconds=found.step_seconds,
            tokens=found.tokens_per_second,
            tflops=found.flops_per_second / 1e12,
            mfu=found.mfu,
        )
    )
    table = Table(_("seconds by part"), "", "", _("memory by part"), "GiB", box=None, padding=(0, 2, 0, 0))
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
            "" if size is None else f"{size / 2**30:.2f}",
        )
    console.print(table)
    for sentence in remarks(found):
        console.print(sentence, style="yellow", soft_wrap=True)


def remarks(found: Prediction) -> Iterator[str]:
    """What a reader of a prediction must know besides its figures."""
    if found.refused:
        yield _("It cannot run: {reason}.").format(reason=found.refused)
    if found.worst.total > found.usable:
        over = (found.worst.total - found.usable) / 2**30
        yield _("It does not fit: {over:.1f} GiB too much.").format(over=over)
    if found.warnings:
        yield _("Outside of what was calibrated: {what}.").format(what="; ".join(found.warnings))
