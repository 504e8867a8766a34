from __future__ import annotations

import pytest

from minipar.pipeline import check
from minipar.pipeline.names import LOOPED, NAMES, PLAIN, by_name


@pytest.mark.parametrize("name", NAMES)
def test_every_name_is_a_schedule_that_runs(name: str) -> None:
    schedule = check(by_name(name, 3, 4))
    assert (schedule.ranks, schedule.micro_batches) == (3, 4)


def test_every_published_schedule_has_a_name_of_its_own() -> None:
    assert len(NAMES) == len(set(NAMES)) == len({by_name(name, 3, 4).name for name in NAMES}) == 11
    assert {name: by_name(name, 3, 4).name for name in NAMES} == {
        "naive": "naive",
        "gpipe": "GPipe",
        "1f1b": "1F1B",
        "zb-h1": "ZB-H1",
        "zb-h2": "ZB-H2",
        "zb-v": "ZB-V",
        "v-half": "V-half",
        "v-min": "V-min",
        "dualpipe-v": "DualPipe-V",
        "breadth-first": "breadth-first",
        "interleaved": "interleaved 1F1B",
    }


@pytest.mark.parametrize("name", LOOPED)
def test_a_loop_takes_any_number_of_stages_a_rank_and_two_if_not_told(name: str) -> None:
    assert [by_name(name, 3, 4, v).virtual for v in (1, 2, 3, 4)] == [1, 2, 3, 4]
    assert by_name(name, 3, 4) == by_name(name, 3, 4, virtual=2)
    with pytest.raises(ValueError, match="virtual=0; a schedule needs a whole number of at least 1"):
        by_name(name, 3, 4, virtual=0)


@pytest.mark.parametrize("name", PLAIN)
def test_the_others_take_their_own_number_only(name: str) -> None:
    own = by_name(name, 3, 4).virtual
    assert own == (1 if name in ("naive", "gpipe", "1f1b", "zb-h1", "zb-h2") else 2)
    assert by_name(name, 3, 4, virtual=own) == by_name(name, 3, 4)
    for wrong in (0, 3 - own, 3):
        with pytest.raises(ValueError, match=f"{name} has {own} stages? a rank, not {wrong}; breadth-first and inter"):
            by_name(name, 3, 4, virtual=wrong)


@pytest.mark.parametrize("name", ["", "1F1B", "zb", "interleaved 1F1B", "one_f_one_b"])
def test_a_name_that_is_none_is_refused_with_the_names_there_are(name: str) -> None:
    with pytest.raises(ValueError, match=f"schedule {name!r} is not one of naive, gpipe, 1f1b, .*, interleaved"):
        by_name(name, 3, 4)


@pytest.mark.parametrize("name", NAMES)
def test_counts_below_one_are_refused(name: str) -> None:
    for p, m in ((0, 4), (3, 0)):
        with pytest.raises(ValueError, match="=0; a schedule needs a whole number of at least 1"):
            by_name(name, p, m)
