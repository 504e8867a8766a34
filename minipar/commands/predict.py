"""`minipar predict`: the seconds and bytes of one layout, or of a file of layouts, with no rank started."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

from minipar.commands import sizes as of
from minipar.commands.common import Json, clear_errors, write_text
from minipar.commands.options import Dp, Pp, ScheduleName, SequenceParallel, Tp, Virtual, option
from minipar.commands.report import facts, show
from minipar.commands.sizes import bench_of, model_of
from minipar.draw import memory_svg, seconds_svg, standalone
from minipar.pipeline.names import LOOPED
from minipar.plan.layout import Numbers
from minipar.plan.model import Model
from minipar.plan.predict import Prediction, predict
from minipar.plan.work import Bench
from minipar.recompute import Recompute

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

MemoryPicture = Annotated[
    Path | None, option("Write a picture of each pipeline rank's memory there.", "Pictures", "FILE", "--memory-svg")
]
SecondsPicture = Annotated[
    Path | None, option("Write a picture of the step's seconds there.", "Pictures", "FILE", "--seconds-svg")
]


def predict_command(
    model: of.Name = None,
    layers: of.Layers = None,
    hidden: of.Hidden = None,
    heads: of.Heads = None,
    kv_heads: of.KvHeads = None,
    ffn: of.Ffn = None,
    vocab: of.Vocab = None,
    seq: of.Seq = None,
    llama: of.Llama = False,
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
    hardware: of.HardwareName = "a100-80gb",
    software: of.SoftwareName = None,
    layouts: Layouts = None,
    memory_file: MemoryPicture = None,
    seconds_file: SecondsPicture = None,
    as_json: Json = False,
) -> None:
    """Predict the time and the memory of a step in this layout, by part, without starting a rank."""
    with clear_errors():
        if layouts is not None:
            from minipar.commands.many import print_many

            print_many(layouts, bench_of(hardware, software, usual="nanotron"), as_json)
            return
        sizes = model_of(model, layers, hidden, heads, kv_heads, ffn, vocab, seq, llama)
        bench = bench_of(hardware, software)
        asked = Numbers(dp, pp, tp, 1, 1, schedule, virtual or 1, sequence_parallel, recompute, zero)
        found = fastest(sizes, list(complete(asked, sizes, batch, micro_batch, virtual)), bench)
        draw(found, bench, memory_file, seconds_file)
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


def draw(found: Prediction, bench: Bench, memory_file: Path | None, seconds_file: Path | None) -> None:
    """Write the pictures that were asked for; raises `ValueError` for a file that cannot be written."""
    bars, title = [("", found)], str(found.layout)
    if memory_file is not None:
        picture = memory_svg(bars, title, by_rank=True, whole=bench.hardware.memory)
        write_text(memory_file, standalone(picture))
    if seconds_file is not None:
        write_text(seconds_file, standalone(seconds_svg(bars, title)))
