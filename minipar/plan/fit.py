"""Fit constants of a software to measured times: least squares of the logarithms of predicted over measured.

A logarithm counts 10 % too much as 10 % too little, for a step of a second as for one of a minute. The constants are
positive, so the fit moves their logarithms too; a share stays at most 1. Steps are those of Levenberg and Marquardt
(Moré 1978): Gauss and Newton's, shortened until they help.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import fields, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from minipar.plan.hardware import Hardware
from minipar.plan.software import Software
from minipar.plan.work import Bench

SHARES = frozenset({"matmul", "scores", "tensor_overlap", "data_overlap", "zero_overlap"})
"""Constants that are a share of something: at most 1."""

NUDGE = 0.01
"""By how much a logarithm is moved, both ways, for its derivative: over the small jumps of blocks that change stage."""

Vector = NDArray[np.float64]


class Measured(NamedTuple):
    """A time that was measured, and what is predicted of it.

    predicted: seconds, for a bench. weight: how often the row counts, as its square.
    """

    predicted: Callable[[Bench], float]
    seconds: float
    weight: float = 1.0


def fit(
    software: Software,
    names: Sequence[str],
    rows: Sequence[Measured],
    hardware: Hardware,
    robust: float | None = None,
    rounds: int = 60,
) -> Software:
    """The software with the constants of these names moved, from where they are, to where they fit the rows best.

    robust: an error of the logarithm from which on a row counts less and less (Cauchy's loss); None: it never does.

    Raises `ValueError` for a name that is no constant or starts at 0 or less, for a constant that no row depends on,
    for fewer rows than constants, and for a time that is none.
    """
    _check(software, names, rows)
    top = np.array([0.0 if name in SHARES else math.inf for name in names])

    def residuals(logs: Vector) -> Vector:
        bench = Bench(hardware, replace(software, **dict(zip(names, np.exp(logs).tolist(), strict=True))))
        return np.array([row.weight * math.log(row.predicted(bench) / row.seconds) for row in rows])

    def slopes(logs: Vector) -> Vector:
        nudges = NUDGE * np.eye(len(names))
        columns = [(residuals(logs + nudge) - residuals(logs - nudge)) / (2 * NUDGE) for nudge in nudges]
        slope: Vector = np.array(columns).T
        return slope

    logs = np.minimum(np.log([getattr(software, name) for name in names]), top)
    if idle := [name for name, column in zip(names, slopes(logs).T, strict=True) if not column.any()]:
        raise ValueError(f"no row depends on {' or '.join(idle)}: leave it out, or add rows that do")
    errors, damping = residuals(logs), 1e-3
    for _ in range(rounds):
        slope = slopes(logs)
        weighted = slope.T if robust is None else slope.T / (1 + (errors / robust) ** 2)
        gradient, curvature = weighted @ errors, weighted @ slope
        free = (logs < top) | (gradient > 0)  # a share at 1 stays there while the errors would push it further
        before = loss(errors, robust)
        moved, tried = logs, errors
        while damping < 1e8 and not loss(tried, robust) < before:
            moved = np.minimum(logs + _damped_step(gradient, curvature, free, damping), top)
            tried, damping = residuals(moved), 4 * damping
        if not loss(tried, robust) < before:
            break
        logs, errors, damping = moved, tried, max(damping / 40, 1e-9)
        if before - loss(errors, robust) <= 1e-10 * before:
            break
    return replace(software, **dict(zip(names, np.exp(logs).tolist(), strict=True)))


def _damped_step(gradient: Vector, curvature: Vector, free: NDArray[np.bool_], damping: float) -> Vector:
    """By how much the logarithms of the free constants are moved, none by more than 1."""
    # A constant that has become too small to matter stays where it is: something above 0 is to be divided by.
    damped = curvature + np.diag(damping * np.diag(curvature) + 1e-12)
    step = np.zeros(len(gradient))
    step[free] = -np.linalg.solve(damped[np.ix_(free, free)], gradient[free])
    return np.clip(step, -1, 1)


def loss(errors: Vector, robust: float | None = None) -> float:
    """What `fit` makes least: the sum of squares, or Cauchy's, in which a large error counts as its logarithm."""
    if robust is None:
        return float(errors @ errors)
    return float(robust**2 * np.log1p((errors / robust) ** 2).sum())


def _check(software: Software, names: Sequence[str], rows: Sequence[Measured]) -> None:
    constants = {field.name for field in fields(software) if isinstance(getattr(software, field.name), float)}
    for name in names:
        if name not in constants:
            raise ValueError(f"{name!r} is not a constant of {software.name}; those are {', '.join(sorted(constants))}")
        if not getattr(software, name) > 0:
            raise ValueError(f"{name}={getattr(software, name)}; it is fitted by its logarithm: start above 0")
    if not 0 < len(names) <= len(rows):
        raise ValueError(f"{len(rows)} measured times cannot tell {len(names)} constants")
    for row in rows:
        if not 0 < row.seconds < math.inf or not row.weight > 0:
            raise ValueError(f"a row of {row.seconds} seconds and weight {row.weight}; both are above 0")
