"""What a landscape of layouts contains: the value of each mesh of so many GPUs, or why it has none, and the best."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from minipar.draw.frame import figure, percent
from minipar.words import _

Mesh = tuple[int, int, int]
"""Data, pipeline and tensor ranks."""


def degrees(mesh: Mesh) -> str:
    """A mesh in words."""
    return "dp={} × pp={} × tp={}".format(*mesh)


@dataclass(frozen=True)
class Terrain:
    """Each mesh's value in `unit`, None where it is refused, and the best of them, None where all are.

    Less is better where the best has the least of all. Raises `ValueError` for a value that is not a finite number of
    at least 0, for meshes that share a place, and for a best that has no value or neither the least nor the most.
    """

    cells: Mapping[Mesh, float | None]
    best: Mesh | None
    unit: str
    reasons: Mapping[Mesh, str]

    def __post_init__(self) -> None:
        """Refuse what cannot be drawn or compared."""
        places: dict[tuple[int, int], Mesh] = {}
        for mesh, value in self.cells.items():
            if value is not None and not 0 <= value < math.inf:
                raise ValueError(f"the value of {degrees(mesh)} is {value}; it must be a finite number of at least 0")
            if (other := places.setdefault(mesh[1:], mesh)) != mesh:
                raise ValueError(f"{degrees(other)} and {degrees(mesh)} are of different numbers of GPUs; draw one")
        if self.best is None:
            if self.values:
                raise ValueError("best is None, but some meshes have a value; name the one that is best")
        elif self.best not in self.values:
            raise ValueError(f"the best, {degrees(self.best)}, has no value; name a mesh that has one")
        elif self.values[self.best] not in (min(self.values.values()), max(self.values.values())):
            raise ValueError(
                f"the best, {degrees(self.best)}, has neither the least nor the most: {self.number(self.best)}"
            )

    @cached_property
    def values(self) -> dict[Mesh, float]:
        """Of the meshes that are not refused."""
        return {mesh: value for mesh, value in self.cells.items() if value is not None}

    def speed(self, mesh: Mesh) -> float:
        """How fast a mesh with a value is, as a share of the best: 2 s a step are half where the best takes 1 s."""
        values = self.values
        value, best = values[mesh], max(values.values()) if self.best is None else values[self.best]
        low, high = sorted((value, best))
        return low / high if high else 1.0

    @cached_property
    def axes(self) -> tuple[list[int], list[int]]:
        """The degrees pp and tp to draw: not those all of whose meshes are refused, unless all are."""
        meshes = self.values or self.cells
        return sorted({pp for _dp, pp, _tp in meshes}), sorted({tp for _dp, _pp, tp in meshes})

    @property
    def left_out(self) -> str:
        """The degrees that are not drawn, in words."""
        rows, columns = self.axes
        pp = sorted({mesh[1] for mesh in self.cells} - set(rows))
        tp = sorted({mesh[2] for mesh in self.cells} - set(columns))
        names = [f"{name}={', '.join(map(str, of))}" for name, of in (("pp", pp), ("tp", tp)) if of]
        return _("not drawn, as all are refused: {degrees}").format(degrees="; ".join(names)) if names else ""

    def number(self, mesh: Mesh) -> str:
        """A value with its unit."""
        return f"{figure(self.values[mesh])} {self.unit}"

    @property
    def finding(self) -> str:
        """The best, or that there is none."""
        if self.best is None:
            return _("every mesh is refused")
        return _("best is {mesh} with {number}").format(mesh=degrees(self.best), number=self.number(self.best))

    def says(self, mesh: Mesh) -> str:
        """All there is to say of a mesh."""
        if mesh in self.values:
            share = _("{share} of the best's speed").format(share=percent(self.speed(mesh)))
            return f"{degrees(mesh)}: {self.number(mesh)}, {share}"
        if mesh in self.reasons:
            return _("{mesh} is refused: {reason}").format(mesh=degrees(mesh), reason=self.reasons[mesh])
        return _("{mesh} is refused").format(mesh=degrees(mesh))

    @property
    def summary(self) -> str:
        """What there is besides the best, for people who cannot see it."""
        refused = len(self.cells) - len(self.values)
        if not self.values:
            return _("{refused} meshes are refused").format(refused=refused)
        low, high = min(self.values.values()), max(self.values.values())
        return _("{count} meshes have from {low} to {high} {unit}, {refused} are refused").format(
            count=len(self.values), low=figure(low), high=figure(high), unit=self.unit, refused=refused
        )
