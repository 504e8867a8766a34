"""How much arithmetic a token takes, and what share of the GPUs' peak a training reaches (MFU)."""

from __future__ import annotations

import re
from typing import NamedTuple

import torch

from minipar.model import GPTConfig


def training_flops(config: GPTConfig, sequence: int | None = None) -> int:
    """Floating-point operations of forward and backward for one token, in sequences of this length (default: longest).

    Matrix multiplications only, two operations a multiply-add; the backward takes twice the forward, and what is
    recomputed does not count. Attention's scores count in full, the masked half too. Looking up an embedding is free.
    It is Chowdhery et al. 2022, appendix B: 6N + 12·layers·heads·size·sequence, where N counts the matrices' weights.
    With as many heads of keys as of queries and no gate it is Narayanan et al. 2021, appendix, without the recompute:
    72·layers·hidden²·(1 + sequence/(6·hidden) + vocabulary/(12·layers·hidden)).

    Raises `ValueError` for a model that cannot be, and a sequence that it has no positions for.
    """
    config.check(1)
    sequence = config.sequence if sequence is None else sequence
    if not 1 <= sequence <= config.sequence:
        raise ValueError(f"sequence={sequence}; the model takes 1 to {config.sequence} tokens")
    hidden, kv_heads = config.hidden, config.kv_heads or config.heads
    attention = hidden * (hidden + 2 * kv_heads * (hidden // config.heads)) + hidden * hidden  # qkv, out
    scores = 2 * hidden * sequence  # queries by keys, shares by values: heads · size = hidden
    feed_forward = (3 if config.gated else 2) * hidden * 4 * hidden
    multiply_adds = config.layers * (attention + scores + feed_forward) + hidden * config.vocabulary
    return 3 * 2 * multiply_adds


class Peak(NamedTuple):
    """Dense peaks of a GPU in 10¹² operations a second; None where it has no tensor cores for a type."""

    fp16: float
    bf16: float | None
    tf32: float | None
    fp32: float


# NVIDIA's data sheets and white papers, at boost clock, with float32 sums, halved where they give sparse peaks only:
# Tesla V100 and V100S data sheets; A100 data sheet (40 and 80 GB, SXM and PCIe alike); H100 white paper;
# H200 data sheet; L4 and L40S data sheets; Ada white paper, appendix A; Blackwell data sheet (HGX).
PEAKS = {
    "v100 sxm2": Peak(125, None, None, 15.7),
    "v100 pcie": Peak(112, None, None, 14),
    "v100s pcie": Peak(130, None, None, 16.4),
    "a100 sxm4": Peak(312, 312, 156, 19.5),
    "a100 pcie": Peak(312, 312, 156, 19.5),
    "h100": Peak(989.4, 989.4, 494.7, 66.9),  # the driver's name of the SXM module
    "h100 pcie": Peak(756, 756, 378, 51.2),
    "h200": Peak(989.4, 989.4, 494.7, 66.9),
    "l4": Peak(121, 121, 60, 30.3),
    "l40s": Peak(362.05, 362.05, 183, 91.6),
    "rtx 4090": Peak(165.2, 165.2, 82.6, 82.6),
    "b200": Peak(2250, 2250, 1100, 75),
}
_BRAND_OR_MEMORY = re.compile(r"\b(nvidia|tesla|geforce|\d+gb|hbm3e?)\b")


def peak_of(name: str, dtype: torch.dtype, tf32: bool = False) -> float | None:
    """Dense peak in operations a second of a GPU with this name; None where it is not known.

    tf32: float32 multiplies on tensor cores as TF32, where the GPU has them.
    """
    peak = PEAKS.get(_model(name))
    if peak is None:
        return None
    float32 = peak.tf32 if tf32 and peak.tf32 is not None else peak.fp32
    tera = {torch.float16: peak.fp16, torch.bfloat16: peak.bf16, torch.float32: float32}.get(dtype)
    return None if tera is None else tera * 1e12


def _model(name: str) -> str:
    """A GPU's name without brand and memory. The rest counts: a laptop's RTX 4090, a slice of an H100 are others."""
    return " ".join(_BRAND_OR_MEMORY.sub(" ", name.lower().replace("-", " ")).split())


def peak_flops(device: torch.device, dtype: torch.dtype) -> float | None:
    """Dense peak in operations a second of matrix multiplications of this type; None where not known, as on a CPU.

    float32 is TF32 where PyTorch is told to use it (``torch.set_float32_matmul_precision("high")``).
    """
    return peak_of(torch.cuda.get_device_name(device), dtype, _tf32()) if device.type == "cuda" else None


def _tf32() -> bool:
    # From PyTorch 2.9 on a program may set either name, and reading the older one may then raise.
    precision = getattr(torch.backends.cuda.matmul, "fp32_precision", None)
    return torch.backends.cuda.matmul.allow_tf32 if precision is None else bool(precision == "tf32")


def mfu(
    tokens_per_second: float, config: GPTConfig, device: torch.device, dtype: torch.dtype, ranks: int
) -> float | None:
    """Model FLOPs utilization: the share of the peak of `ranks` such devices that so many tokens a second take.

    tokens_per_second: over all ranks, of which each has a device of its own. dtype: what the model computes in.
    None where the peak is not known (Chowdhery et al. 2022, §4.1).
    """
    if ranks < 1:
        raise ValueError(f"ranks={ranks}; it must be at least 1")
    peak = peak_flops(device, dtype)
    return None if peak is None else tokens_per_second * training_flops(config) / (peak * ranks)
