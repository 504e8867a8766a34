"""`minipar profile`: measure a model's layers, steps and links here, so that plans are for this machine."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import torch.distributed as dist
from rich.console import Console
from rich.table import Table

from minipar.commands.common import Json, clear_errors
from minipar.commands.options import option
from minipar.commands.train import PRESETS, config_of
from minipar.plan.machine import Machine, save, usual_path
from minipar.plan.profile import SIZES, predicted, profile
from minipar.plan.time import step_time
from minipar.words import _

MODEL = "Model"
Preset = Annotated[str, option(f"Whose layers: {', '.join(PRESETS)}.", MODEL, "NAME")]
Hidden = Annotated[int | None, option("Features, in place of the preset's.", MODEL, "N")]
Heads = Annotated[int | None, option("Heads, in place of the preset's.", MODEL, "N")]
Sequence = Annotated[int | None, option("Tokens of a sample, in place of the preset's.", MODEL, "N")]
Ranks = Annotated[int, option("How many measure at once: as many as will train here.", "Machine", "N")]
Largest = Annotated[int, option("Samples of the largest micro-batch: 1, 2, 4 and so on up to it.", "Machine", "N")]
Out = Annotated[
    Path | None, option("Write it there, for --hardware FILE, and not as --hardware this-machine.", "Machine", "FILE")
]


def profile_command(
    preset: Preset = "demo",
    hidden: Hidden = None,
    heads: Heads = None,
    sequence: Sequence = None,
    ranks: Ranks = 2,
    largest: Largest = SIZES[-1],
    out: Out = None,
    as_json: Json = False,
) -> None:
    """Measure a model's layers, steps and links on this machine, and fit the planner's constants to them."""
    console = Console(highlight=False)
    path = usual_path() if out is None else out
    with clear_errors():
        if largest < 1:
            raise ValueError(f"largest={largest}; a micro-batch has at least 1 sample")
        config = config_of(preset, hidden, None, heads, sequence, tied=False, dropout=0.0)
        sizes = [2**power for power in range(largest.bit_length())]
        progress = Console(stderr=True, quiet=as_json)
        found = profile(config, ranks, sizes, notice=lambda what: progress.print(f"{what} …", style="dim"))
        if dist.is_initialized() and dist.get_rank() > 0:
            return  # of torchrun's ranks one speaks for all
        save(found, path)
    if as_json:
        print(json.dumps(facts(found, path)))
        return
    show(console, found)
    name = "this-machine" if out is None else out
    console.print(_("Plan for it with --hardware {name}.").format(name=name), soft_wrap=True)


def facts(machine: Machine, path: Path) -> dict[str, object]:
    """What `--json` prints: the machine, its constants, and each measured time beside what they predict."""
    bench, hardware = machine.bench, machine.hardware
    return {
        "file": str(path),
        "flops_per_second": hardware.flops,
        "memory_bytes": hardware.memory,
        "bandwidth_bytes_per_second": hardware.bandwidth,
        "link": {"alpha_seconds": hardware.inside.alpha, "beta_seconds_per_byte": hardware.inside.beta},
        "constants": machine.constants,
        "layers": [
            {
                "layer": layer.name,
                "hidden": layer.model.hidden,
                "tp": layer.tp,
                "micro_batch": layer.micro_batch,
                "forward_seconds": layer.forward,
                "backward_seconds": layer.backward,
                "input_gradient_seconds": layer.inputs,
                "weight_gradient_seconds": layer.weights,
                "kept_bytes": layer.kept,
                "predicted_seconds": sum(predicted(layer, bench)),
            }
            for layer in machine.layers
        ],
        "steps": [
            {
                "hidden": one.model.hidden,
                "layout": str(one.layout),
                "seconds": one.seconds,
                "predicted_seconds": step_time(one.model, one.layout, bench).total,
            }
            for one in machine.steps
        ],
    }


def show(console: Console, machine: Machine) -> None:
    """Print what each layer costs, with the constants' prediction beside it, and whole steps below."""
    bench = machine.bench
    table = Table(
        *(_("layer"), "hidden", "tp", _("samples"), "F", "B", "I", "W", _("predicted F + B"), _("kept MiB")),
        title=machine.hardware.source,
        caption=_(
            "ms of a micro-batch: F forward, B backward, and in two parts I, the gradient of what went in, and W, that "
            "of the weights. The ends are the embedding, the head and the loss."
        ),
        box=None,
        padding=(0, 2, 0, 0),
    )
    for column in table.columns[1:]:
        column.justify = "right"
    for layer in machine.layers:
        times = (layer.forward, layer.backward, layer.inputs, layer.weights)
        table.add_row(
            _("block") if layer.name == "block" else _("ends"),
            *map(str, (layer.model.hidden, layer.tp, layer.micro_batch)),
            *(f"{seconds * 1e3:.2f}" for seconds in times),
            " + ".join(f"{seconds * 1e3:.2f}" for seconds in predicted(layer, bench)),
            f"{layer.kept / 2**20:.2f}",
        )
    console.print(table)
    whole = Table(_("whole steps of two blocks"), "hidden", _("ms"), _("predicted"), box=None, padding=(0, 2, 0, 0))
    for one in machine.steps:
        guess = step_time(one.model, one.layout, bench).total
        whole.add_row(str(one.layout), str(one.model.hidden), f"{one.seconds * 1e3:.1f}", f"{guess * 1e3:.1f}")
    console.print(whole)
