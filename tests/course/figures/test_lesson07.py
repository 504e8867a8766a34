"""Lesson 07: what is predicted is the simulator's, what is printed is the paper's, and ten schedules really run."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree

import pytest

from course.figures import lesson07 as figures
from course.widgets.schedules import NAMES, TITLES
from minipar.pipeline import by_name, gpipe, interleaved, one_f_one_b, simulate
from tests.course.figures.test_lesson06 import rows, truth

DATA = Path(__file__).parents[2] / "data"


def test_1f1b_is_as_idle_as_gpipe_and_its_first_rank_holds_as_many_as_there_are_ranks() -> None:
    assert truth(figures.predict_same()) == pytest.approx(100 * simulate(gpipe(4, 8)).bubble_of_total, abs=0.05)
    assert truth(figures.predict_live(32)) == truth(figures.predict_live(128)) == 4
    assert "holds 32 of them" in figures.predict_live(32).question


def test_messages_are_counted_at_every_border() -> None:
    borders = len(interleaved(4, 8, 2).holder) - 1
    assert truth(figures.predict_messages()) == 2 * 8 * borders
    assert f"sends {2 * 8 * 3} tensors" in figures.predict_messages().question


def test_times_and_bubbles_are_the_published_ones() -> None:
    profile = json.loads((DATA / "zb_table9_profile.json").read_text())
    table = json.loads((DATA / "zb_table5_bubble.json").read_text())
    for of in (figures.SMALL, figures.LARGE):
        (row,) = [r for r in profile if (r["model"], r["p"], r["m"]) == (of.model, of.ranks, of.micro_batches)]
        assert (of.forward, of.input, of.weight, of.send) == (row["T_F"], row["T_B"], row["T_W"], row["T_comm"])
        (printed,) = [r for r in table if (r["model"], r["p"], r["m"]) == (of.model, of.ranks, of.micro_batches)]
        for name, title in (("1f1b", "1F1B"), ("zb-h1", "ZB-H1"), ("zb-h2", "ZB-H2")):
            assert figures.PRINTED[of.model, name] == printed[title]
            assert round(of.bubble(name), 4) == printed[title]
    assert figures.printed_table().count("\n") == len(figures.PRINTED) - 1


def test_what_is_asked_of_the_paper_is_in_the_paper() -> None:
    assert truth(figures.predict_backward()) == pytest.approx(29.444 + 19.927, abs=0.05)
    assert truth(figures.predict_price()) == 59
    assert "23 % faster" in figures.predict_price().question


def test_charts_say_what_a_rank_holds() -> None:
    page = rows(figures.chart(["1f1b", "interleaved"], "title").data)
    assert "1F1B, holds 4 micro-batches: idle 27 % of the time" in page
    assert "interleaved 1F1B, holds 5.5 micro-batches: idle 16 % of the time" in page
    assert one_f_one_b(4, 8).room == 4


def test_schedules_run_on_real_ranks_and_are_laid_over_their_predictions() -> None:
    names = ("1f1b", "interleaved", "zb-v")
    measured = figures.measured_steps(names)
    assert tuple(measured) == names
    for name, timeline in measured.items():
        schedule = by_name(name, figures.RANKS, figures.COUNT)
        assert timeline.emulated
        assert len(timeline.spans) == sum(map(len, schedule.actions))
        assert timeline.bubble_of_total >= figures.predicted(name).bubble_of_total - 0.05
    page = rows(figures.laid_over(measured).data)
    assert {TITLES[name] for name in names} <= set(page)
    assert any("predicted 27 %" in text for text in page)
    ElementTree.fromstring(figures.beside(measured, "zb-v").data)


def test_every_schedule_of_the_gallery_has_the_same_work() -> None:
    assert len({round(figures.predicted(name).busy, 9) for name in NAMES}) == 1
