"""The explorer and the workbench of lesson 07: every position is the simulator's, every text is answered."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from course.exercises.ladder import rungs
from course.widgets.own_schedule import judged, own_schedule, task, written
from course.widgets.schedules import COUNTS, NAMES, RANKS, SENDS, TIMES, TITLES, Shown, look, messages, schedules
from minipar.draw import percent
from minipar.pipeline import Costs, by_name, check, gpipe, simulate

PLACE = st.integers(0, len(TIMES) - 1)


@settings(max_examples=60, deadline=None)
@given(
    name=st.integers(0, len(NAMES) - 1),
    ranks=st.integers(0, len(RANKS) - 1),
    count=st.integers(0, len(COUNTS) - 1),
    times=st.tuples(PLACE, PLACE, PLACE),
    send=st.integers(0, len(SENDS) - 1),
)
def test_every_position_is_what_the_simulator_says(
    name: int, ranks: int, count: int, times: tuple[int, int, int], send: int
) -> None:
    view = look(name, ranks, count, *times, send)
    schedule = by_name(NAMES[name], RANKS[ranks], COUNTS[count])
    forward, of_input, weight = (TIMES[place] / schedule.virtual for place in times)
    timeline = simulate(schedule, Costs(forward=forward, input=of_input, weight=weight, send=SENDS[send]))
    facts = dict(view.facts)
    assert facts["bubble: idle share of all time"] == percent(timeline.bubble_of_total)
    assert facts["bubble of a rank, step after step"] == percent(timeline.bubble_rate)
    assert float(facts["a rank holds, in micro-batches"]) == pytest.approx(schedule.room)
    ElementTree.fromstring(view.picture)


def test_the_answers_of_the_lesson() -> None:
    def against_1f1b(name: str, ranks: int, count: int, *times: float) -> float:
        one, yardstick = (Shown(n, ranks, count, *times) for n in (name, "1f1b"))
        return one.simulated().duration / yardstick.simulated().duration

    slow = (4, 8, 1.0, 1.0, 1.0, 1.0)
    assert min(NAMES, key=lambda name: Shown(name, *slow).simulated().duration) == "zb-h2"
    assert Shown("zb-h2", *slow).simulated().duration == 30
    assert f"{1 - against_1f1b('interleaved', *slow):.0%}" == "6%"
    assert f"{1 - against_1f1b('interleaved', 4, 8, 1.0, 1.0, 1.0, 0.0):.0%}" == "14%"
    assert against_1f1b("gpipe", *slow) < 1
    late = (4, 8, 1.0, 2.0, 1.0, 0.0)
    assert max(NAMES, key=lambda name: against_1f1b(name, *late)) == "v-min"
    assert f"{against_1f1b('v-min', *late):.2f}" == "1.24"
    assert f"{against_1f1b('v-min', 4, 8, 1.0, 1.0, 1.0, 0.0):.2f}" == "0.89"
    many = (8, 16, 1.0, 1.0, 1.0, 0.0)
    assert min(NAMES, key=lambda name: Shown(name, *many).schedule.room) == "v-min"
    assert (Shown("v-min", *many).schedule.room, Shown("1f1b", *many).schedule.room) == (3.5, 8)
    assert f"{1 - against_1f1b('v-min', *many):.0%}" == "11%"


def test_sliders_move_the_picture_or_the_numbers() -> None:
    explorer = schedules()
    for control in explorer.controls:
        before = explorer.picture, explorer.facts
        explorer.values = {**explorer.values, control["name"]: control["most"]}
        assert (explorer.picture, explorer.facts) != before, control["name"]


def test_every_schedule_has_a_title_and_messages() -> None:
    assert set(TITLES) == set(NAMES)
    assert messages("1f1b", 4, 8) == 2 * 8 * 3
    assert messages("zb-v", 4, 8) == 2 * 8 * 6  # of seven borders one lies within the last rank


# The ladder and the workbench


def test_each_rung_is_solved_by_its_schedule_and_by_none_that_a_lower_rung_of_its_size_is_solved_with() -> None:
    ladder = rungs()
    assert [rung.number for rung in ladder] == [1, 2, 3, 4, 5, 6, 7]
    for rung in ladder:
        known = rung.read(written(rung.known))
        assert rung.fits(known)
        assert rung.beats(known)
        check(known, memory_limit=rung.room)
        for lower in ladder[: rung.number - 1]:
            if (lower.ranks, lower.micro_batches, lower.each) == (rung.ranks, rung.micro_batches, rung.each):
                assert not (rung.fits(lower.known) and rung.beats(lower.known)), (rung, lower)


def test_gpipe_has_no_room_above_the_first_rung() -> None:
    for rung in rungs()[1:]:
        if rung.each == 1:
            schedule = gpipe(rung.ranks, rung.micro_batches)
            assert not (rung.fits(schedule) and rung.beats(schedule))


def test_the_workbench_says_what_a_text_reaches() -> None:
    bench = own_schedule()
    assert not bench.outcome["holds"]
    bench.text = "F0 F1 F2 B0 B1 B2\nF0 F1 F2 B0 B1 B2"
    assert bench.outcome["holds"]
    assert bench.outcome["sentences"][0] == "✓ The bubble is 25.0 %; at most 25.0 % is wanted."
    bench.text = "B0 F0 F1 F2 B1 B2\nF0 F1 F2 B0 B1 B2"
    assert bench.outcome["picture"] == ""
    assert "ranks wait for ever" in bench.outcome["sentences"][0]
    bench.rung = 6
    bench.text = written(rungs()[6].known)
    assert bench.outcome["holds"]
    ElementTree.fromstring(bench.outcome["picture"])
    assert all(str(rung.micro_batches) in task(rung) for rung in rungs())


def test_a_rank_holds_as_many_stages_as_the_rung_says() -> None:
    rung = rungs()[3]
    full = " ".join(f"F{i} F{i}@2 F{i}@3 B{i}@3 B{i}@2 B{i}" for i in range(4))
    found = judged(rung, full + "\n" + " ".join(f"F{i} B{i}" for i in range(4)))
    assert not found["holds"]
    assert len(found["sentences"]) == 1


WORDS = st.lists(st.sampled_from(["F0", "F1", "B0", "B1", "F2", "B2", "I0", "W0", "F0@3", "X", "F9", "B0@9"]))


@settings(max_examples=200)
@given(rows=st.lists(WORDS, max_size=4), rung=st.integers(0, 6), raw=st.text(max_size=30))
def test_no_text_is_an_exception(rows: list[list[str]], rung: int, raw: str) -> None:
    for text in ("\n".join(" ".join(row) for row in rows), raw):
        found = judged(rungs()[rung], text)
        assert found["sentences"]
        assert all(found["sentences"])
