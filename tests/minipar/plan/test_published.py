"""Predictions beside what was published."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from minipar.plan import Bench, Prediction, hardware_by_name, memory, model_by_name, predict
from minipar.plan.fit import fit, loss
from minipar.plan.generations import MEGATRON_2021, MEGATRON_2022, MEGATRON_CORE, NANOTRON
from minipar.plan.memory import worst
from minipar.recompute import Recompute
from tests.minipar.plan import published, refit
from tests.minipar.plan.published import DATA, Row, Run

A100, H100 = hardware_by_name("a100-80gb"), hardware_by_name("h100")


def errors(rows: Sequence[Row], bench: Bench) -> list[float]:
    """Predicted over measured, less one."""
    return [row.error(bench) for row in rows]


@pytest.mark.parametrize(
    ("rows", "bench", "mean", "most"),
    [
        (published.table_1(), Bench(A100, MEGATRON_2021), 0.03, 0.06),
        (published.table_2(), Bench(A100, MEGATRON_2021), 0.03, 0.06),
        (published.table_5(), Bench(A100, MEGATRON_2022), 0.03, 0.06),
        (published.core(), Bench(H100, MEGATRON_CORE), 0.06, 0.12),
    ],
    ids=["Narayanan Table 1", "Narayanan Table 2", "Korthikanti Table 5", "Megatron-Core"],
)
def test_seconds_of_a_step(rows, bench, mean, most):
    found = np.abs(errors(rows, bench))
    print("mean", found.mean().round(4), "worst", found.max().round(4))
    assert found.mean() <= mean
    assert found.max() <= most


@pytest.mark.parametrize(
    ("rows", "software", "names", "layers"),
    [
        (
            published.table_1() + published.table_2(),
            MEGATRON_2021,
            ["matmul", "passes"],
            [],
        ),
        (
            published.table_5(),
            MEGATRON_2022,
            ["matmul", "passes", "tensor_overlap"],
            published.table_4(),
        ),
        (published.core(), MEGATRON_CORE, ["matmul", "passes", "tensor_overlap"], []),
    ],
    ids=["2021", "2022", "core"],
)
def test_the_constants_are_those_that_fit_best(rows, software, names, layers):
    hardware = H100 if software is MEGATRON_CORE else A100
    measured = [row.measured() for row in rows] + [one for layer in layers for one in layer.measured(0.3)]
    again = fit(software, names, measured, hardware)
    for name in names:
        assert getattr(again, name) == pytest.approx(getattr(software, name), rel=0.05), name


def test_no_constant_of_nanotron_fits_better_a_tenth_higher_or_lower():
    """The whole fit takes minutes (`refit`): here each constant is moved alone."""

    def badness(rows, **moved):
        bench = Bench(H100, replace(NANOTRON, **moved))
        found = np.array([math.log(row.predicted(bench) / row.seconds) for row in rows])
        return loss(found, refit.ROBUST)

    for names, rows in ((refit.STEP, refit.grid_rows(refit.NODES)), (refit.STALL, refit.grid_rows())):
        least = badness(rows)
        for name in names:
            for factor in (0.9, 1.1):
                assert badness(rows, **{name: factor * getattr(NANOTRON, name)}) >= 0.995 * least, (name, factor)


@pytest.mark.parametrize("nth", range(len(published.table_1())))
def test_a_row_left_out_of_the_fit_is_still_predicted(nth):
    rows = published.table_1()
    others = [*rows[:nth], *rows[nth + 1 :], *published.table_2()]
    software = fit(MEGATRON_2021, ["matmul", "passes"], [row.measured() for row in others], A100)
    assert abs(errors([rows[nth]], Bench(A100, software))[0]) <= 0.06


def figure(which: str) -> list[dict[str, float | str]]:
    rows = json.loads((DATA / "calculon_korthikanti_fig1_fig7.json").read_text())
    return [row for row in rows if which in row]


@pytest.mark.parametrize("row", figure("act_gib"), ids=lambda row: f"{row['model']} {row['mode']}")
def test_bytes_of_figure_1(row):
    layout = published.table_3()[row["model"]][1]
    if row["mode"] == "seq+sel":
        layout = layout._replace(recompute=Recompute.SELECTIVE, sequence_parallel=True)
    found = memory(model_by_name(f"gpt-{row['model']}"), layout, Bench(A100, MEGATRON_2022))[0]
    states = found.weights + found.gradients + found.optimizer
    assert found.activations / 2**30 == pytest.approx(row["act_gib"], rel=0.02)
    assert states / 2**30 == pytest.approx(row["param_opt_gib"], rel=0.03)


@pytest.mark.parametrize("row", figure("seqsel"), ids=lambda row: row["model"])
def test_percentages_of_figure_7(row):
    plain = published.table_3()[row["model"]][1]

    def activations(recompute: Recompute, sequence_parallel: bool) -> float:
        layout = plain._replace(recompute=recompute, sequence_parallel=sequence_parallel)
        return memory(model_by_name(f"gpt-{row['model']}"), layout, Bench(A100, MEGATRON_2022))[0].activations

    whole = activations(Recompute.NONE, False)
    ways = {
        "seq": (Recompute.NONE, True),
        "sel": (Recompute.SELECTIVE, False),
        "seqsel": (Recompute.SELECTIVE, True),
        "full": (Recompute.FULL, False),
    }
    for name, way in ways.items():
        assert 100 * activations(*way) / whole == pytest.approx(row[name], abs=2), name


@cache
def predicted() -> list[tuple[Run, Prediction | None]]:
    """The playbook's grid; None where a model cannot be cut so."""
    bench = Bench(H100, NANOTRON)
    runs = published.grid()
    return [(r, None if r.layout.refused(r.model) else predict(r.model, r.layout, bench)) for r in runs]


