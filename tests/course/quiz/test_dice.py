from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from course.quiz.dice import Dice


def test_throws_are_the_same_on_every_machine_and_in_every_python() -> None:
    # Written down once. If this fails, every attempt that was kept would be graded by other questions.
    dice = Dice(7, "bubble")
    assert [dice.below(100) for _ in range(8)] == [78, 21, 82, 44, 74, 40, 13, 32]
    assert Dice(7, "bubble").shuffled("abcdef") == ["e", "f", "d", "c", "b", "a"]


def test_another_seed_or_name_gives_other_throws() -> None:
    def throws(seed: int, name: str) -> list[int]:
        dice = Dice(seed, name)
        return [dice.below(10**6) for _ in range(4)]

    assert throws(1, "a") == throws(1, "a")
    assert len({tuple(throws(seed, name)) for seed in (1, 2, 12) for name in ("a", "b", "/a")}) == 9


def test_all_sides_are_about_as_likely() -> None:
    dice = Dice(3, "fair")
    counts = Counter(dice.below(6) for _ in range(6000))
    assert set(counts) == set(range(6))
    assert all(850 < count < 1150 for count in counts.values())


@given(seed=st.integers(0, 2**53 - 1), items=st.lists(st.integers()))
def test_shuffled_loses_nothing(seed: int, items: list[int]) -> None:
    assert sorted(Dice(seed, "x").shuffled(items)) == sorted(items)


@pytest.mark.parametrize("count", [0, -1, 2**64 + 1])
def test_a_die_without_sides_is_refused(count: int) -> None:
    with pytest.raises(ValueError, match="sides"):
        Dice(1, "x").below(count)
