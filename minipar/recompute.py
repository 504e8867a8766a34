"""Which activations are dropped after the forward and computed again in the backward."""

from __future__ import annotations

from enum import Enum


class Recompute(Enum):
    """Which activations are dropped after the forward and computed again in the backward (Korthikanti et al. 2022, §5).

    SELECTIVE: those between queries, keys, values and what the heads found, large and cheap to compute. FULL: all
    of a block but its input; its forward then communicates again (but for its last all-reduce, which nothing needs).
    """

    NONE = "none"
    SELECTIVE = "selective"
    FULL = "full"
