"""`minipar bench pipeline`: each schedule that both have, beside `torch.distributed.pipelining` and the ideal."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.distributed import pipelining

from minipar import comm
from minipar.bench.measure import WARM_UPS, alternate, geometric_mean
from minipar.mesh import Mesh
from minipar.pipeline import Costs, Schedule, simulate
from minipar.pipeline import run as run_step
from minipar.pipeline.names import by_name
from minipar.world import run

SIZES = ((1, 32, 128), (1, 64, 256), (1, 256, 512))  # samples of a micro-batch, sequence, hidden
RANKS, MICRO_BATCHES, LAYERS = 2, 8, 2  # layers of a rank
HEADLINE = ("1f1b", "interleaved")

Theirs = Callable[[list[Any]], Any]
THEIRS: Mapping[str, Theirs] = {
    "gpipe": lambda stages: pipelining.ScheduleGPipe(stages[0], MICRO_BATCHES, loss_fn=F.mse_loss),
    "1f1b": lambda stages: pipelining.Schedule1F1B(stages[0], MICRO_BATCHES, loss_fn=F.mse_loss),
    "interleaved": lambda stages: pipelining.ScheduleInterleaved1F1B(stages, MICRO_BATCHES, loss_fn=F.mse_loss),
    "breadth-first": lambda stages: pipelining.ScheduleLoopedBFS(stages, MICRO_BATCHES, loss_fn=F.mse_loss),
    "zb-v": lambda stages: pipelining.ScheduleZBVZeroBubble(stages, MICRO_BATCHES, loss_fn=F.mse_loss),
}
"""PyTorch's schedules by our names. Its DualPipe-V computes a forward and a backward in two threads at once."""


@dataclass(frozen=True)
class Row:
    """One comparison: median seconds of a step, and of the ideal step, which sends nothing.

    The ideal is the simulated step whose forwards and backwards take what they take here, measured in each
    stage with all ranks at work: the largest stage's compute and the schedule's own bubble.
    """

    schedule: str
    samples: int
    sequence: int
    hidden: int
    minipar_seconds: float
    torch_seconds: float
    ideal_seconds: float

    @property
    def ratio(self) -> float:
        """minipar's time over PyTorch's."""
        return self.minipar_seconds / self.torch_seconds

    @property
    def over_ideal(self) -> float:
        """minipar's time over the ideal."""
        return self.minipar_seconds / self.ideal_seconds


