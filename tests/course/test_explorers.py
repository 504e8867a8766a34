from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from course.figures.lesson00 import on_real_ranks, predict_bubble, stage_alone
from course.progress import Progress
from course.widgets import pipeline
from course.widgets.pipeline import MOST_MICRO_BATCHES, MOST_STAGES, look
from minipar.pipeline import gpipe

SVG = "{http://www.w3.org/2000/svg}"


@given(p=st.integers(1, MOST_STAGES), m=st.integers(1, MOST_MICRO_BATCHES))
def test_every_position_of_the_sliders_shows_the_librarys_numbers(p: int, m: int) -> None:
    view = look(p, m)
    facts = [value for _, value in view.facts]
    shown = [float(fact.split()[0]) for fact in facts[:3]]
    assert [fact.split()[1] for fact in facts[:3]] == ["%", "%", "times"]
    assert shown[0] == pytest.approx(100 * (p - 1) / (m + p - 1), abs=0.5001)
    assert shown[1] == pytest.approx(100 * (p - 1) / m, abs=0.5001)
    assert shown[2] == pytest.approx(p * m / (m + p - 1), abs=0.05001)
    assert facts[3] == f"{max(gpipe(p, m).peak_live)} of {m}"
    assert ElementTree.fromstring(view.picture).tag == f"{SVG}svg"


def test_moving_a_slider_changes_picture_and_facts() -> None:
    explorer = pipeline(stages=4, micro_batches=1)
    before = explorer.picture, explorer.facts
    explorer.values = {"stages": 4, "micro_batches": 8}
    assert explorer.picture != before[0]
    assert explorer.facts != before[1]
    assert "8 micro-batches" in explorer.picture


def test_a_value_outside_the_slider_is_brought_inside() -> None:
    explorer = pipeline()
    explorer.values = {"stages": 10**6, "micro_batches": -5}
    assert f"{MOST_STAGES} stages, 1 micro-batch" in explorer.picture


def test_a_prediction_is_kept_and_answered_and_nonsense_is_asked_for_again() -> None:
    widget = predict_bubble(4, 1)
    widget._handle_custom_msg({"prediction": "lots"}, [])
    assert "write a number" in widget.outcome["notice"]
    assert "picture" not in widget.outcome
    widget._handle_custom_msg({"prediction": "37,5 %"}, [])
    assert widget.outcome["sentences"][0] == "You said 37.5 %; it is 75 %."
    assert "<svg" in widget.outcome["picture"]
    (event,) = Progress().events("prediction", "00-start/bubble-4-1")
    assert event.detail == {"predicted": 37.5, "truth": 75.0, "question": widget.question, "unit": "%"}


def test_the_answer_is_not_in_the_page_before_the_prediction() -> None:
    assert "75" not in str(predict_bubble(4, 1).get_state(["question", "unit", "words", "outcome"]))


@pytest.mark.parametrize(("stages", "micro_batches"), [(2, 3), (5, 9)])
def test_a_real_run_shows_predicted_and_measured(stages: int, micro_batches: int) -> None:
    page = on_real_ranks(stages, micro_batches).data
    rows = [text.text for text in ElementTree.fromstring(page).iter(f"{SVG}text")]
    assert sum(bool(text and text.startswith("predicted: idle")) for text in rows) == 1
    assert sum(bool(text and text.startswith("measured on real processes (emulated pace): idle")) for text in rows) == 1
    assert rows.count(f"rank {stages - 1}") == 2


def test_one_rank_alone_is_never_idle() -> None:
    assert "idle 0 % of the time" in stage_alone().data
