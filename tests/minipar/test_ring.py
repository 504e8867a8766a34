"""The ring all-reduce as data: every part is summed once, and what it sends and costs is what was measured."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minipar.alphabeta import LinkMeasure
from minipar.draw.ring import ring_svg
from minipar.plan import Link
from minipar.ring import ALL_GATHER, REDUCE_SCATTER, begin, steps

RANKS = st.integers(2, 12)


@given(n=RANKS)
def test_after_all_steps_everyone_has_the_sum_of_every_part(n: int) -> None:
    every, all_steps = frozenset(range(n)), list(steps(n))
    assert [step.phase for step in all_steps] == [REDUCE_SCATTER] * (n - 1) + [ALL_GATHER] * (n - 1)
    assert all(summands == every for own in all_steps[-1].held for summands in own)
    halfway = all_steps[n - 2].held
    for rank, own in enumerate(halfway):  # a reduce-scatter: each rank has one whole sum, and all of them are there
        assert [part for part, summands in enumerate(own) if summands == every] == [(rank + 1) % n]


@given(n=RANKS)
def test_no_summand_is_added_twice_and_each_rank_sends_what_it_has(n: int) -> None:
    held = begin(n)
    for step in steps(n):
        for rank, part in enumerate(step.sent):
            to, message = (rank + 1) % n, held[rank][part]
            if step.phase == REDUCE_SCATTER:
                assert not message & held[to][part]
                assert step.held[to][part] == message | held[to][part]
            else:
                assert message == frozenset(range(n))
                assert step.held[to][part] == message
        changed = [(r, p) for r in range(n) for p in range(n) if step.held[r][p] != held[r][p]]
        assert set(changed) <= {((rank + 1) % n, part) for rank, part in enumerate(step.sent)}
        held = step.held


@given(n=RANKS, size=st.floats(0, 1e9), alpha=st.floats(0, 1), beta=st.floats(0, 1))
def test_it_takes_as_many_messages_as_links_are_measured_and_planned_with(
    n: int, size: float, alpha: float, beta: float
) -> None:
    """Each step is a message of one part: for the doctor's measure and for the planner's two rings as well."""
    messages = len(list(steps(n)))
    expected = pytest.approx(messages * (alpha + size / n * beta))
    assert LinkMeasure("tp", n, "all-reduce", alpha, beta).seconds(size) == expected
    assert 2 * Link(alpha, beta).ring(size, n) == expected


def test_one_rank_sends_nothing_and_none_is_an_error() -> None:
    assert list(steps(1)) == []
    assert Link(1.0, 1.0).ring(1e6, 1) == 0.0
    with pytest.raises(ValueError, match="ranks=0"):
        begin(0)


@given(n=st.integers(1, 8), data=st.data())
def test_the_picture_frames_what_has_just_come(n: int, data: st.DataObject) -> None:
    all_steps = list(steps(n))
    step = data.draw(st.sampled_from([None, *all_steps]))
    picture = ElementTree.fromstring(ring_svg(step.held if step else begin(n), "a ring", step))
    boxes = [box for box in picture.iter("{http://www.w3.org/2000/svg}rect") if box.get("height") == "34"]
    assert len(boxes) == n * n
    assert sum(box.get("stroke") != "none" for box in boxes) == (n if step else 0)
    assert f"rank {n - 1}: summands of each part" in picture.get("aria-label", "")
