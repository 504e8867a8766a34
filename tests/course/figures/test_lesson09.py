"""The figures of lesson 09: the grid is the published one, and what is asked is what was measured."""

from __future__ import annotations

from statistics import fmean
from xml.etree import ElementTree

import pytest

from course.exercises.exercise import Refused
from course.exercises.lesson09 import (
    MODEL,
    WITHIN,
    Job,
    _first_choice,
    _first_three,
    _layout,
    _one_plan_for_all,
    _predicted,
    bench_of,
    best_of,
    candidates,
    jobs,
    plan,
    shortlist,
)
from course.figures.grid import cell, grid
from course.figures.lesson09 import beside, parts_of, predict_choice, predict_cost
from minipar.bench.plan import LAYOUTS, Row
from minipar.plan import Space, predict, search
from tests.minipar.plan import published


def test_the_grid_is_the_published_one() -> None:
    ours = {(one.size, one.nodes, run.layout, run.tokens) for one in grid() for run in one.runs}
    theirs = {
        (run.size, run.nodes, run.layout, float(round(run.tokens)))
        for run in published.grid()
        if run.ok and not run.layout.refused(run.model)
    }
    assert ours == theirs
    assert len(grid()) == 14


def test_an_unknown_cell_is_refused_with_those_there_are() -> None:
    with pytest.raises(ValueError, match="8B on 64"):
        cell("3B", 1)


@pytest.mark.parametrize("ask", [predict_choice, predict_cost])
def test_a_prediction_has_its_picture(ask) -> None:  # type: ignore[no-untyped-def]
    assert ElementTree.fromstring(ask().reveal(1.0)["picture"]).tag.endswith("svg")


def test_the_first_choice_is_the_best_in_five_cells_and_a_higher_mfu_costs_more() -> None:
    assert predict_choice()._truth == sum(one.chosen == one.best for one in grid()) == 5
    assert predict_cost()._truth == pytest.approx(100 * (40150 / 38895 - 1), abs=0.05)


def test_predicted_and_measured_stand_beside_each_other_in_the_predicted_order() -> None:
    rows = [Row(layout, 0.1 * (6 - nth), 0.2 * (6 - nth)) for nth, layout in enumerate(LAYOUTS)]
    page = beside(rows).data
    names = [page.index(f"{layout.micro_batches} micro-batch") for layout in (LAYOUTS[-1], LAYOUTS[0])]
    assert names == sorted(names)
    assert "14 of 14 pairs" in page or "15 of 15 pairs" in page


def test_the_seconds_of_a_layout_are_the_predictions() -> None:
    job = jobs()[0]
    one = best_of(job)
    assert f"{one.step_seconds:.1f} s" in parts_of([one], "one").data


def test_a_shortlist_of_different_meshes_beats_the_planners_first_three() -> None:
    def reached(choose) -> float:  # type: ignore[no-untyped-def]
        shares = []
        for one in grid():
            chosen = choose([dict(candidate) for candidate in candidates(one)])
            shares.append(max(one.share(one.runs[place]) for place in chosen))
        return fmean(shares)

    first, three, meshes = reached(_first_choice), reached(_first_three), reached(shortlist)
    assert first == pytest.approx(0.833, abs=0.005)
    assert three == pytest.approx(0.911, abs=0.005)
    assert meshes == pytest.approx(0.953, abs=0.005)


@pytest.mark.parametrize("turn", range(3))
def test_the_solutions_plan_is_the_best_that_fits(turn: int) -> None:
    job: Job = jobs()[turn]
    layout = _layout(plan(job), "")
    assert _predicted(layout, job, "").step_seconds == pytest.approx(best_of(job).step_seconds)
    free = search(MODEL, bench_of(job), 1024, int(job["batch"]), Space(), top=1).layouts[0]
    assert free.step_seconds <= best_of(job).step_seconds


def test_no_single_plan_is_good_for_all_jobs() -> None:
    for _turn in range(5):
        ratios = []
        for job in jobs():
            found = predict(MODEL, _layout(_one_plan_for_all(job), ""), bench_of(job))
            ratios.append(found.step_seconds / best_of(job).step_seconds)
        assert max(ratios) > WITHIN


def test_a_plan_that_breaks_a_rule_is_told_which() -> None:
    job = jobs()[0]
    good = plan(job)
    for change, reason in (
        ({"schedule": "zb-h1", "virtual": 1}, "the trainer does"),
        ({"zero": 2}, "the trainer does"),
        ({"dp": 2 * good["dp"]}, "there are 1024 GPUs"),
        ({"micro_batches": good["micro_batches"] + 1}, "samples"),
        ({"recompute": "all"}, "is not a valid"),
        ({"tp": 5}, "divisible"),
    ):
        with pytest.raises(Refused) as caught:
            _predicted(_layout({**good, **change}, ""), job, "")
        assert reason in caught.value.verdict.message
