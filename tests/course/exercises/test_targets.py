"""Targets: a right answer passes where every measure is within, and the table says which is not."""

import pytest

from course.exercises.exercise import Refused, Status, Target
from course.exercises.targets import bytes_sent, equality, live_micro_batches, steps, weigh
from course.judge.ranks import Outcome, Played
from minipar.ledger import Traffic


def played(*sent: float, uncounted: str = "") -> Played:
    rows = [(Traffic("all-gather", "tp", 2, 1, int(2 * n)),) if n else () for n in sent]
    return Played(tuple(Outcome(None, row) for row in rows), "", uncounted)


def test_a_measure_at_its_target_is_within_and_one_above_is_not() -> None:
    rows = [steps(14, 14, 13.5), live_micro_batches(4, 4, 2), equality(1e-13, 1e-12)]
    assert all(row.within for row in rows)
    verdict = weigh(rows, "well done", "right, but")
    assert (verdict.status, verdict.message) == (Status.PASSED, "well done")
    assert verdict.targets[0] == Target("steps", "14", "at most 14", "13.5")
    verdict = weigh([*rows, live_micro_batches(5, 4, 2)], "well done", "right, but")
    assert (verdict.status, verdict.message) == (Status.OUTSIDE_TARGET, "right, but")
    assert [row.yours for row in verdict.targets] == ["14", "4", "1e-13", "5"]


def test_of_bytes_the_busiest_rank_counts() -> None:
    row = bytes_sent(played(96, 160), 100, 96)
    assert (row.row.yours, row.within) == ("160", False)
    assert "2 ranks" in row.row.name


@pytest.mark.parametrize("case", [played(96, 0), played(96, 96, uncounted="a rank closed its connections")])
def test_bytes_that_nobody_knows_are_outside_the_target(case: Played) -> None:
    with pytest.raises(Refused, match="cannot be counted") as refused:
        bytes_sent(case, 1e9, 96)
    assert refused.value.verdict.status is Status.OUTSIDE_TARGET


def test_a_measure_that_is_no_number_is_not_within() -> None:
    assert not steps(float("nan"), 10, 10).within
