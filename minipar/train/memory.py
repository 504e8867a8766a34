"""How much memory this process has needed."""

from __future__ import annotations

import resource
import sys

import torch


def peak_memory(device: torch.device) -> int:
    """Bytes held at most so far: tensors on a GPU, or on a CPU the whole process (its resident set)."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device)
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
