"""`minipar train` as the planner's software: what it holds, known tensor by tensor; its speeds come from a profile."""

from __future__ import annotations

from typing import TYPE_CHECKING

from minipar.plan.held import memory
from minipar.plan.model import Model
from minipar.plan.software import Range, Software
from minipar.plan.tensors import FLOAT, saved

if TYPE_CHECKING:
    from minipar.model import GPTConfig

MINIPAR = Software(
    "minipar",
    "minipar train in float32: memory from its code, speeds to be calibrated on the machine it runs on",
    saved,
    Range(ranks=(0, 0), hidden=(0, 0), tp=(0, 0), pp=(0, 0), tokens=(0, 0)),  # on nothing, before a profile
    matmul=1.0,
    passes=1.0,
    update=28.0,  # AdamW reads weight, gradient and both moments, and writes weight and moments: 7 numbers
    feature=FLOAT,
    weight=FLOAT,
    gradient=FLOAT,
    optimizer=2 * FLOAT,
    logit=2 * FLOAT,  # the logits, shifted by the largest, and their exponentials
    reserve=0.0,
    summed=FLOAT,
    logits=2 * FLOAT,
    by_count=True,
    most_zero=1,
    holds=memory,
)
"""`minipar train`, with AdamW in float32.

Only its memory is right as it stands. Its speeds are those of a machine without any loss, with nothing hidden behind
anything: `minipar profile` measures them (`minipar.plan.machine`).
"""


def model_of(config: GPTConfig) -> Model:
    """The sizes of `minipar.model.GPT`."""
    return Model(
        config.layers,
        config.hidden,
        config.heads,
        config.vocabulary,
        config.sequence,
        config.kv_heads or config.heads,
        gated=config.gated,
        tied=config.tied,
        qkv_bias=False,
    )