class Layer(nn.Module):
    """A feed-forward behind a norm and beside a residual, ``[batch, seq, hidden]`` to the same."""

    def __init__(self, hidden: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(hidden)
        self.up, self.down = nn.Linear(hidden, 4 * hidden), nn.Linear(4 * hidden, hidden)

    def forward(self, x: Tensor) -> Tensor:
        """Widen, bend, narrow, add."""
        result: Tensor = x + self.down(F.gelu(self.up(self.norm(x))))
        return result


def bench(
    repeats: int = 7, sizes: tuple[tuple[int, int, int], ...] = SIZES, names: tuple[str, ...] = tuple(THEIRS)
) -> list[Row]:
    """Every schedule and size, on two ranks of one thread each."""
    rows: list[Row] = run(_measure, RANKS, repeats, sizes, names, timeout=900)[0]
    return rows


def geomean_ratio(rows: list[Row], names: tuple[str, ...] = tuple(THEIRS)) -> float:
    """The geometric mean of minipar's time over PyTorch's, over these schedules."""
    return geometric_mean([row.ratio for row in rows if row.schedule in names])


def measured_over_ideal(rows: list[Row], names: tuple[str, ...] = HEADLINE) -> float:
    """The geometric mean of minipar's time over the ideal, over these schedules at the largest size."""
    largest = max(row.samples * row.sequence * row.hidden for row in rows)
    return geometric_mean(
        [r.over_ideal for r in rows if r.schedule in names and r.samples * r.sequence * r.hidden == largest]
    )


def _measure(repeats: int, sizes: tuple[tuple[int, int, int], ...], names: tuple[str, ...]) -> list[Row]:
    """On a rank: all rows, minipar and PyTorch in turn."""
    mesh = Mesh(pp=RANKS)
    return [_row(mesh, by_name(name, RANKS, MICRO_BATCHES), name, size, repeats) for name in names for size in sizes]


def _row(mesh: Mesh, schedule: Schedule, name: str, size: tuple[int, int, int], repeats: int) -> Row:
    samples, sequence, hidden = size
    held = [stage for stage, rank in enumerate(schedule.holder) if rank == mesh.pp.rank]
    stages = {s: nn.Sequential(*(Layer(hidden) for _ in range(LAYERS // len(held)))).to(mesh.device) for s in held}
    shape = MICRO_BATCHES * samples, sequence, hidden
    batch = torch.randn(shape, device=mesh.device), torch.randn(shape, device=mesh.device)
    rivals = [pipelining.PipelineStage(stages[s], s, schedule.stages, mesh.device, group=mesh.pp.group) for s in held]
    theirs = THEIRS[name](rivals)
    alone = _Alone(stages, batch, mesh)
    ways: dict[str, Callable[[], object]] = {
        "minipar": partial(_ours, schedule, stages, batch, mesh),
        "torch": partial(_theirs, theirs, stages, batch, schedule.holder[0], schedule.holder[-1], mesh.pp.rank),
        "alone": alone.compute,
    }
    seconds = alternate(ways, repeats, mesh.pp)
    ideal = simulate(schedule, alone.costs()).duration
    return Row(name, *size, seconds["minipar"], seconds["torch"], ideal)


def _ours(schedule: Schedule, stages: Mapping[int, nn.Module], batch: tuple[Tensor, Tensor], mesh: Mesh) -> None:
    _forget(stages)
    run_step(schedule, stages, batch, F.mse_loss, mesh)


def _theirs(
    schedule: Any,
    stages: Mapping[int, nn.Module],
    batch: tuple[Tensor, Tensor],
    first: int,
    last: int,
    rank: int,
) -> None:
    _forget(stages)
    losses: list[Tensor] = []
    given = (batch[0],) if rank == first else ()
    wanted = {"target": batch[1], "losses": losses} if rank == last else {}
    schedule.step(*given, **wanted)


def _forget(stages: Mapping[int, nn.Module]) -> None:
    for stage in stages.values():
        stage.zero_grad()


class _Alone:
    """A step's compute without its messages, all ranks at once; notes what each forward and backward takes."""

    def __init__(self, stages: Mapping[int, nn.Module], batch: tuple[Tensor, Tensor], mesh: Mesh) -> None:
        self.stages, self.parts, self.mesh = stages, batch[0].tensor_split(MICRO_BATCHES), mesh
        self.times: dict[tuple[str, int], list[float]] = {(kind, s): [] for kind in "FB" for s in stages}

    def compute(self) -> None:
        """Every micro-batch through every stage of this rank, forward and backward."""
        _forget(self.stages)
        for number, stage in self.stages.items():
            for x in self.parts:
                x = x.detach().requires_grad_()
                began = self._now()
                y = stage(x)
                middle = self._now()
                torch.autograd.backward(y, torch.ones_like(y))
                self.times["F", number].append(middle - began)
                self.times["B", number].append(self._now() - middle)

    def _now(self) -> float:
        if self.mesh.device.type == "cuda":
            torch.cuda.synchronize(self.mesh.device)
        return time.perf_counter()

    def costs(self) -> Costs:
        """What a micro-batch takes in each stage: the median of each kind, without the warm-up rounds."""
        first = WARM_UPS * MICRO_BATCHES
        own = {key: statistics.median(times[first:]) for key, times in self.times.items()}
        known = {key: seconds for one in comm.gather_objects(own, self.mesh.pp) for key, seconds in one.items()}
        forward, backward = ([known[kind, s] for s in range(len(known) // 2)] for kind in "FB")
        return Costs(forward, backward)
