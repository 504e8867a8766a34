"""`minipar plan`: the fastest layouts of a model on so many GPUs, and why others were refused."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

from rich.console import Console
from rich.table import Table

from minipar.commands import sizes as of
from minipar.commands.common import Json, clear_errors, write_text
from minipar.commands.options import option
from minipar.commands.report import facts, layout_facts, remarks, tera
from minipar.commands.sizes import CLUSTER, bench_of, model_of
from minipar.draw import landscape_svg, standalone
from minipar.plan.model import Model
from minipar.plan.predict import Prediction
from minipar.plan.search import Found, Refusal, landscape, search
from minipar.plan.work import Bench
from minipar.recompute import Recompute
from minipar.words import _, plural

Gpus = Annotated[int, option("How many GPUs.", CLUSTER, "N")]
Batch = Annotated[int, option("Samples of a step, over all replicas.", "Search", "N")]
Top = Annotated[int, option("How many layouts to find.", "Search", "N")]
Picture = Annotated[
    Path | None,
    option("Write a heat map of the fastest layout of every mesh there.", "Pictures", "FILE", "--landscape-svg"),
]


def plan_command(
    gpus: Gpus,
    batch: Batch,
    model: of.Name = None,
    layers: of.Layers = None,
    hidden: of.Hidden = None,
    heads: of.Heads = None,
    kv_heads: of.KvHeads = None,
    ffn: of.Ffn = None,
    vocab: of.Vocab = None,
    seq: of.Seq = None,
    llama: of.Llama = False,
    hardware: of.HardwareName = "a100-80gb",
    software: of.SoftwareName = None,
    top: Top = 10,
    landscape_file: Picture = None,
    as_json: Json = False,
) -> None:
    """Find the fastest layouts on so many GPUs: every mesh, schedule, micro-batch, recompute and ZeRO is considered."""
    with clear_errors():
        sizes = model_of(model, layers, hidden, heads, kv_heads, ffn, vocab, seq, llama)
        bench = bench_of(hardware, software)
        found = search(sizes, bench, gpus, batch, top=top)
        if landscape_file is not None:
            write_text(landscape_file, standalone(picture(sizes, bench, gpus, batch)))
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


def picture(model: Model, bench: Bench, gpus: int, batch: int) -> str:
    """The landscape as an SVG that brings its own colours."""
    cells = landscape(model, bench, gpus, batch)
    values = {(mesh.dp, mesh.pp, mesh.tp): None if isinstance(one, str) else one for mesh, one in cells.items()}
    seconds = {mesh: None if one is None else one.step_seconds for mesh, one in values.items()}
    reasons = {(mesh.dp, mesh.pp, mesh.tp): one for mesh, one in cells.items() if isinstance(one, str)}
    possible = {mesh: value for mesh, value in seconds.items() if value is not None}
    best = min(possible, key=lambda mesh: possible[mesh]) if possible else None
    title = _("The fastest layout of every mesh of {gpus}").format(gpus=plural("{count} GPU", "{count} GPUs", gpus))
    return landscape_svg(seconds, best, title, _("s a step"), reasons)


def show(found: Found, bench: Bench, gpus: int) -> None:
    """Print the layouts as a table, and below it what was refused."""
    console = Console(highlight=False)
    if found.layouts:
        console.print(ranking(found.layouts))
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


def ranking(layouts: Sequence[Prediction]) -> Table:
    """The layouts as a table, best first."""
    degrees, figures = ("dp", "pp", "tp"), (_("s a step"), "TFLOP/s", "MFU", "GiB")
    table = Table(*degrees, _("parts"), _("schedule"), _("saves by"), *figures, box=None, padding=(0, 2, 0, 0))
    for column in (*table.columns[:3], *table.columns[6:]):
        column.justify = "right"
    for one in layouts:
        layout = one.layout
        saves = [
            "SP" * layout.sequence_parallel,
            layout.recompute.value * (layout.recompute is not Recompute.NONE),
            f"ZeRO-{layout.zero}" * (layout.zero > 0),
        ]
        table.add_row(
            *map(str, (layout.dp, layout.pp, layout.tp)),
            f"{layout.micro_batches} × {layout.micro_batch}",
            layout.order or "–",
            ", ".join(filter(None, saves)) or "–",
            f"{one.step_seconds:.4g}",
            tera(one.flops_per_second),
            f"{one.mfu:.1%}",
            f"{one.worst.total / 2**30:.{1 if one.worst.total >= 2**30 else 3}f}",
        )
    return table


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
