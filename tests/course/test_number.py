import pytest

from course.number import read_number


@pytest.mark.parametrize(
    ("typed", "number"),
    [
        ("60", 60), (" 60 % ", 60), ("60%", 60), ("2,5", 2.5), ("0,625", 0.625), ("-3.5e2", -350), (".5", 0.5),
        ("7.", 7), (12, 12), (0.1, 0.1), ("1024", 1024), ("1.024", 1.024), ("৬০", 60), ("27,2727", 27.2727), ("+4", 4),
    ],
)  # fmt: skip
def test_a_number_is_read_as_people_write_it(typed: object, number: float) -> None:
    assert read_number(typed, "%") == number


@pytest.mark.parametrize("typed", ["1,024", "12,288", "1,048,576", "1,00,000", "-1,024 %", "1,024.5"])
def test_a_comma_that_may_part_thousands_is_refused_not_guessed(typed: str) -> None:
    with pytest.raises(ValueError, match="without a comma between its digits"):
        read_number(typed, "%")


@pytest.mark.parametrize(
    "typed", ["", "%", "x", "1 000", "1.2.3", "nan", "inf", "1e999", "0x10", "1_000", True, None, [1], {}]
)
def test_what_is_no_number_is_told(typed: object) -> None:
    with pytest.raises(ValueError, match=r"write a number, such as 12\.5"):
        read_number(typed, "%")
