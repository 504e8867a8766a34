"""A whole that is known by its parts."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Parts:
    """Numbers of one unit by name; they add up to `total`."""

    @property
    def parts(self) -> dict[str, float]:
        """Each part by its name, in order."""
        return dict(vars(self))

    @property
    def total(self) -> float:
        """All parts."""
        return sum(self.parts.values())
