"""The loss scale: half-precision gradients are kept from vanishing by a factor that is as large as fits."""

from __future__ import annotations

from dataclasses import dataclass

GROWTH_INTERVAL = 2000


@dataclass
class LossScale:
    """What the loss is multiplied by before the backward, and gradients divided by after it.

    float16 has no numbers below 6e-8, so small gradients would be 0 (Micikevicius et al. 2018, §3.2). When gradients
    overflow, the step is skipped and the factor halved; after `interval` good steps it is doubled.
    """

    factor: float = 2.0**16
    good: int = 0
    interval: int = GROWTH_INTERVAL

    def heard(self, finite: bool) -> None:
        """Learn whether the gradients of a step were finite. Every rank hears the same."""
        self.good = self.good + 1 if finite else 0
        if not finite:
            self.factor /= 2
        elif self.good == self.interval:
            self.factor, self.good = self.factor * 2, 0
