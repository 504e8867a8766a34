import re
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

import pytest
from hypothesis import given
from hypothesis import strategies as st

from docs.pictures import HERE, pictures
from minipar.draw import BACKWARD, FORWARD, Panel, column_split_svg, gantt_svg, gantt_text, nice_step
from minipar.pipeline import Costs, Timeline, gpipe, naive, simulate

SVG = "{http://www.w3.org/2000/svg}"


def drawn(timeline: Timeline, title: str = "A title") -> Element:
    return ElementTree.fromstring(gantt_svg([Panel("predicted", timeline)], title, "time"))


def boxes(picture: Element, fill: str) -> list[dict[str, str]]:
    """The boxes of the chart in this colour; each panel has all of a colour in one path."""
    drawn = "".join(path.attrib["d"] for path in picture.iter(f"{SVG}path") if path.get("fill") == fill)
    found = re.findall(r"M([\d.]+) ([\d.]+)h([\d.]+)v([\d.]+)h-([\d.]+)z", drawn)
    assert all(right == left for _, _, right, _, left in found)
    return [dict(zip(("x", "y", "width", "height"), box, strict=False)) for box in found]


@given(p=st.integers(1, 8), m=st.integers(1, 32), backward=st.floats(0.1, 5))
def test_every_action_has_a_box_as_long_as_it_takes(p: int, m: int, backward: float) -> None:
    timeline = simulate(gpipe(p, m), Costs(1.0, backward))
    picture = drawn(timeline)
    per_second = 830 / timeline.duration
    for fill, seconds in ((FORWARD, 1.0), (BACKWARD, backward)):
        found = boxes(picture, fill)
        assert len(found) == p * m
        for box in found:
            assert float(box["width"]) == pytest.approx(max(seconds * per_second - 1, 0.5), abs=0.06)


@given(p=st.integers(1, 8), m=st.integers(1, 32))
def test_nothing_is_drawn_outside_the_picture(p: int, m: int) -> None:
    picture = drawn(simulate(gpipe(p, m)))
    width, height = map(float, picture.attrib["viewBox"].split()[2:])
    for box in boxes(picture, FORWARD) + boxes(picture, BACKWARD):
        assert float(box["x"]) + float(box["width"]) <= width
        assert float(box["y"]) + float(box["height"]) <= height


def test_panels_share_one_scale() -> None:
    short, long = simulate(naive(2)), simulate(naive(2), Costs(2.0, 4.0))
    picture = ElementTree.fromstring(gantt_svg([Panel("a", short), Panel("b", long)], "", "time"))
    widths = sorted(float(box["width"]) + 1 for box in boxes(picture, FORWARD))
    assert widths[0] * 2 == pytest.approx(widths[-1], abs=0.2)


def test_the_bubble_stands_in_words_in_the_picture_and_for_who_cannot_see_it() -> None:
    picture = drawn(simulate(gpipe(4, 8)))
    assert "predicted: idle 27 % of the time" in [text.text for text in picture.iter(f"{SVG}text")]
    assert picture.attrib["role"] == "img"
    assert picture.attrib["aria-label"] == "A title; predicted: idle 27 % of the time"


def test_a_title_is_text_not_markup() -> None:
    title = "<script>alert('1 & 2')</script>"
    picture = drawn(simulate(naive(1)), title)
    assert title in [text.text for text in picture.iter(f"{SVG}text")]
    assert not list(picture.iter(f"{SVG}script"))


def test_idle_has_no_colour_and_text_takes_the_pages() -> None:
    text = gantt_svg([Panel("", simulate(gpipe(4, 2)))], "", "")
    assert set(re.findall(r'fill="(#\w+)"', text)) == {FORWARD, BACKWARD, "#ffffff", "#000000"}
    assert 'fill="currentColor"' in text


def test_a_micro_batch_is_numbered_where_there_is_room() -> None:
    assert [t.text for t in drawn(simulate(gpipe(2, 3))).iter(f"{SVG}text")].count("2") >= 4
    crowded = [t.text for t in drawn(simulate(gpipe(8, 200))).iter(f"{SVG}text")]
    assert "199" not in crowded


def test_an_empty_timeline_is_drawn_without_an_error() -> None:
    assert drawn(Timeline((), 2)).tag == f"{SVG}svg"


@given(st.floats(1e-6, 1e6), st.integers(2, 20))
def test_ticks_are_at_round_numbers_and_not_too_many(length: float, most: int) -> None:
    step = nice_step(length, most)
    assert length / step <= most * (1 + 1e-6)
    assert f"{step:e}"[0] in "1259" or f"{step:.0e}"[0] in "125"


def test_the_terminals_chart_is_a_staircase_that_can_be_read_without_colours() -> None:
    rows = str(gantt_text(Panel("naive", simulate(naive(2), Costs(1, 1))), width=7 + 16)).splitlines()
    assert rows == [
        "naive: idle 50 % of the time",
        "rank 0 F0──········B0──",
        "rank 1 ····F0──B0──····",
    ]


@given(p=st.integers(1, 8), m=st.integers(1, 64), width=st.integers(20, 200))
def test_the_terminals_rows_all_have_the_width_asked_for(p: int, m: int, width: int) -> None:
    rows = str(gantt_text(Panel("", simulate(gpipe(p, m))), width)).splitlines()[1:]
    assert {len(row) for row in rows} == {width}


def test_the_column_split_shows_a_part_for_each_rank() -> None:
    words = [text.text for text in ElementTree.fromstring(column_split_svg(3)).iter(f"{SVG}text")]
    assert [f"w{i}" in words and f"y{i}" in words for i in range(4)] == [True, True, True, False]


def test_the_readmes_pictures_are_the_ones_that_the_project_makes() -> None:
    for name, picture in pictures().items():
        assert (HERE / name).read_text(encoding="utf-8") == picture + "\n", "run: make pictures"
