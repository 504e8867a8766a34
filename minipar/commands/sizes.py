"""The model and the cluster that a command's options say, for the commands that plan."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

from minipar.commands.options import option
from minipar.plan.generations import SOFTWARE, software_by_name, usual_software
from minipar.plan.hardware import HARDWARE, hardware_by_name
from minipar.plan.machine import THIS_MACHINE, load, usual_path
from minipar.plan.model import MODELS, Model, llama, model_by_name
from minipar.plan.work import Bench

MODEL, CLUSTER = "Model", "Cluster"
Name = Annotated[str | None, option(f"One of {', '.join(MODELS)}. Sizes below change it.", MODEL, "NAME", "--model")]
Layers = Annotated[int | None, option("Blocks.", MODEL, "N")]
Hidden = Annotated[int | None, option("Features.", MODEL, "N")]
Heads = Annotated[int | None, option("Heads of queries.", MODEL, "N")]
KvHeads = Annotated[int | None, option("Heads of keys and values; as many by default.", MODEL, "N")]
Ffn = Annotated[int | None, option("Width of the feed-forward; 4 times the features by default.", MODEL, "N")]
Vocab = Annotated[int | None, option("Tokens of the vocabulary.", MODEL, "N")]
Seq = Annotated[int | None, option("Tokens of a sequence.", MODEL, "N")]
Llama = Annotated[
    bool, option("With a gate, no biases and no learned positions, as Llama; else as GPT.", MODEL, name="--llama")
]
HardwareName = Annotated[
    str,
    option(
        f"One of {', '.join(HARDWARE)}; {THIS_MACHINE}, after `minipar profile`; or a file that it wrote (.json).",
        CLUSTER,
        "NAME",
        "--hardware",
    ),
]
SoftwareName = Annotated[
    str | None,
    option(
        f"Whose constants: one of {', '.join(SOFTWARE)}; megatron-2022 on A100, megatron-core on others and "
        "minipar's own on a profiled machine by default.",
        CLUSTER,
        "NAME",
        "--software",
    ),
]


def model_of(
    name: str | None,
    layers: int | None,
    hidden: int | None,
    heads: int | None,
    kv_heads: int | None,
    ffn: int | None,
    vocab: int | None,
    seq: int | None,
    as_llama: bool,
) -> Model:
    """The model with this name or of these sizes; raises `ValueError` where they say too little or do not fit."""
    given: dict[str, Any] = {"layers": layers, "hidden": hidden, "heads": heads, "vocabulary": vocab, "sequence": seq}
    given = {key: size for key, size in {**given, "kv_heads": kv_heads, "ffn": ffn}.items() if size is not None}
    if name is not None:
        return replace(model_by_name(name), **given)
    if missing := [f"--{key}" for key in ("layers", "hidden", "heads") if key not in given]:
        raise ValueError(f"{', '.join(missing)} missing: name a --model, or give its sizes")
    sizes = {"vocabulary": 51200, "sequence": 2048, "kv_heads": 0, "ffn": 0, **given}
    return llama(**sizes) if as_llama else Model(**sizes)


def bench_of(hardware: str, software: str | None, usual: str | None = None) -> Bench:
    """The hardware and the software with these names; raises `ValueError` for a name that is none.

    usual: the software where none is said; without it the hardware's own.
    """
    if hardware == THIS_MACHINE or hardware.endswith(".json"):
        if software is not None:
            raise ValueError(f"a profiled machine has its own software; leave out --software {software}")
        return load(usual_path() if hardware == THIS_MACHINE else Path(hardware)).bench
    found, name = hardware_by_name(hardware), software or usual
    return Bench(found, usual_software(found) if name is None else software_by_name(name))
