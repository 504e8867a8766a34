"""The picture of curves: every point is inside, at its place; what cannot be shown is refused."""

import math
import re
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minipar.draw.curves import HEIGHT, LEFT, RIGHT, Axis, Curve, curves_svg
from minipar.draw.frame import WIDTH

SVG = "{http://www.w3.org/2000/svg}"
numbers = st.floats(1e-9, 1e12)


def dots(picture: str) -> list[tuple[float, float]]:
    found = ElementTree.fromstring(picture).iter(f"{SVG}circle")
    return [(float(dot.get("cx", "")), float(dot.get("cy", ""))) for dot in found if dot.get("r") == "4.5"]


@given(
    points=st.lists(st.tuples(numbers, numbers), min_size=1, max_size=8),
    logs=st.tuples(st.booleans(), st.booleans()),
    most=st.none() | numbers,
)
def test_every_point_is_inside_whatever_the_numbers(
    points: list[tuple[float, float]], logs: tuple[bool, bool], most: float | None
) -> None:
    curves = [Curve("a", points), Curve("b", points, measured=True)]
    picture = curves_svg(curves, "title", Axis("x", logs[0]), Axis("y", logs[1], most))
    drawn = [dot for dot in dots(picture) if dot != (7.0, 7.0)]
    assert len(drawn) == len(points)
    heights = [y for _, y in drawn]
    assert all(LEFT - 0.1 <= x <= WIDTH - RIGHT + 0.1 for x, _ in drawn)
    assert max(heights) - min(heights) <= HEIGHT + 0.2
    assert "nan" not in picture


def test_more_stands_to_the_right_and_higher() -> None:
    picture = curves_svg([Curve("m", [(1, 10), (2, 20), (4, 40)], measured=True)], "t", Axis("x"), Axis("y"))
    places = [dot for dot in dots(picture) if dot != (7.0, 7.0)]
    xs, ys = zip(*places, strict=True)
    assert xs[1] - xs[0] == pytest.approx((xs[2] - xs[1]) / 2, abs=0.2)
    assert ys[0] - ys[1] == pytest.approx((ys[1] - ys[2]) / 2, abs=0.2)
    assert ys[0] > ys[1] > ys[2]


def test_dots_have_the_colour_of_the_line_before_them_and_lines_differ_in_dashes() -> None:
    points = [(1.0, 1.0), (2.0, 3.0)]
    curves = [Curve("a", points), Curve("a'", points, True), Curve("b", points), Curve("b'", points, True)]
    root = ElementTree.fromstring(curves_svg(curves, "t", Axis("x"), Axis("y")))
    lines = [path for path in root.iter(f"{SVG}path") if path.get("stroke-width") == "2.5"][-2:]
    groups = [group.get("fill") for group in root.iter(f"{SVG}g") if group.get("fill")]
    assert [line.get("stroke") for line in lines] == groups
    assert lines[0].get("stroke-dasharray") != lines[1].get("stroke-dasharray")


def test_large_and_small_numbers_are_powers_of_ten() -> None:
    picture = curves_svg([Curve("a", [(1e-4, 1), (1e8, 2)])], "t", Axis("x", log=True), Axis("y"))
    texts = re.findall(r">([^<]*)</text>", picture)
    assert {"10⁻⁴", "10⁸", "1,000", "100"} <= set(texts)


@pytest.mark.parametrize(
    ("points", "log", "says"),
    [([], False, "no point"), ([(1.0, math.inf)], False, "finite numbers"), ([(1.0, 0.0)], True, "numbers above 0")],
)
def test_what_cannot_be_shown_is_refused(points: list[tuple[float, float]], log: bool, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        curves_svg([Curve("a", points)], "t", Axis("x"), Axis("y", log))
