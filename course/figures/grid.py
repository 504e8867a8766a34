"""The Ultra-Scale Playbook's grid of measured runs: every run that has a figure, with the layout that made it."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import NamedTuple

from minipar.plan import Bench, Model, Numbers, hardware_by_name, model_by_name, predict
from minipar.plan.generations import NANOTRON

FILE = Path(__file__).with_name("data") / "ultrascale_grid.json"
NODE = 8
"""GPUs of every node."""
BENCH = Bench(hardware_by_name("h100"), NANOTRON)
"""What the runs were made on."""


class Run(NamedTuple):
    """A run: tokens that a GPU got through in a second, and the MFU that the grid states, in percent."""

    layout: Numbers
    tokens: float
    mfu: float


class Cell(NamedTuple):
    """All runs of a model on so many nodes: 256 samples of 4,096 tokens a step."""

    size: str
    nodes: int
    runs: tuple[Run, ...]

    @property
    def model(self) -> Model:
        """Its sizes."""
        return model_by_name(f"playbook-{self.size.lower()}")

    @property
    def best(self) -> Run:
        """The run that was fastest."""
        return max(self.runs, key=lambda run: run.tokens)

    def seconds(self, layout: Numbers) -> float:
        """Seconds of a step that the planner predicts for a layout."""
        return predict(self.model, layout, BENCH).step_seconds

    @property
    def chosen(self) -> Run:
        """The run whose layout the planner would choose."""
        return min(self.runs, key=lambda run: self.seconds(run.layout))

    def share(self, run: Run) -> float:
        """A run's speed, of the best's."""
        return run.tokens / self.best.tokens


@cache
def grid() -> tuple[Cell, ...]:
    """The cells, smaller models and fewer nodes first."""
    read = json.loads(FILE.read_text(encoding="utf-8"))
    cells = []
    for cell in read["cells"]:
        runs = []
        for dp, pp, tp, zero, size, number, tokens, mfu in cell["runs"]:
            layout = Numbers(dp, pp, tp, size, number, sequence_parallel=tp > 1, zero=zero)
            runs.append(Run(layout, float(tokens), float(mfu)))
        cells.append(Cell(cell["model"], cell["nodes"], tuple(runs)))
    return tuple(cells)


def cell(size: str, nodes: int) -> Cell:
    """The cell of this model and so many nodes; `ValueError` where there is none."""
    for one in grid():
        if (one.size, one.nodes) == (size, nodes):
            return one
    known = ", ".join(f"{one.size} on {one.nodes}" for one in grid())
    raise ValueError(f"there are no runs of {size} on {nodes} nodes; there are: {known}")
