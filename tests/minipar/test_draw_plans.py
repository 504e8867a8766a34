"""Pictures of plans: bars of memory and of seconds, and the landscape."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from minipar.draw import landscape_svg, landscape_text, memory_svg, memory_text, seconds_svg, seconds_text
from minipar.draw.bars import Bar, Chart, Part, bars_svg
from minipar.plan import Bench, Numbers, hardware_by_name, model_by_name, predict
from minipar.plan.generations import MEGATRON_2022
from minipar.recompute import Recompute

BENCH = Bench(hardware_by_name("a100-80gb"), MEGATRON_2022)
MODEL = model_by_name("gpt-22b")
BY_RECOMPUTE = [(r.value, predict(MODEL, Numbers(tp=8, micro_batch=4, recompute=r), BENCH)) for r in Recompute]


def drawn(svg: str) -> ElementTree.Element:
    return ElementTree.fromstring(svg)


def boxes(svg: str) -> dict[str, float]:
    """The width of each box that says what it is, by that."""
    found = {}
    for rect in drawn(svg).iter("{http://www.w3.org/2000/svg}rect"):
        said = rect.find("{http://www.w3.org/2000/svg}title")
        if said is not None and said.text:
            found[said.text] = float(rect.get("width", 0))
    return found


@pytest.mark.parametrize("picture", [memory_svg, seconds_svg])
def test_boxes_are_as_wide_as_what_they_say(picture):
    found = boxes(picture(BY_RECOMPUTE, "A title"))
    assert len(found) > 10
    scales = []
    for said, width in found.items():
        number = float(re.search(r" ([\d.]+) (?:GiB|s) \(", said)[1])
        scales.append((width / number, number))
    usual = max(scales, key=lambda pair: pair[1])[0]
    for scale, number in scales:
        assert scale == pytest.approx(usual, rel=0.06 if number < 1 else 0.01)  # numbers are rounded to three digits


def test_what_has_no_room_is_marked_and_said():
    picture = memory_svg(BY_RECOMPUTE, "A title")
    assert picture.count('class="too-much"') == 2
    assert "it does not fit" in picture
    assert "room for tensors 75.1 GiB" in picture
    words = drawn(picture).get("aria-label")
    assert "none: 106 GiB, 31.1 too much" in words
    text = memory_text(BY_RECOMPUTE, 100).plain
    assert "106 GiB" in text
    assert "52.7 GiB" in text


def test_no_name_crosses_the_limit():
    picture = drawn(memory_svg(BY_RECOMPUTE, "A title"))
    line = next(p for p in picture.iter("{http://www.w3.org/2000/svg}path") if p.get("stroke-width") == "2.5")
    limit = float(re.match(r"M([\d.]+)", line.get("d"))[1])
    for text in picture.iter("{http://www.w3.org/2000/svg}text"):
        if text.get("text-anchor") == "middle" and text.text and not re.fullmatch(r"[\d.]+", text.text):
            half = 0.5 * 0.5 * float(text.get("font-size", 12)) * len(text.text)
            assert not float(text.get("x")) - half < limit < float(text.get("x")) + half, text.text


def test_a_bar_for_every_pipeline_rank():
    found = predict(MODEL, Numbers(pp=4, tp=8, micro_batches=8), BENCH)
    words = drawn(memory_svg([("", found)], "A title", by_rank=True)).get("aria-label")
    assert [f"rank {rank}" in words for rank in range(5)] == [True] * 4 + [False]


def test_the_bubble_is_the_page_and_in_words():
    found = predict(MODEL, Numbers(pp=4, tp=8, micro_batches=8), BENCH)
    picture = seconds_svg([("", found)], "A title")
    bubble = next(
        rect
        for rect in drawn(picture).iter("{http://www.w3.org/2000/svg}rect")
        if "bubble" in (rect.findtext("{http://www.w3.org/2000/svg}title") or "")
    )
    assert bubble.get("fill") == "none"
    share = found.time.bubble / found.step_seconds
    assert f"idle {share:.0%}".replace("%", " %") in picture
    assert f"{share:.0%}".replace("%", " %") in seconds_text([("", found)], 100).plain


@settings(max_examples=60, deadline=None)
@given(
    sizes=st.lists(st.lists(st.floats(0, 1e6) | st.just(0.0), min_size=3, max_size=3), min_size=0, max_size=5),
    limit=st.floats(0.1, 1e6),
    label=st.text(max_size=30).filter(str.isprintable),
)
def test_bars_of_any_size_stay_inside_the_picture(sizes, limit, label):
    parts = (Part("one <b>", "#000000"), Part("two", None), Part("three & four", None, hatched=True))
    bars = tuple(Bar(label, tuple(row), "all of it", limit=limit) for row in sizes)
    picture = drawn(bars_svg(Chart(parts, bars, "x", "an axis", "room"), "<title>"))
    _, _, width, height = map(float, picture.get("viewBox").split())
    for rect in picture.iter("{http://www.w3.org/2000/svg}rect"):
        x, y = float(rect.get("x", 0)), float(rect.get("y", 0))
        assert -0.01 <= x <= x + float(rect.get("width")) <= width + 0.01
        assert -0.01 <= y <= y + float(rect.get("height")) <= height + 0.01


CELLS = {(8, 1, 1): None, (4, 2, 1): 2.0, (4, 1, 2): 1.0, (2, 2, 2): 4.0, (1, 8, 1): None}
REASONS = {(8, 1, 1): "no <room>", (1, 8, 1): "too few layers"}


def test_the_landscape_marks_the_best_and_says_why_others_are_refused():
    picture = landscape_svg(CELLS, (4, 1, 2), "A title", "s a step", REASONS)
    assert picture.count("★") == 1
    words = drawn(picture).get("aria-label")
    assert "A title: best is dp=4 × pp=1 × tp=2 with 1.00 s a step" in words
    said = [title.text for title in drawn(picture).iter("{http://www.w3.org/2000/svg}title")]
    assert "dp=8 × pp=1 × tp=1 is refused: no <room>" in said
    assert "dp=4 × pp=2 × tp=1: 2.00 s a step, 50 % of the best's speed" in said
    assert "not drawn, as all are refused: pp=8" in words
    text = landscape_text(CELLS, (4, 1, 2), "s a step", REASONS).plain
    assert "8×1×1: no <room>" in text
    assert "★" in text


@pytest.mark.parametrize(
    ("cells", "best", "says"),
    [
        ({(1, 1, 1): -1.0}, (1, 1, 1), "it must be a finite number of at least 0"),
        ({(1, 1, 1): 1.0}, None, "name the one that is best"),
        ({(1, 2, 1): 1.0, (2, 1, 1): None}, (2, 1, 1), "has no value"),
        ({(4, 1, 1): 1.0, (2, 2, 1): 2.0, (1, 4, 1): 3.0}, (2, 2, 1), "neither the least nor the most"),
        ({(1, 1, 1): 1.0, (2, 1, 1): 2.0}, (1, 1, 1), "different numbers of GPUs"),
    ],
)
def test_a_landscape_that_cannot_be_is_refused(cells, best, says):
    with pytest.raises(ValueError, match=says):
        landscape_svg(cells, best, "A title", "s")
