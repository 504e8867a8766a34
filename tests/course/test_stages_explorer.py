"""The explorer of lesson 05: every position shows the planner's times, and the rule of the line."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from course.widgets.stages import BY_COUNT, BY_TIME, MODELS, MOST_MICRO_BATCHES, MOST_STAGES, line, look, stages
from course.widgets.units import seconds_in_words
from minipar.draw.frame import svg
from minipar.draw.stacked import stacked_svg
from minipar.plan import model_by_name

SVG = "{http://www.w3.org/2000/svg}"
MODEL = st.integers(0, len(MODELS) - 1)
STAGES = st.integers(1, MOST_STAGES)


@settings(max_examples=120, deadline=None)
@given(model=MODEL, p=STAGES, cut=st.integers(BY_COUNT, BY_TIME), m=st.integers(1, MOST_MICRO_BATCHES))
def test_every_position_follows_the_rule(model: int, p: int, cut: int, m: int) -> None:
    view, cut_model = look(model, p, cut, m), line(model, p, cut)
    times = cut_model.stage_seconds
    step = sum(times) + (m - 1) * sum(max(cut_model.seconds(way)) for way in (0, 1))  # the slowest each way
    assert sum(cut_model.blocks) == model_by_name(MODELS[model]).layers
    facts = dict(view.facts)
    assert facts["slowest stage"].startswith(f"{seconds_in_words(max(times))}, ")
    assert facts["step"] == seconds_in_words(step)
    idle = 100 * (1 - m * sum(times) / (p * step))
    assert float(facts["bubble: idle share of all time"].split()[0]) == pytest.approx(idle, abs=0.5001)
    texts = [text.text for text in ElementTree.fromstring(view.picture).iter(f"{SVG}text")]
    assert texts.count("rank 0") == 1
    assert sum(str(text).startswith("rank ") for text in texts) == 2 * p


@given(model=MODEL, p=STAGES)
def test_a_cut_by_time_is_never_slower(model: int, p: int) -> None:
    by_count, by_time = (max(line(model, p, cut).stage_seconds) for cut in (BY_COUNT, BY_TIME))
    assert by_time <= by_count * (1 + 1e-9)


def test_the_answers_of_the_lesson() -> None:
    llama, playbook = MODELS.index("llama3-8b"), MODELS.index("playbook-1b")
    steps = [dict(look(llama, 4, cut, m).facts)["step"] for m in (1, 16) for cut in (BY_COUNT, BY_TIME)]
    assert steps == ["863 ms", "863 ms", "4.92 s", "4.29 s"]
    assert line(llama, 4, BY_TIME).blocks == (9, 9, 8, 6)
    found = {p: dict(look(playbook, p, BY_TIME, 16).facts)["step"] for p in range(3, MOST_STAGES + 1)}
    assert found.pop(3) != "625 ms"
    assert set(found.values()) == {"625 ms"}
    assert seconds_in_words(max(line(playbook, 4, BY_TIME).stage_seconds)) == "34.3 ms"


def test_sliders_move_the_picture() -> None:
    explorer = stages()
    for control in explorer.controls:
        before = explorer.picture
        explorer.values = {**explorer.values, control["name"]: control["most"]}
        assert explorer.picture != before, control["name"]


def test_pictures_stand_below_each_other_and_say_what_all_show() -> None:
    one, other = svg(40, "one & only", ["<text>1</text>"]), svg(60, "other", ["<text>2</text>"])
    both = ElementTree.fromstring(stacked_svg([one, other]))
    assert both.get("aria-label") == "one & only. other"
    assert both.get("viewBox") == "0 0 900 114"
    assert [text.text for text in both.iter(f"{SVG}text")] == ["1", "2"]
    with pytest.raises(ValueError, match="no picture"):
        stacked_svg(["<p>words</p>"])
