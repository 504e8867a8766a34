"""The mesh: ranks arranged as pipeline × data × tensor, with a group for each axis and a place in a node."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh

from minipar.devices import Placement, local_ranks, place
from minipar.ledger import Ledger
from minipar.links import Links

if TYPE_CHECKING:
    from minipar.wire import Line


class Coords(NamedTuple):
    """A rank's place along each axis, outermost first."""

    pp: int
    dp: int
    tp: int


class Neighbours(NamedTuple):
    """The global ranks of the pipeline stages before and after this one; None at an end."""

    previous: int | None
    next: int | None


@dataclass(frozen=True)
class Axis:
    """One axis of the mesh as one rank sees it: the ranks that differ from it only along this axis.

    `ranks` holds their global numbers in order along the axis; `rank` is this one's index in it.
    An axis of size 1 has no group and never communicates. `links` is how slow its links are made, if they are.
    """

    name: str
    ranks: tuple[int, ...]
    rank: int
    group: dist.ProcessGroup | None
    placement: Placement
    ledger: Ledger
    links: Links | None = None

    @property
    def size(self) -> int:
        """How many ranks lie along the axis."""
        return len(self.ranks)


class Mesh:
    """All ranks as a grid: ``rank = (pp · DP + dp) · TP + tp``.

    The tensor axis is innermost, so that its ranks are neighbours and share a node: it carries the
    most traffic (Narayanan et al. 2021, §3.2 and §5.4). Every rank makes the same mesh.

    dp, pp, tp: how many ranks along the data, pipeline and tensor axis.
    `mesh.tp`, `mesh.pp`, `mesh.dp` are the axes (`Axis`), `mesh.coords` this rank's place,
    `mesh.neighbours` the stages before and after, `mesh.ledger` what was sent so far.
    `mesh.lines` holds the lines to other pipeline ranks, as they are needed.
    links: emulated links, by which every message and collective takes at least its time.

    ``Mesh()`` is one rank alone, and needs no process group. Raises `ValueError` where the number
    of ranks is not dp · pp · tp; warns where a tensor group would span nodes.
    """

    def __init__(self, dp: int = 1, pp: int = 1, tp: int = 1, links: Links | None = None) -> None:
        world = dist.get_world_size() if dist.is_initialized() else 1
        check_degrees(dp, pp, tp, world)
        self.rank = dist.get_rank() if dist.is_initialized() else 0
        self.coords = coords(self.rank, dp, tp)
        self.placement = place()
        self.device = self.placement.device
        self.ledger, self.links = Ledger(), links
        self.lines: dict[int, Line] = {}
        grid = None
        if world > 1:
            kind = "cuda" if self.placement.transport == "nccl" else "cpu"
            grid = init_device_mesh(kind, (pp, dp, tp), mesh_dim_names=("pp", "dp", "tp"))
        sizes = Coords(pp, dp, tp)

        def axis(name: str) -> Axis:
            index, size = Coords._fields.index(name), getattr(sizes, name)
            ranks = tuple(rank_of(self.coords._replace(**{name: i}), dp, tp) for i in range(size))
            group = grid.get_group(name) if grid is not None and size > 1 else None
            return Axis(name, ranks, self.coords[index], group, self.placement, self.ledger, links)

        self.dp, self.pp, self.tp = axis("dp"), axis("pp"), axis("tp")
        at = self.coords.pp
        self.neighbours = Neighbours(
            self.pp.ranks[at - 1] if at > 0 else None, self.pp.ranks[at + 1] if at + 1 < pp else None
        )
        _warn_if_tp_spans_nodes(tp, local_ranks()[1], world, self.rank)

    def __repr__(self) -> str:
        at = ", ".join(f"{name}={i}" for name, i in self.coords._asdict().items())
        degrees = f"dp={self.dp.size}, pp={self.pp.size}, tp={self.tp.size}"
        emulated = f", with emulated {self.links}" if self.links else ""
        return f"Mesh({degrees}): rank {self.rank} at {at}, on {self.placement}{emulated}"


def coords(rank: int, dp: int, tp: int) -> Coords:
    """The coordinates of a global rank in a mesh with `dp` data and `tp` tensor ranks."""
    return Coords(pp=rank // (dp * tp), dp=rank // tp % dp, tp=rank % tp)


def rank_of(at: Coords, dp: int, tp: int) -> int:
    """The global rank at these coordinates: ``(pp · DP + dp) · TP + tp``."""
    return (at.pp * dp + at.dp) * tp + at.tp


def check_degrees(dp: int, pp: int, tp: int, world: int) -> None:
    """Raise `ValueError`, naming degrees that fit, unless `world` ranks form dp × pp × tp."""
    for name, degree in (("dp", dp), ("pp", pp), ("tp", tp)):
        if not isinstance(degree, int) or degree < 1:
            raise ValueError(f"{name}={degree!r}; a degree is a whole number of at least 1")
    if dp * pp * tp == world:
        return
    shown = [f"dp={d} pp={p} tp={t}" for d, p, t in fitting(dp, pp, tp, world)]
    raise ValueError(
        f"dp={dp} × pp={pp} × tp={tp} needs {dp * pp * tp} ranks, but there are {world}; "
        f"with {world} these fit: {', '.join(shown)}"
    )


def fitting(dp: int, pp: int, tp: int, world: int, most: int = 4) -> list[tuple[int, int, int]]:
    """Up to `most` triples (dp, pp, tp) whose product is `world`, those that change least first."""
    wanted = (dp, pp, tp)
    divisors = [d for d in range(1, world + 1) if world % d == 0]
    fits = [(d, p, world // (d * p)) for d in divisors for p in divisors if world % (d * p) == 0]
    return sorted(fits, key=lambda f: (sum(a != b for a, b in zip(f, wanted, strict=True)), f))[:most]


def tp_spans_nodes(tp: int, ranks_per_node: int) -> bool:
    """Whether some tensor group has ranks on more than one node, nodes being filled in rank order."""
    return ranks_per_node % tp != 0


def cost_of_spanning(tp: int, ranks_per_node: int) -> str:
    """What a tensor group on more than one node costs, and what to do about it, in a sentence or two."""
    return (
        f"tp={tp} does not fit into nodes of {ranks_per_node} ranks, so a tensor group spans nodes: the four "
        "all-reduces of every transformer layer and micro-batch (two forward, two backward) cross the slower "
        f"link between nodes. A tp that divides {ranks_per_node} keeps them inside; put pp across nodes instead."
    )


def _warn_if_tp_spans_nodes(tp: int, ranks_per_node: int, world: int, rank: int) -> None:
    if rank == 0 and ranks_per_node < world and tp_spans_nodes(tp, ranks_per_node):
        warnings.warn(cost_of_spanning(tp, ranks_per_node), stacklevel=3)
