"""The explorer of lesson 06: every position shows what simulator and planner have, and the lesson's answers hold."""

from __future__ import annotations

from dataclasses import replace
from xml.etree import ElementTree

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from course.widgets.micro_batches import (
    BLOCKS,
    COUNTS,
    GIB,
    MODEL,
    NOTHING,
    SAMPLES,
    STAGE,
    STAGES,
    Cut,
    bench,
    cuts,
    fastest,
    look,
    micro_batches,
)
from course.widgets.units import seconds_in_words
from minipar.pipeline import gpipe, simulate
from minipar.plan import Numbers, memory
from minipar.recompute import Recompute

PLACE, COUNT, AGAIN = st.integers(0, len(STAGES) - 1), st.integers(0, len(COUNTS) - 1), st.integers(NOTHING, STAGE)


@settings(max_examples=120, deadline=None)
@given(p=PLACE, m=COUNT, again=AGAIN)
def test_every_position_is_a_step_of_gpipe(p: int, m: int, again: int) -> None:
    cut, view = Cut(STAGES[p], COUNTS[m], again), look(p, m, again)
    timeline = simulate(gpipe(cut.stages, cut.micro_batches), cut.costs)
    assert cut.step == pytest.approx(timeline.duration)
    facts = dict(view.facts)
    assert facts["step"] == seconds_in_words(cut.step)
    idle = float(facts["bubble: idle share of all time"].split()[0])
    assert idle == pytest.approx(100 * timeline.bubble_of_total, abs=0.5001)
    assert (", no room" in facts["a rank holds"]) == (not cut.fits)
    ElementTree.fromstring(view.picture)


@given(p=PLACE, m=COUNT)
def test_a_rank_holds_what_the_planner_says_that_blocks_hold(p: int, m: int) -> None:
    stages, count = STAGES[p], COUNTS[m]
    for again, recompute in ((NOTHING, Recompute.NONE), (BLOCKS, Recompute.FULL)):
        own = Cut(stages, count, again).bytes
        numbers = Numbers(
            pp=stages, micro_batch=SAMPLES // count, micro_batches=count, schedule="gpipe", recompute=recompute
        )
        even = replace(bench().software, by_count=True)  # as many blocks in every stage: here the ends count nothing
        found = memory(MODEL, numbers, bench()._replace(software=even))[0]
        assert own["kept"] == pytest.approx(found.activations)
        assert own["inside"] == pytest.approx(found.buffers)
        assert own["states"] == pytest.approx(found.weights + found.gradients + found.optimizer)


def test_only_recompute_makes_a_finer_cut_hold_less() -> None:
    held = {again: [sum(cut.bytes.values()) for cut in cuts(2, again)] for again in (NOTHING, BLOCKS, STAGE)}
    assert max(held[NOTHING]) == pytest.approx(min(held[NOTHING]))
    for again in (BLOCKS, STAGE):
        assert held[again] == sorted(held[again], reverse=True)
        assert held[again][-1] < held[again][0]
    assert held[BLOCKS][0] < held[STAGE][0]
    assert held[STAGE][-1] < held[BLOCKS][-1]


def test_the_answers_of_the_lesson() -> None:
    four = STAGES.index(4)
    best = fastest(four, NOTHING)
    assert best is not None
    assert best.micro_batches == 32
    assert cuts(four, NOTHING)[-1].step / best.step > 3
    assert fastest(STAGES.index(2), NOTHING) is None
    assert {f"{sum(cut.bytes.values()) / GIB:.0f}" for cut in cuts(STAGES.index(2), NOTHING)} == {"114"}
    finest, again = cuts(four, STAGE)[-1], fastest(four, STAGE)
    assert f"{sum(finest.bytes.values()) / GIB:.1f} GiB, {seconds_in_words(finest.step)}" == "5.9 GiB, 2.34 s"
    assert again is not None
    assert again.micro_batches == 32
    assert f"{sum(again.bytes.values()) / GIB:.1f} GiB, {seconds_in_words(again.step)}" == "7.1 GiB, 927 ms"


def test_sliders_move_the_picture() -> None:
    explorer = micro_batches()
    for control in explorer.controls:
        before = explorer.picture
        explorer.values = {**explorer.values, control["name"]: control["most"]}
        assert explorer.picture != before, control["name"]
