"""`minipar plan`: the fastest layouts of a model on so many GPUs, and why others were refused."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from typing import Annotated, Any

from rich.console import Console
from rich.table import Table

from minipar.commands.common import Json, clear_errors
from minipar.commands.options import option
from minipar.commands.predict import facts, layout_facts, remarks
from minipar.commands.sizes import (
    CLUSTER,
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
from minipar.plan.search import Found, Refusal, search
from minipar.plan.time import Bench
from minipar.words import _, plural

Gpus = Annotated[int, option("How many GPUs.", CLUSTER, "N")]
Batch = Annotated[int, option("Samples of a step, over all replicas.", "Search", "N")]
Top = Annotated[int, option("How many layouts to find.", "Search", "N")]


def plan_command(
    gpus: Gpus,
    batch: Batch,
    model: Name = None,
    layers: Layers = None,
    hidden: Hidden = None,
    heads: Heads = None,
    kv_heads: KvHeads = None,
    ffn: Ffn = None,
    vocab: Vocab = None,
    seq: Seq = None,
    llama: Llama = False,
    hardware: HardwareName = "a100-80gb",
    software: SoftwareName = None,
    top: Top = 10,
    as_json: Json = False,
) -> None:
    """Find the fastest layouts on so many GPUs: every mesh, schedule, micro-batch, recompute and ZeRO is considered."""
    with clear_errors():
        sizes = model_of(model, layers, hidden, heads, kv_heads, ffn, vocab, seq, llama)
        bench = bench_of(hardware, software)
        found = search(sizes, bench, gpus, batch, top=top)
    if as_json:
        print(json.dumps(plan_facts(found, bench)))
        return
    show(found, bench, gpus)


def plan_facts(found: Found, bench: Bench) -> dict[str, Any]:
    """What `--json` prints of a search."""
    return {
        "layouts": [facts(one, bench) for one in found.layouts],
        "refused": [refusal_facts(one) for one in found.refused],
        "searched": found.searched,
        "simulated": found.simulated,
        "search_seconds": found.search_seconds,
    }


def refusal_facts(one: Refusal) -> dict[str, Any]:
    """A refusal as JSON: a mesh, and where it is one layout of it alone, that layout."""
    mesh = {"dp": one.mesh.dp, "pp": one.mesh.pp, "tp": one.mesh.tp}
    return {**mesh, "reason": one.reason, "layout": None if one.layout is None else layout_facts(one.layout)}


def show(found: Found, bench: Bench, gpus: int) -> None:
    """Print the layouts as a table, and below it what was refused."""
    console = Console(highlight=False)
    table = Table(
        *("dp", "pp", "tp", _("parts"), _("schedule"), _("saves by"), _("s a step"), "TFLOP/s", "MFU"),
        _("GiB"),
        box=None,
        padding=(0, 2, 0, 0),
    )
    for column in (0, 1, 2, 6, 7, 8, 9):
        table.columns[column].justify = "right"
    for one in found.layouts:
        layout = one.layout
        parts = str(layout).split(", ")
        saves = ", ".join(part for part in parts[2:] if not part.startswith(layout.schedule)) or "–"
        name = next((part for part in parts[2:] if part.startswith(layout.schedule)), "–")
        short = {"sequence parallel": "SP", "recompute selective": "selective", "recompute full": "full"}
        saves = ", ".join(short.get(part, part) for part in saves.split(", "))
        table.add_row(
            *map(str, (layout.dp, layout.pp, layout.tp)),
            f"{layout.micro_batches} × {layout.micro_batch}",
            name,
            saves,
            f"{one.step_seconds:.4g}",
            f"{one.flops_per_second / 1e12:.1f}",
            f"{one.mfu:.1%}",
            f"{one.worst.total / 2**30:.1f}",
        )
    if found.layouts:
        console.print(table)
    else:
        console.print(_("No layout fits."), style="yellow")
    looked = _("{searched:,} layouts of {gpus} considered, {simulated} simulated, in {seconds:.2f} s ({where}).")
    console.print(
        looked.format(
            searched=found.searched,
            gpus=plural("{count} GPU", "{count} GPUs", gpus),
            simulated=found.simulated,
            seconds=found.search_seconds,
            where=f"{bench.hardware.name}, {bench.software.name}",
        )
    )
    refused(console, found.refused)
    for sentence in dict.fromkeys(sentence for one in found.layouts for sentence in remarks(one)):
        console.print(sentence, style="yellow", soft_wrap=True)


def refused(console: Console, refusals: Sequence[Refusal]) -> None:
    """Print why meshes were refused, those of one reason together, and how many single layouts had no room."""
    singles = sum(one.layout is not None for one in refusals)
    whole = Counter(one.reason for one in refusals if one.layout is None)
    meshes = {reason: [one.mesh for one in refusals if one.reason == reason and one.layout is None] for reason in whole}
    if whole:
        console.print(_("Refused, whatever the schedule and the options:"))
    for reason, own in meshes.items():
        shown = ", ".join(f"{mesh.dp}×{mesh.pp}×{mesh.tp}" for mesh in own[:4]) + (" …" if len(own) > 4 else "")
        console.print(f"  {shown}: {reason}", soft_wrap=True)
    if singles:
        one, many = (
            "{count} layout that has no room might be faster.",
            "{count} layouts that have no room might be faster.",
        )
        console.print(plural(one, many, singles))
