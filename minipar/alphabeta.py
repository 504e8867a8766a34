"""How fast the links of a mesh are: latency (alpha) and time per byte (beta), measured on real ranks for each axis."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from minipar import comm
from minipar.bench.measure import alternate
from minipar.mesh import Axis, Mesh, check_degrees
from minipar.wire import Line
from minipar.world import run

Floats = npt.NDArray[np.float64]

ALL_REDUCE, SEND = "all-reduce", "send"  # as the ledger calls them
SIZES = tuple(2**power for power in range(5, 24, 2))  # bytes, from 32 to 8 Mi
REPEATS = 7
IN_A_ROW = 4  # all-reduces or round trips in one timing, so that it weighs little who leaves the barrier first


@dataclass(frozen=True)
class LinkMeasure:
    """What one operation costs on one axis: `alpha` in seconds a message, `beta` in seconds a byte on the wire.

    operation: ``"all-reduce"``, done by a ring of the axis's `ranks`, or ``"send"`` from a rank to its neighbour.
    Raises `ValueError` for another operation, fewer than two ranks, and a cost below zero.
    """

    axis: str
    ranks: int
    operation: str
    alpha: float
    beta: float

    def __post_init__(self) -> None:
        """Refuse what no link has."""
        if self.operation not in (ALL_REDUCE, SEND):
            raise ValueError(f"operation {self.operation!r} has no cost here; it can be {ALL_REDUCE!r} or {SEND!r}")
        if self.ranks < 2:
            raise ValueError(f"{self.axis}={self.ranks} has no link: it joins at least 2 ranks")
        for name, cost in (("alpha", self.alpha), ("beta", self.beta)):
            if not 0 <= cost < math.inf:
                raise ValueError(f"{name}={cost}; a cost is a finite number of at least 0")

    def seconds(self, size: float) -> float:
        """How long the operation takes for a tensor of `size` bytes.

        A send is one message: α + size·β. An all-reduce by a ring of n is 2(n−1) of them, one after another, of an
        n-th each: 2(n−1)·α + 2(n−1)/n·size·β (Thakur et al. 2005, §4).
        """
        return self._messages * (self.alpha + size / self._parts * self.beta)

    @property
    def _messages(self) -> int:
        return 2 * (self.ranks - 1) if self.operation == ALL_REDUCE else 1

    @property
    def _parts(self) -> int:
        return self.ranks if self.operation == ALL_REDUCE else 1


def fit(axis: str, ranks: int, operation: str, times: Mapping[int, float]) -> LinkMeasure:
    """The costs, none below zero, that come closest to `times`: seconds by the tensor's size in bytes.

    Raises `ValueError` for fewer than two sizes and for a time that is not above zero.
    """
    if len(times) < 2:
        sizes = "1 size" if times else "0 sizes"
        raise ValueError(f"{sizes} cannot tell alpha from beta; measure at least 2")
    if wrong := [(size, time) for size, time in times.items() if not 0 < time < math.inf]:
        raise ValueError(f"{wrong[0][0]} bytes took {wrong[0][1]} s; a time is a finite number above 0")
    # What alpha alone and beta alone give for each size, as shares of the measured time: those are to add up to 1.
    # In seconds the largest size would outweigh all others, since its error of 5 % is longer than alpha.
    alone = LinkMeasure(axis, ranks, operation, 1.0, 0.0), LinkMeasure(axis, ranks, operation, 0.0, 1.0)
    shares = np.array([[one.seconds(size) / time for one in alone] for size, time in times.items()])
    alpha, beta = _closest_to_one(shares)
    return LinkMeasure(axis, ranks, operation, float(alpha), float(beta))


def _closest_to_one(shares: Floats) -> Floats:
    """The two costs of at least 0 with which each row of `shares` comes closest to 1, in least squares."""
    scale = np.linalg.norm(shares, axis=0)  # a second a byte is an odd unit: unscaled, its digits would be lost
    both: Floats = np.linalg.lstsq(shares / scale, np.ones(len(shares)), rcond=None)[0] / scale
    if both.min() >= 0:
        return both
    # Where the best pair has a cost below zero, the best that has none has a cost of zero.
    either = np.diag(shares.sum(axis=0) / scale**2)
    return min(either, key=lambda costs: float(((shares @ costs - 1) ** 2).sum()))


def measure_links(dp: int = 1, pp: int = 1, tp: int = 1) -> list[LinkMeasure]:
    """The links of dp · pp · tp fresh ranks, or of those that torchrun has started: see `links_of`.

    Raises `ValueError`, before a rank starts, for what is no degree, and where torchrun has started another number.
    """
    check_degrees(dp, pp, tp, dp * pp * tp)
    measures: list[LinkMeasure] = run(_on_rank, dp * pp * tp, dp, pp, tp, timeout=600)[0]
    return measures


def _on_rank(dp: int, pp: int, tp: int) -> list[LinkMeasure]:
    return links_of(Mesh(dp, pp, tp))


def links_of(mesh: Mesh, sizes: Sequence[int] = SIZES, repeats: int = REPEATS) -> list[LinkMeasure]:
    """On every rank of a mesh: an all-reduce and a send for each axis of more than one rank, the same list everywhere.

    sizes: bytes of the tensors, multiples of 4. repeats: timings of each, of which the median counts.

    All groups of an axis are at work at once, as they are in training, and the slowest counts. An all-reduce is
    `comm`'s. A send is half a round trip of two neighbours by a `Line`, as stages send: through host memory, copies
    included. The mesh's ledger counts what is sent. Raises `ValueError` for sizes or repeats that measure nothing.
    """
    if len(set(sizes)) < 2 or any(size < 4 or size % 4 for size in sizes):
        raise ValueError(f"sizes={tuple(sizes)}; at least two different ones are needed, each a multiple of 4 bytes")
    if repeats < 1:
        raise ValueError(f"repeats={repeats}; at least one timing is needed")
    measures = []
    for axis in (mesh.dp, mesh.pp, mesh.tp):
        if axis.size > 1:
            for operation, times in ((ALL_REDUCE, _all_reduces), (SEND, _sends)):
                slowest = _slowest(times(axis, sizes, repeats), mesh)
                measures.append(fit(axis.name, axis.size, operation, slowest))
    return measures


def _slowest(times: Mapping[int, float], mesh: Mesh) -> dict[int, float]:
    """The longest time for each size over all ranks of the mesh."""
    seconds = list(times.values())
    for axis in (mesh.dp, mesh.pp, mesh.tp):
        seconds = [max(group) for group in zip(*comm.gather_numbers(seconds, axis), strict=True)]
    return dict(zip(times, seconds, strict=True))


def _zeros(size: int, axis: Axis) -> Tensor:
    return torch.zeros(size // 4, device=axis.placement.device)  # zeros stay zeros, however often they are added up


def _all_reduces(axis: Axis, sizes: Sequence[int], repeats: int) -> dict[int, float]:
    """Median seconds of an all-reduce for each size."""

    def reduce(tensor: Tensor) -> None:
        for _ in range(IN_A_ROW):
            comm.start_all_reduce_in_place(tensor, axis).wait()

    ways = {str(size): partial(reduce, _zeros(size, axis)) for size in sizes}
    return {int(size): seconds / IN_A_ROW for size, seconds in alternate(ways, repeats, axis).items()}


def _sends(axis: Axis, sizes: Sequence[int], repeats: int) -> dict[int, float]:
    """Median seconds of a message for each size, between the slowest two neighbours."""
    # A rank has two neighbours at most: first all even ranks talk to the next one, then all odd ones.
    both = [_round_trips(axis, parity, sizes, repeats) for parity in range(min(axis.size - 1, 2))]
    return {size: max(times[size] for times in both) / (2 * IN_A_ROW) for size in sizes}


def _round_trips(axis: Axis, parity: int, sizes: Sequence[int], repeats: int) -> dict[int, float]:
    """Median seconds of the round trips between each rank of this parity and the next one."""
    starts = axis.rank % 2 == parity
    peer = axis.rank + 1 if starts else axis.rank - 1
    line = Line(axis, peer) if 0 <= peer < axis.size else None

    def travel(tensor: Tensor) -> None:
        kind = len(tensor)
        for _ in range(IN_A_ROW if line else 0):
            assert line is not None  # one of three ranks has nobody to talk to
            line.expect([kind])
            if not starts:
                line.receive()
            line.send(kind, (tensor,))
            if starts:
                line.receive()

    seconds = alternate({str(size): partial(travel, _zeros(size, axis)) for size in sizes}, repeats, axis)
    if line is not None:
        line.flush()
    return {int(size): time for size, time in seconds.items()}
