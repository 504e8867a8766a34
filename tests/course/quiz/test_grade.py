from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from course.lessons import lessons
from course.quiz.grade import grade
from course.quiz.schema import Key, Number, OneChoice, SeveralChoices, load

ALL = [question for lesson in lessons() for question in load(lesson.quiz).questions]
NUMBERS = [question for question in ALL if isinstance(question, Number)]
CHOICES = [question for question in ALL if not isinstance(question, Number)]


def several() -> SeveralChoices:
    def choice(name: str, right: bool) -> dict[str, Any]:
        return {"text": {"en": name}, "feedback": {"en": f"about {name}"}, "right": right}

    choices = [choice("a", True), choice("b", False), choice("c", True), choice("d", False)]
    text = {"id": "q", "kind": "several", "text": {"en": "?"}, "read_again": "There", "points": 2}
    return SeveralChoices.model_validate(text | {"choices": choices})


@pytest.mark.parametrize(
    ("picked", "points"),
    [([0, 2], 2), ([0], 1), ([0, 2, 1], 1), ([0, 1], 0), ([1, 3], 0), ([0, 1, 2, 3], 0), ([2, 0, 0], 2)],
)
def test_several_choices_give_a_share_for_each_right_one_less_the_wrong_ones(picked: list[int], points: float) -> None:
    result = grade(several(), picked)
    assert result.points == points
    assert result.right == (points == 2)
    assert result.read_again == (None if result.right else "There")


def test_each_pick_gets_its_own_feedback_and_a_half_answer_says_that_there_is_more() -> None:
    assert [remark.text for remark in grade(several(), [1, 2]).remarks] == ["about b", "about c"]
    assert "more to pick" in grade(several(), [0]).remarks[-1].text


@pytest.mark.parametrize("question", CHOICES, ids=lambda q: q.id)
def test_exactly_the_right_choices_give_all_points(question: OneChoice | SeveralChoices) -> None:
    right = [i for i, choice in enumerate(question.choices) if choice.right]
    for i in range(len(question.choices)):
        answer: Any = i if isinstance(question, OneChoice) else [i]
        assert grade(question, answer).right == ([i] == right)
    assert grade(question, right[0] if isinstance(question, OneChoice) else right).points == question.points


@pytest.mark.parametrize("question", NUMBERS, ids=lambda q: q.id)
def test_a_number_is_right_within_its_tolerance(question: Number) -> None:
    key, near = question.key.value, question.tolerance
    for value in (key, key - near, key + near, f" {key} {question.unit}", str(key).replace(".", ",")):
        assert grade(question, value).right
    for value in (key - 1.01 * near - 0.001, key + 1.01 * near + 0.001):
        assert not grade(question, value).right


@pytest.mark.parametrize("question", NUMBERS, ids=lambda q: q.id)
def test_each_known_mistake_is_wrong_and_gets_its_own_feedback(question: Number) -> None:
    said = [grade(question, mistake.key.value).remarks[0] for mistake in question.mistakes]
    assert not any(remark.right for remark in said)
    assert [remark.text for remark in said] == [mistake.feedback["en"] for mistake in question.mistakes]


@pytest.mark.parametrize("answer", [None, "", "many", "1e999", "nan", True, [1], "0x10", "1.2.3", "--3"])
def test_what_is_no_number_is_asked_for_again(answer: Any) -> None:
    with pytest.raises(ValueError, match="write a number"):
        grade(NUMBERS[0], answer)


@pytest.mark.parametrize("answer", [None, [], "0", 99, -1, [99], [True], [0.0], {}, "x"])
def test_what_is_no_choice_is_asked_for_again(answer: Any) -> None:
    for question in (CHOICES[0], several()):
        with pytest.raises(ValueError, match="pick a choice"):
            grade(question, [answer] if question.kind == "several" and isinstance(answer, int) else answer)


@given(p=st.integers(1, 16), m=st.integers(1, 64))
def test_keys_agree_with_the_published_formulas(p: int, m: int) -> None:
    def key(formula: str) -> float:
        return Key(formula=formula, stages=p, micro_batches=m).value

    assert key("gpipe_bubble_percent") == pytest.approx(100 * (p - 1) / (m + p - 1))
    assert key("gpipe_overhead_percent") == pytest.approx(100 * (p - 1) / m)
    assert key("gpipe_speedup") == pytest.approx(p * m / (m + p - 1))
