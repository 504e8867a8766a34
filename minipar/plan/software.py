"""How a training program uses a cluster: what it keeps, what it hides, and constants fitted to its measurements."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from minipar.plan.activations import Saved
from minipar.plan.hardware import GIB, Hardware
from minipar.plan.layout import Numbers
from minipar.plan.model import Model

if TYPE_CHECKING:
    from minipar.plan.memory import Memory

COLLECTIVES = 10
"""All-gathers and reduce-scatters of a block under sequence parallelism (Korthikanti et al. 2022, §4.2.2)."""


@dataclass(frozen=True)
class Range:
    """What a set of constants was calibrated on: the least and the most of each; predictions beyond it say so."""

    ranks: tuple[int, int]
    hidden: tuple[int, int]
    tp: tuple[int, int]
    pp: tuple[int, int]
    tokens: tuple[int, int]


@dataclass(frozen=True, eq=False)
class Software:
    """A training program of one generation. Where a constant is fitted, `fit` (in the tests) does so on `source` alone.

    What it keeps, in bytes:

    - saved: what a block keeps for its backward. feature, weight, gradient, optimizer: of one feature, and of one
      weight for itself, its gradients and its optimizer states. logit: of one logit. reserve: of a GPU's memory that
      is not for tensors: the CUDA context, NCCL's buffers, what lies between blocks of the allocator.
    - holds: where it is known tensor by tensor what each pipeline rank holds at its worst moment, this says it, in
      place of the sums that `minipar.plan.memory` makes of these constants.

    How it computes:

    - matmul: share of a GPU's peak that its largest matrix products reach. passes: how often, for each byte that a
      block's forward writes, a byte goes through memory outside of matrix products; twice as often in the backward.
      scores: share of attention's scores that is computed, 0.5 where the masked half is skipped. logits: bytes of each
      logit that pass through memory so in either direction. update: bytes through memory for each weight that the
      optimizer steps. rest: seconds of a step besides.
    - launch: seconds that the host takes to start a block's forward and backward. ahead: it runs ahead of the device,
      so that no block is faster than that; on a CPU both are one, and it is added. ends: seconds that the host takes
      for a micro-batch's embedding, head and loss.
    - latency: seconds that each of a tensor group's ring messages waits where the group spans nodes, and everywhere
      where the host does not run ahead.
      waiting, skew: where the hosts of a pipeline over nodes wait for messages they cannot run ahead. Then a block's
      start takes `waiting` longer, and each ring message of its tensor group `skew`.
    - even: stages have the same number of blocks where that divides; else they are balanced by cost. after_blocks:
      into how many pieces the norm, the head and the loss can then be cut. by_count: only the blocks are counted, and
      stages differ by one at most. most_zero: the highest level of ZeRO that it does.

    What links do:

    - tensor_overlap: share of a backward's tensor messages that its products hide. data_overlap, zero_overlap: share
      of the last backward that hides the gradients' sums, without ZeRO and with it. summed: bytes of a gradient when it
      is summed. pieces: ring passes that ZeRO makes for each block; each has a latency of its own. ways: how many of
      its GPUs' ways out of a node a tensor group that spans nodes uses at once.
    - stalled, growth: seconds that a message between stages waits at 512 GPUs, and the power of their number with which
      that grows: stragglers of a large cluster. It holds for pipelines over nodes.
    - squeezed: how many times longer a step takes where memory is full and the allocator frees and asks again.
    """

    name: str
    source: str
    saved: Callable[[Model], tuple[Saved, ...]]
    calibrated: Range
    matmul: float
    passes: float
    update: float
    feature: float = 2.0
    weight: float = 2.0
    gradient: float = 4.0
    optimizer: float = 12.0
    logit: float = 10.0
    reserve: float = 4 * GIB
    scores: float = 1.0
    logits: float = 10.0
    rest: float = 0.0
    launch: float = 0.0
    ahead: bool = True
    ends: float = 0.0
    latency: float = 0.0
    waiting: float = 0.0
    skew: float = 0.0
    even: bool = True
    by_count: bool = False
    after_blocks: int = 3
    most_zero: int = 3
    tensor_overlap: float = 0.0
    data_overlap: float = 0.0
    zero_overlap: float = 0.0
    summed: float = 4.0
    pieces: float = 0.0
    ways: float = 1.0
    stalled: float = 0.0
    growth: float = 1.0
    squeezed: float = 1.0
    holds: Callable[[Model, Numbers], tuple[Memory, ...]] | None = None

    def host(self, layout: Numbers, hardware: Hardware) -> float:
        """Seconds that the host needs at least to start a block's forward and backward."""
        messages = COLLECTIVES * (layout.tp - 1)
        seconds = self.launch
        seconds += messages * self.wait(layout.tp, hardware)
        if layout.pp > 1 and layout.tp > 1 and layout.ranks > hardware.per_node:
            seconds += self.waiting + messages * self.skew
        return seconds

    def wait(self, tp: int, hardware: Hardware) -> float:
        """Seconds that a ring message between so many tensor ranks waits besides what the link takes."""
        return 0.0 if self.ahead and tp <= hardware.per_node else self.latency

    def stall(self, layout: Numbers, hardware: Hardware) -> float:
        """Seconds that a message between stages waits besides, for the stragglers of a large cluster."""
        return self.stalled * (layout.ranks / 512) ** self.growth if layout.ranks > hardware.per_node else 0.0

    def refuses(self, model: Model, layout: Numbers) -> str | None:
        """Why this software cannot run a layout that others can; None where it can.

        Where stages are balanced by cost, a head that outweighs several blocks takes their ranks' share, but it is one
        piece: with `after_blocks` pieces behind the blocks, more ranks than those would have nothing.
        """
        if layout.zero > self.most_zero:
            return f"{self.name} does ZeRO-{self.most_zero} at most"
        if self.even:
            return None
        head = model.vocabulary_weights() / model.block_weights()
        left = layout.stages * head / (model.layers + head)
        if left > self.after_blocks:
            return (
                f"{self.name} balances stages by cost: the head weighs {head:.1f} blocks, so the {model.layers} blocks "
                f"would leave {left:.1f} of {layout.stages} stages to it, and it is cut in {self.after_blocks} at most"
            )
        return None

    def beyond(self, model: Model, layout: Numbers) -> list[str]:
        """In what a prediction is outside of what the constants were calibrated on; empty where it is not."""
        tokens = layout.micro_batch * model.sequence
        asked = {"ranks": layout.ranks, "hidden": model.hidden, "tp": layout.tp, "pp": layout.pp, "tokens": tokens}
        found = []
        for name, value in asked.items():
            low, high = getattr(self.calibrated, name)
            if not low <= value <= high:
                label = "tokens of a micro-batch" if name == "tokens" else name
                found.append(f"{label} {value:,} (calibrated on {low:,} to {high:,})")
        return found
