"""The fits behind `minipar.plan.generations`; `python -m tests.minipar.plan.refit` runs them all and prints them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from minipar.plan import Software
from minipar.plan.fit import Measured, fit
from minipar.plan.generations import MEGATRON_2021, MEGATRON_2022, MEGATRON_CORE, NANOTRON
from minipar.plan.hardware import A100, H100, Hardware
from tests.minipar.plan.published import Row, core, grid, table_1, table_2, table_4, table_5

START: Mapping[str, float] = {
    "matmul": 0.6,
    "passes": 3.0,
    "tensor_overlap": 0.6,
    "data_overlap": 0.5,
    "logits": 5.0,
    "rest": 0.05,
    "launch": 3e-3,
    "waiting": 3e-3,
    "skew": 1e-4,
    "latency": 2e-5,
    "pieces": 5.0,
    "ways": 2.0,
    "stalled": 1.0,
    "growth": 2.0,
}
"""Where fits start: round numbers of the right size, none of them what comes out."""

MEGATRON = ("matmul", "passes")
SEQUENCE_PARALLEL = (*MEGATRON, "tensor_overlap")
LAYERS = 0.3
"""A layer's time says the same as the four steps', printed to two digits, so it counts less."""

NODES = 32
"""On 64 nodes many runs of the grid took seconds longer than on 32: only what those tell is fitted there."""
STEP = ("matmul", "passes", "data_overlap", "logits", "rest", "launch", "waiting", "skew", "latency", "pieces", "ways")
STALL = ("stalled", "growth")
ROBUST = 0.15
"""Runs that are further off than about 15 % count less and less: some of the grid's are ten times slower than others of
the same layout."""


def start(software: Software, names: Sequence[str]) -> Software:
    """The software with these constants where fits start."""
    return replace(software, **{name: START[name] for name in names})


def fit_steps(
    software: Software, names: Sequence[str], rows: Sequence[Row], hardware: Hardware, extra: Sequence[Measured] = ()
) -> Software:
    """A fit of a few constants to the steps of a table."""
    return fit(start(software, names), names, [*(row.measured() for row in rows), *extra], hardware)


def layers() -> list[Measured]:
    """Table 4, at its weight."""
    return [one for layer in table_4() for one in layer.measured(LAYERS)]


def megatron_2021(rows: Sequence[Row] | None = None) -> Software:
    """Two constants to Tables 1 and 2 of Narayanan et al. 2021, or to some of their rows."""
    return fit_steps(MEGATRON_2021, MEGATRON, table_1() + table_2() if rows is None else rows, A100)


def megatron_2022(rows: Sequence[Row] | None = None) -> Software:
    """Three constants to Tables 5 and 4 of Korthikanti et al. 2022, or to some rows of Table 5 and all of Table 4."""
    return fit_steps(MEGATRON_2022, SEQUENCE_PARALLEL, table_5() if rows is None else rows, A100, layers())


def megatron_core(rows: Sequence[Row] | None = None) -> Software:
    """Three constants to the table of Megatron-Core, or to some of its rows."""
    return fit_steps(MEGATRON_CORE, SEQUENCE_PARALLEL, core() if rows is None else rows, H100)


def grid_rows(nodes: int = 64) -> list[Measured]:
    """The runs of the grid that have a figure, on so many nodes at most."""
    return [run.measured() for run in grid() if run.ok and run.nodes <= nodes]


def nanotron() -> Software:
    """What happens in a step to the grid's runs on up to 32 nodes; then what large clusters add, to all of them.

    How much of the tensor links a backward hides is not told apart from what the links themselves take, and how much
    slower a full memory is has few runs: both are set, not fitted.
    """
    names = (*STEP, *STALL)
    found = fit(start(NANOTRON, names), STEP, grid_rows(NODES), H100, ROBUST)
    return fit(found, STALL, grid_rows(), H100, ROBUST)


def main() -> None:
    """Fit all, and print what comes out beside what `minipar.plan.generations` says."""
    for before, refit, names in (
        (MEGATRON_2021, megatron_2021, MEGATRON),
        (MEGATRON_2022, megatron_2022, SEQUENCE_PARALLEL),
        (MEGATRON_CORE, megatron_core, SEQUENCE_PARALLEL),
        (NANOTRON, nanotron, (*STEP, *STALL)),
    ):
        after = refit()
        print(f"{before.name} ({before.source})")
        for name in names:
            was, found = getattr(before, name), getattr(after, name)
            print(f"  {name:15} {was:10.4g} refitted {found:10.4g}  {100 * (found / was - 1):+6.1f} %")


if __name__ == "__main__":
    main()
