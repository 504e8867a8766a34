"""Training programs by name, with constants fitted to what was published of them: one set each, none for a row.

The fits are in `tests/minipar/plan/refit.py`, and the tests hold the constants of Megatron against them.
"""

from __future__ import annotations

from collections.abc import Mapping

from minipar.plan.activations import flash, gathered, unfused
from minipar.plan.hardware import A100, GIB, Hardware
from minipar.plan.software import Range, Software

MEGATRON_2021 = Software(
    "megatron-2021",
    "Narayanan et al. 2021, Tables 1 and 2 (PTD-P); sizes of micro-batches from Megatron-LM, examples/sc21",
    unfused,
    Range(ranks=(32, 2520), hidden=(2304, 20480), tp=(1, 8), pp=(1, 35), tokens=(2048, 32768)),
    matmul=0.695,
    passes=2.12,
    update=80.0,
    data_overlap=1.0,
    summed=2.0,
)
MEGATRON_2022 = Software(
    "megatron-2022",
    "Korthikanti et al. 2022, Tables 4 and 5",
    unfused,
    Range(ranks=(8, 280), hidden=(6144, 20480), tp=(8, 8), pp=(1, 35), tokens=(2048, 8192)),
    matmul=0.760,
    passes=2.24,
    update=80.0,
    tensor_overlap=0.41,
    data_overlap=1.0,
    summed=2.0,
)
MEGATRON_CORE = Software(
    "megatron-core",
    "NVIDIA/Megatron-LM, table of models on H100 (2024)",
    flash,
    Range(ranks=(48, 6144), hidden=(2048, 18432), tp=(1, 8), pp=(1, 16), tokens=(4096, 4096)),
    matmul=0.818,
    passes=6.11,
    update=80.0,
    scores=0.5,
    tensor_overlap=0.47,
    data_overlap=1.0,
    zero_overlap=1.0,
    summed=2.0,
)
NANOTRON = Software(
    "nanotron",
    "Ultra-Scale Playbook (Hugging Face 2025), its grid of measured runs of 1B and 8B models on H100",
    gathered,
    Range(ranks=(8, 512), hidden=(2048, 4096), tp=(1, 32), pp=(1, 32), tokens=(4096, 524288)),
    matmul=0.623,
    passes=4.57,
    update=46.0,
    gradient=6.0,  # in bfloat16, and its sum in float32
    reserve=8 * GIB,
    scores=0.5,
    logits=2.27,
    rest=0.0297,
    launch=4.47e-3,
    latency=34.8e-6,
    waiting=1.25e-3,
    skew=284e-6,
    even=False,
    tensor_overlap=0.3,
    data_overlap=0.362,
    pieces=2.31,
    ways=2.81,
    stalled=0.533,
    growth=6.4,
    squeezed=2.0,
)

SOFTWARE: Mapping[str, Software] = {one.name: one for one in (MEGATRON_2021, MEGATRON_2022, MEGATRON_CORE, NANOTRON)}


def software_by_name(name: str) -> Software:
    """The software with this name; `ValueError` that lists those there are."""
    if name.lower() not in SOFTWARE:
        raise ValueError(f"software {name!r} is not one of {', '.join(SOFTWARE)}")
    return SOFTWARE[name.lower()]


def usual_software(hardware: Hardware) -> Software:
    """The latest whose constants were fitted on such GPUs; on those of a later kind than H100, H100's."""
    return MEGATRON_2022 if hardware.flops == A100.flops else MEGATRON_CORE