Cell = tuple[str, int]
BROKEN: dict[Cell, str] = {
    ("8B", 2): "the layout chosen, dp=8 pp=2 tp=1, took 2.7 times as long a micro-batch as on 4 and on 8 nodes",
    ("1B", 64): "nearly every run takes a second or more, however little it has to do",
    ("8B", 64): "nearly every run takes a second or more, however little it has to do",
}
"""Cells whose measurement is not that of the layouts: why, and below the test of that."""


def cells() -> dict[Cell, list[tuple[Run, float]]]:
    """By model and nodes the runs that have a figure, with the predicted seconds of a step."""
    found: dict[Cell, list[tuple[Run, float]]] = {}
    for run, one in predicted():
        if run.ok:
            found.setdefault((run.size, run.nodes), []).append((run, one.step_seconds if one else np.inf))
    return found


def ranks(values: Sequence[float]) -> np.ndarray:
    """Places from the smallest, ties sharing theirs."""
    values = np.asarray(values)
    return (values[:, None] > values).sum(1) + ((values[:, None] == values).sum(1) - 1) / 2


def spearman(a: Sequence[float], b: Sequence[float]) -> float:
    return float(np.corrcoef(ranks(a), ranks(b))[0, 1])


def test_the_grid_is_ranked():
    by_cell = {}
    for cell, runs in cells().items():
        by_cell[cell] = spearman([run.seconds for run, _ in runs], [seconds for _, seconds in runs])
        print(*cell, len(runs), round(by_cell[cell], 3))
    assert len(by_cell) == 14
    assert np.median(list(by_cell.values())) >= 0.90


def test_the_first_choice_is_among_the_best():
    reached = {}
    for cell, runs in cells().items():
        chosen, _ = min(runs, key=lambda pair: pair[1])
        reached[cell] = min(run.seconds for run, _ in runs) / chosen.seconds
        print(*cell, chosen.layout, round(reached[cell], 3), BROKEN.get(cell, ""))
    assert np.median(list(reached.values())) >= 0.95
    assert min(share for cell, share in reached.items() if cell not in BROKEN) >= 0.85


def test_what_is_called_broken_is():
    by_cell = cells()
    slots = {}
    for nodes in (2, 4, 8):
        (run,) = (
            run
            for run, _ in by_cell["8B", nodes]
            if (run.layout.pp, run.layout.tp, run.layout.micro_batch, run.layout.zero) == (2, 1, 1, 1)
        )
        slots[nodes] = run.seconds / (run.layout.micro_batches + 1)
    assert slots[2] > 2.5 * max(slots[4], slots[8])
    for name in ("1B", "8B"):
        seconds = [run.seconds for run, _ in by_cell[name, 64]]
        assert np.median(seconds) > 2 * np.median([run.seconds for run, _ in by_cell[name, 16]])
        assert np.mean(np.array(seconds) > 1) > 0.8


def test_what_fits_ran():
    agree = [(one is not None and one.fits) == run.ok for run, one in predicted()]
    print(np.mean(agree))
    assert np.mean(agree) >= 0.90


def test_memory_of_the_grid():
    off = [worst(one.memory).total / 2**30 / run.memory - 1 for run, one in predicted() if one and run.memory]
    print(np.median(np.abs(off)))
    assert np.median(np.abs(off)) <= 0.15


def test_what_was_not_calibrated_is_said():
    bench = Bench(H100, NANOTRON)
    run = published.grid()[0]
    assert predict(run.model, run.layout, bench).warnings == ()
    large = predict(model_by_name("playbook-80b"), run.layout._replace(tp=64), bench)
    assert any("hidden 8,192 (calibrated on 2,048 to 4,096)" in warning for warning in large.warnings)
    assert any("tp 64" in warning for warning in large.warnings)
