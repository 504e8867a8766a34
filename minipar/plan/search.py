"""Find the fastest layouts of all: every one that exists is considered, and few have to be simulated.

For each group of layouts there is a time that none of them can beat. Groups are opened by that bound, best first,
into smaller groups with bounds of their own, down to single layouts; and the search ends when as many layouts as were
asked for are faster than whatever is still closed (best-first branch and bound). So the ranking is that of brute
force, which the tests compare it with.
"""

from __future__ import annotations

import heapq
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count, product
from typing import Literal

from minipar.plan.bounds import SPLIT, balanced, chained, filled, impossible
from minipar.plan.layout import Numbers
from minipar.plan.memory import needed
from minipar.plan.model import Model
from minipar.plan.predict import Prediction, predict
from minipar.plan.space import Space
from minipar.plan.work import Bench


@dataclass(frozen=True)
class Refusal:
    """Why all layouts of a mesh cannot be, or one of them (`layout`), which `needs` so many bytes."""

    mesh: Numbers
    reason: str
    layout: Numbers | None = None
    needs: float = 0.0


@dataclass(frozen=True)
class Found:
    """The fastest layouts, best first; what was refused; and how much was looked at.

    refused: meshes none of whose layouts can be, and layouts without room that might be faster than the last one found.
    searched: layouts of the space. simulated: those that had to be. search_seconds: how long it took.
    """

    layouts: tuple[Prediction, ...]
    refused: tuple[Refusal, ...]
    searched: int
    simulated: int
    search_seconds: float


@dataclass(order=True)
class _Closed:
    """Layouts by a time that they cannot beat.

    They do the same work; then they have the same stages too, whatever ZeRO; then it is one; then it has room; then
    there is its prediction.
    """

    bound: float
    turn: int
    what: Literal["work", "stages", "layout", "fits", "predicted"] = field(compare=False)
    layouts: list[Numbers] = field(compare=False)
    prediction: Prediction | None = field(compare=False, default=None)


def search(model: Model, bench: Bench, gpus: int, batch: int, space: Space | None = None, top: int = 10) -> Found:
    """The `top` fastest layouts of `batch` samples a step on so many GPUs, each with room for its tensors.

    Raises `ValueError` for fewer than one GPU, sample or layout, and for a space of which the software does nothing.
    """
    for name, number in (("gpus", gpus), ("batch", batch), ("top", top)):
        if number < 1:
            raise ValueError(f"{name}={number}; it must be at least 1")
    began, space = time.perf_counter(), (space or Space()).within(bench.software.most_zero)
    refused, works, searched = [], [], 0
    for mesh in meshes(gpus):
        if reason := impossible(mesh, batch, model, bench, space):
            refused.append(Refusal(mesh, reason))
            continue
        own = list(space.works(mesh, batch, model.sequence))
        searched += len(own) * len(space.plans(mesh.pp, model.layers)) * len(space.zeros(mesh))
        works += own
    found, simulated = _best_first(model, bench, works, space, top, refused)
    return Found(tuple(found), tuple(refused), searched, simulated, time.perf_counter() - began)


def meshes(gpus: int) -> Iterator[Numbers]:
    """Every dp × pp × tp of so many GPUs."""
    divisors = [n for n in range(1, gpus + 1) if gpus % n == 0]
    fitting = ((pp, tp) for pp, tp in product(divisors, divisors) if gpus % (pp * tp) == 0)
    return (Numbers(gpus // (pp * tp), pp, tp) for pp, tp in fitting)


def _best_first(
    model: Model, bench: Bench, works: list[Numbers], space: Space, top: int, refused: list[Refusal]
) -> tuple[list[Prediction], int]:
    """The `top` fastest layouts, and how many were simulated for it; what has no room is added to `refused`."""
    turns, found, simulated = count(), list[Prediction](), 0
    closed = [_Closed(balanced(model, space.zeros(work), bench), next(turns), "work", [work]) for work in works]
    heapq.heapify(closed)
    while closed and len(found) < top:
        best = heapq.heappop(closed)
        layout, within = best.layouts[0], list[_Closed]()
        if best.prediction is not None:
            found.append(best.prediction)
        elif best.what == "work":
            for alike in space.alike(layout, model.layers, SPLIT):
                bound = filled(model, space.zeros(alike[0]), bench)
                within.append(_Closed(bound, next(turns), "stages", alike))
        elif best.what == "stages":
            bounds = [filled(model, [one], bench) for one in space.zeros(layout)]
            for plan in best.layouts:
                for bound, one in zip(bounds, space.zeros(plan), strict=True):
                    within.append(_Closed(bound, next(turns), "layout", [one]))
        elif best.what == "fits":
            simulated += 1
            result = predict(model, layout, bench)
            within.append(_Closed(result.step_seconds, next(turns), "predicted", [layout], result))
        elif refusal := _no_room(model, layout, bench):
            refused.append(refusal)
        else:
            within.append(_Closed(chained(model, layout, bench), next(turns), "fits", [layout]))
        for smaller in within:
            heapq.heappush(closed, smaller)
    return found, simulated


def _no_room(model: Model, layout: Numbers, bench: Bench) -> Refusal | None:
    """Why a single layout cannot be; None where it can."""
    mesh = Numbers(layout.dp, layout.pp, layout.tp)
    if reason := bench.software.refuses(model, layout):
        return Refusal(mesh, reason, layout)
    needs, room = needed(model, layout, bench), bench.hardware.memory - bench.software.reserve
    if needs <= room:
        return None
    return Refusal(mesh, f"it needs {needs / 2**30:.1f} GiB of the {room / 2**30:.1f} there are", layout, needs)


def landscape(
    model: Model, bench: Bench, gpus: int, batch: int, space: Space | None = None
) -> dict[Numbers, Prediction | str]:
    """The fastest layout of every mesh, or why it has none."""
    space = (space or Space()).within(bench.software.most_zero)
    found: dict[Numbers, Prediction | str] = {}
    for mesh in meshes(gpus):
        reason = impossible(mesh, batch, model, bench, space)
        if reason is None:
            refused: list[Refusal] = []
            works = list(space.works(mesh, batch, model.sequence))
            best, _ = _best_first(model, bench, works, space, 1, refused)
            if best:
                found[mesh] = best[0]
                continue
            reason = min(refused, key=lambda one: one.needs).reason
        found[mesh] = reason
    return found
