import re
from dataclasses import replace
from itertools import pairwise
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

import pytest
from hypothesis import given
from hypothesis import strategies as st

from docs.pictures import HERE, pictures
from minipar.draw import (
    BACKWARD,
    FILL,
    FORWARD,
    INPUT_GRADIENT,
    WEIGHT_GRADIENT,
    Panel,
    column_split_svg,
    gantt_svg,
    gantt_text,
    in_words,
    ink,
    nice_step,
    shade,
    standalone,
)
from minipar.pipeline import (
    Costs,
    Schedule,
    Timeline,
    dualpipe_v,
    gpipe,
    interleaved,
    naive,
    parse,
    simulate,
    zb_h1,
    zb_v,
)
from minipar.pipeline.names import NAMES, by_name
from minipar.pipeline.schedule import Kind

SVG = "{http://www.w3.org/2000/svg}"
KINDS: tuple[Kind, ...] = ("F", "B", "I", "W")


def drawn(timeline: Timeline, title: str = "A title") -> Element:
    return ElementTree.fromstring(gantt_svg([Panel("predicted", timeline)], title, "time"))


def boxes(picture: Element, fill: str) -> list[dict[str, str]]:
    """The boxes of the chart in this colour; each panel has all of a colour in one path."""
    drawn = "".join(path.attrib["d"] for path in picture.iter(f"{SVG}path") if path.get("fill") == fill)
    found = re.findall(r"M([\d.]+) ([\d.]+)h([\d.]+)v([\d.]+)h-([\d.]+)z", drawn)
    assert all(right == left for _, _, right, _, left in found)
    return [dict(zip(("x", "y", "width", "height"), box, strict=False)) for box in found]


def words(picture: Element) -> list[str | None]:
    return [text.text for text in picture.iter(f"{SVG}text")]


def legend(schedule: Schedule, title: str = "A title") -> list[str | None]:
    """What the legend says, from left to right."""
    return [group.find(f"{SVG}text").text for group in entries(schedule, title)]  # type: ignore[union-attr]


def entries(schedule: Schedule, title: str = "A title") -> list[Element]:
    return [group for group in drawn(simulate(schedule), title).iter(f"{SVG}g") if "transform" in group.attrib]


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


def test_the_kinds_have_their_colours_and_halves_of_a_backward_a_slit() -> None:
    picture = drawn(simulate(zb_h1(4, 8)))
    assert len(boxes(picture, FORWARD)) == 32
    assert boxes(picture, BACKWARD) == []
    for fill, thin_part in ((INPUT_GRADIENT, 0), (WEIGHT_GRADIENT, 1)):
        found = boxes(picture, fill)
        assert len(found) == 2 * 32
        upper, lower = found[0], found[1]
        assert upper["x"] == lower["x"]
        assert float(upper["y"]) + float(upper["height"]) < float(lower["y"])
        assert min((upper, lower), key=lambda part: float(part["height"])) is found[thin_part]
        assert float(lower["y"]) + float(lower["height"]) - float(upper["y"]) == pytest.approx(27, abs=0.1)


def test_there_is_one_path_a_kind_and_stage_of_a_rank() -> None:
    for schedule, paths in ((gpipe(8, 32), 2), (zb_h1(4, 8), 3), (zb_v(4, 8), 6), (interleaved(4, 8, 3), 6)):
        picture = drawn(simulate(schedule))
        assert len([path for path in picture.iter(f"{SVG}path") if path.get("fill") not in (None, "none")]) == paths


def test_a_ranks_stages_step_in_lightness_whichever_stages_they_are() -> None:
    picture = drawn(simulate(zb_v(4, 8)))
    for kind in ("F", "I", "W"):
        first, second = shade(kind, 0, 2), shade(kind, 1, 2)  # type: ignore[arg-type]
        assert first == FILL[kind]  # type: ignore[index]
        assert len(boxes(picture, first)) == len(boxes(picture, second)) == 4 * 8 * (1 if kind == "F" else 2)
    # The last rank's first forward is of its first stage, the next of its second.
    last = max(float(box["y"]) for box in boxes(picture, FORWARD))
    left = [
        min(float(box["x"]) for box in boxes(picture, shade("F", nth, 2)) if float(box["y"]) == last) for nth in (0, 1)
    ]
    assert left[0] < left[1]


def luminance(colour: str) -> float:
    channels = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize("stages", range(1, 9))
@pytest.mark.parametrize("kind", KINDS)
def test_numbers_are_readable_on_every_shade_and_shades_grow_lighter(kind: Kind, stages: int) -> None:
    shades = [shade(kind, nth, stages) for nth in range(stages)]
    assert shades[0] == FILL[kind]
    lights = [luminance(colour) for colour in shades]
    assert all(later > earlier + 0.02 for earlier, later in pairwise(lights))
    for light, colour in zip(lights, shades, strict=True):
        dark, bright = sorted((light, luminance(ink(colour))))
        assert (bright + 0.05) / (dark + 0.05) >= 4.5  # WCAG 2.2, 1.4.3


def test_the_legend_says_what_there_is_and_nothing_else() -> None:
    assert legend(gpipe(4, 8)) == ["forward", "backward", "idle"]
    assert legend(gpipe(1, 1)) == ["forward", "backward"]
    assert legend(zb_h1(4, 8)) == ["forward", "input gradient", "weight gradient", "idle"]
    assert legend(interleaved(4, 8, 2)) == ["forward", "backward", "idle", "lighter: later stage"]
    kinds = ["forward", "backward", "input gradient", "weight gradient"]
    assert legend(dualpipe_v(4, 8)) == [*kinds, "idle", "lighter: later stage"]


