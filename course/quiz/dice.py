"""Chance that is the same on every machine and in every Python: numbers drawn from a seed and a name by SHA-256."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")


class Dice:
    """Throws that follow from `seed` and `name` alone. (Python's `random` may shuffle in another way one day.)"""

    def __init__(self, seed: int, name: str) -> None:
        self._from, self._throws = f"{seed}/{name}/", 0

    def below(self, count: int) -> int:
        """A whole number from 0 to `count` − 1, each as likely as the others."""
        if not 1 <= count <= 2**64:
            raise ValueError(f"count={count}; there must be 1 to 2⁶⁴ sides")
        while True:
            digest = hashlib.sha256(f"{self._from}{self._throws}".encode()).digest()
            self._throws += 1
            thrown = int.from_bytes(digest[:8], "big")
            if thrown < 2**64 // count * count:  # the rest would come up a little more often
                return thrown % count

    def between(self, least: int, most: int) -> int:
        """A whole number from `least` to `most`, both included."""
        return least + self.below(most - least + 1)

    def pick(self, options: Sequence[T]) -> T:
        """One of the options."""
        return options[self.below(len(options))]

    def shuffled(self, items: Sequence[T]) -> list[T]:
        """The items in another order (Fisher and Yates)."""
        mixed = list(items)
        for last in range(len(mixed) - 1, 0, -1):
            other = self.below(last + 1)
            mixed[last], mixed[other] = mixed[other], mixed[last]
        return mixed
