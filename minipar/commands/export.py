"""`minipar export`: the weights of a checkpoint in one file, as the unsplit model has them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from minipar.commands.common import Json, clear_errors
from minipar.words import _


def export_command(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Where a training saved its checkpoints.")],
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The safetensors file to write.")],
    step: Annotated[
        int | None, typer.Option(metavar="N", help="Which checkpoint, by its step; the newest if left out.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Join the weights of a checkpoint, however they were split, into one safetensors file for the unsplit model."""
    from minipar.train.shards import export, metadata, whole_config

    with clear_errors():
        export(folder, file, step)
        exported, config, size = int(metadata(file)["step"]), whole_config(file), file.stat().st_size
    if as_json:
        print(json.dumps({"file": str(file), "step": exported, "bytes": size, "config": config}))
        return
    sentence = _("{file}: the whole weights of step {step}, {size:.3g} MiB.")
    Console().print(sentence.format(file=file, step=exported, size=size / 2**20), markup=False, soft_wrap=True)