def test_the_legend_shows_every_shade_of_its_kinds() -> None:
    swatches = [[rect.get("fill") for rect in entry.iter(f"{SVG}rect")] for entry in entries(interleaved(2, 4, 3))]
    assert swatches[0] == [FORWARD, "none"]
    assert swatches[-1] == [*(shade("F", nth, 3) for nth in range(3)), "none"]


@pytest.mark.parametrize(("title", "top"), [("Short", 9), ("A title that is long, and longer than that, " * 2, 34)])
def test_the_legend_is_below_a_title_that_leaves_no_room(title: str, top: int) -> None:
    for schedule in (gpipe(4, 8), dualpipe_v(4, 8)):
        places = [re.findall(r"[\d.]+", entry.attrib["transform"]) for entry in entries(schedule, title)]
        assert {float(y) for _x, y in places} == {top}
        left = [float(x) for x, _y in places]
        assert left == sorted(left)
        assert left[0] >= 60
        assert left[-1] < 890


def test_panels_of_different_schedules_share_their_shades() -> None:
    panels = [Panel("", simulate(interleaved(2, 4, virtual))) for virtual in (1, 2, 4)]
    fills = set(re.findall(r'fill="(#\w{6})"', gantt_svg(panels, "", ""))) - {"#ffffff", "#000000"}
    assert fills == {shade(kind, nth, 4) for kind in ("F", "B") for nth in range(4)}  # type: ignore[arg-type]


@pytest.mark.parametrize("name", NAMES)
def test_every_published_schedule_is_drawn_inside_the_picture(name: str) -> None:
    schedule = by_name(name, 4, 8)
    picture = drawn(simulate(schedule))
    width, height = map(float, picture.attrib["viewBox"].split()[2:])
    fills = {shade(kind, nth, schedule.virtual) for kind in KINDS for nth in range(schedule.virtual)}
    found = [box for fill in fills for box in boxes(picture, fill)]
    slit = sum(action.kind in "IW" for row in schedule.actions for action in row)
    assert len(found) == sum(map(len, schedule.actions)) + slit
    for box in found:
        assert 60 <= float(box["x"]) <= float(box["x"]) + float(box["width"]) <= width
        assert float(box["y"]) + float(box["height"]) <= height


@pytest.mark.parametrize(
    ("label", "says"),
    [
        ("measured", "measured (emulated): idle 27 % of the time"),
        ("", "idle 27 % of the time (emulated)"),
        ("measured (emulated pace)", "measured (emulated pace): idle 27 % of the time"),
        ("Emulated", "Emulated: idle 27 % of the time"),
    ],
)
def test_what_is_emulated_is_said_to_be_once(label: str, says: str) -> None:
    timeline = replace(simulate(gpipe(4, 8)), emulated=True)
    panel = Panel(label, timeline)
    assert in_words(panel) == says
    assert str(gantt_text(panel)).splitlines()[0] == says
    picture = ElementTree.fromstring(gantt_svg([panel], "", ""))
    assert says in words(picture)
    assert says in picture.attrib["aria-label"]
    assert "mulated" not in in_words(Panel("measured", simulate(gpipe(4, 8))))


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


def test_the_terminals_chart_tells_a_ranks_stages_apart_without_colours() -> None:
    vee = parse(["F0@0 F0@3 I0@3 W0@3 B0@0", "F0@1 F0@2 B0@2 B0@1"])
    assert str(gantt_text(Panel("V", simulate(vee)), width=7 + 3 * 11)).splitlines() == [
        "V: idle 45 % of the time",
        "rank 0 F0─······f0─i0─w0─·········B0────",
        "rank 1 ···F0─f0─······b0────B0────······",
        "small letters: a rank's second stage",
    ]


def test_the_terminals_chart_counts_a_ranks_later_stages() -> None:
    four = parse(["F0@0 F0@1 F0@2 F0@3 B0@3 B0@2 B0@1 B0@0"])
    even = Costs(1, 1)
    assert str(gantt_text(Panel("", simulate(four, even)), 7 + 32)).splitlines()[1:] == [
        "rank 0 F0──f0──f0³─f0⁴─b0⁴─b0³─b0──B0──",
        "small letters: a rank's later stages, ³ its third and so on",
    ]
    assert str(gantt_text(Panel("", simulate(four, even)), 7 + 16)).splitlines()[1] == "rank 0 F0f0f0f0b0b0b0B0"


def test_the_terminals_chart_has_the_pictures_colours() -> None:
    styles = {str(span.style) for span in gantt_text(Panel("", simulate(zb_v(2, 4))), 200).spans}
    fills = {shade(kind, nth, 2) for kind in KINDS if kind != "B" for nth in (0, 1)}
    assert styles == {"dim", *(f"{ink(fill)} on {fill}" for fill in fills)}


@given(p=st.integers(1, 8), m=st.integers(1, 64), width=st.integers(20, 200))
def test_the_terminals_rows_all_have_the_width_asked_for(p: int, m: int, width: int) -> None:
    rows = str(gantt_text(Panel("", simulate(gpipe(p, m))), width)).splitlines()[1:]
    assert {len(row) for row in rows} == {width}


def test_the_column_split_shows_a_part_for_each_rank() -> None:
    words = [text.text for text in ElementTree.fromstring(column_split_svg(3)).iter(f"{SVG}text")]
    assert [f"w{i}" in words and f"y{i}" in words for i in range(4)] == [True, True, True, False]


def test_the_readmes_pictures_are_the_ones_that_the_project_makes() -> None:
    for name, picture in pictures().items():
        assert (HERE / name).read_text(encoding="utf-8") == standalone(picture), "run: make pictures"
