import json
from functools import cache
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from course.lessons import lessons
from course.quiz.asked import Choose, FindPartners, GiveNumber, Option, PutInOrder
from course.quiz.attempt import draw, grade_attempt
from course.quiz.grade import grade
from course.quiz.perfect import perfect
from course.quiz.schema import Key, Quiz, load
from tests.course.quiz.samples import SAMPLER

FILES = [*(lesson.quiz for lesson in lessons()), SAMPLER]
ALL = [question for path in FILES for question in draw(load(path), seed=11).questions]
NUMBERS = [question for question in ALL if isinstance(question, GiveNumber)]
CHOICES = [question for question in ALL if isinstance(question, Choose)]
ORDER = next(question for question in ALL if isinstance(question, PutInOrder))
MATCHES = [question for question in ALL if isinstance(question, FindPartners)]
MATCH = next(question for question in MATCHES if len(question.rights) > len(question.lefts))  # it has decoys


def several() -> Choose:
    options = tuple(Option(name, f"about {name}", right) for name, right in zip("abcd", (1, 0, 1, 0), strict=True))
    return Choose(id="q", text="?", points=2, read_again="There", options=options, several=True)


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
def test_exactly_the_right_choices_give_all_points(question: Choose) -> None:
    right = [i for i, option in enumerate(question.options) if option.right]
    for i in range(len(question.options)):
        assert grade(question, [i] if question.several else i).right == ([i] == right)
    assert grade(question, right if question.several else right[0]).points == question.points


@pytest.mark.parametrize("question", NUMBERS, ids=lambda q: q.id)
def test_a_number_is_right_within_its_tolerance(question: GiveNumber) -> None:
    key, near = question.key, question.tolerance
    for value in (key, key - near, key + near, f" {key} {question.unit}", str(key).replace(".", ",")):
        assert grade(question, value).right
    for value in (key - 1.01 * near - 0.001, key + 1.01 * near + 0.001):
        assert not grade(question, value).right


@pytest.mark.parametrize("question", NUMBERS, ids=lambda q: q.id)
def test_each_known_mistake_is_wrong_and_gets_its_own_feedback(question: GiveNumber) -> None:
    said = [grade(question, mistake.value).remarks[0] for mistake in question.mistakes]
    assert not any(remark.right for remark in said)
    assert [remark.text for remark in said] == [mistake.feedback for mistake in question.mistakes]


def test_an_order_is_right_as_a_whole_and_the_first_slip_is_named() -> None:
    right = perfect(ORDER)
    assert grade(ORDER, right).right
    slip = [*right[:2], right[3], right[2], *right[4:]]
    result = grade(ORDER, slip)
    assert result.points == 0
    assert [remark.text for remark in result.remarks] == [
        "The first 2 are in their places.",
        ORDER.items[right[3]].feedback,
    ]
    assert result.remarks[1].place == right[3]
    assert len(grade(ORDER, right[::-1]).remarks) == 1


def test_each_partner_that_is_found_counts_and_each_missed_one_gets_its_feedback() -> None:
    right = perfect(MATCH)
    assert grade(MATCH, right).points == MATCH.points
    decoy = next(i for i in range(len(MATCH.rights)) if i not in right)
    result = grade(MATCH, [decoy, *right[1:]])
    assert result.points == pytest.approx(MATCH.points * (len(MATCH.lefts) - 1) / len(MATCH.lefts))
    assert [(remark.place, remark.text) for remark in result.remarks] == [(0, MATCH.lefts[0].feedback)]


NONE = [None, "", "many", "1e999", "nan", True, [], [1, 2, 3, 4, 5, 6, 7], "0x10", {}, [[0]], -1, 99, [99], [True],
        [0.0], [-1], {"a": 1}, "x" * 5000, [0] * 1000, 1.5, [None], ["a"], 10**400]  # fmt: skip


@pytest.mark.parametrize("question", ALL, ids=lambda q: q.id)
def test_what_is_no_answer_is_asked_for_again(question: Any) -> None:
    for answer in NONE:
        if isinstance(question, GiveNumber) and answer in (-1, 99, 1.5):
            continue  # those are numbers
        with pytest.raises(ValueError, match=r"^.{1,200}$"):
            grade(question, answer)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@given(
    answers=st.dictionaries(st.sampled_from([q.id for q in ALL] + ["none"]), json_values),
    seed=st.integers(0, 2**53 - 1),
)
def test_whatever_a_bundle_says_it_is_graded_without_a_crash(answers: dict[str, Any], seed: int) -> None:
    result = grade_attempt(load_once(), seed, answers)
    assert 0 <= result.points <= result.possible
    assert set(result.grades) <= set(answers)
    assert result.passed == (result.share >= 0.8 - 1e-9)


@cache
def load_once() -> Quiz:
    return load(SAMPLER)


@given(seed=st.integers(0, 2**53 - 1))
def test_the_right_answers_pass_with_all_points_whatever_the_seed(seed: int) -> None:
    quiz = load_once()
    answers = {question.id: perfect(question) for question in draw(quiz, seed).questions}
    result = grade_attempt(quiz, seed, json.loads(json.dumps(answers)))
    assert (result.share, result.passed) == (1.0, True)


def test_an_attempt_is_drawn_from_its_seed_alone() -> None:
    quiz = load_once()
    assert draw(quiz, 5) == draw(load(SAMPLER), 5)
    shown = [[option.text for option in draw(quiz, seed).questions[0].options] for seed in range(20)]  # type: ignore[union-attr]
    assert len({tuple(texts) for texts in shown}) == 6, "three choices come in all their orders"
    numbers = {draw(quiz, seed).questions[-1].text for seed in range(20)}
    assert len(numbers) > 10, "a retake draws new numbers"


def test_things_to_put_in_order_are_never_shown_in_order() -> None:
    for seed in range(200):
        order = next(q for q in draw(load_once(), seed).questions if isinstance(q, PutInOrder))
        assert perfect(order) != list(range(len(order.items)))


@pytest.mark.parametrize("seed", [-1, 2**53, 1.0, "1", None, True])
def test_what_is_no_seed_is_refused(seed: Any) -> None:
    with pytest.raises(ValueError, match="whole number from 0"):
        grade_attempt(load_once(), seed, {})


@pytest.mark.parametrize("answers", [None, [], "x", 3])
def test_what_is_no_mapping_of_answers_is_refused(answers: Any) -> None:
    with pytest.raises(ValueError, match="must be a mapping"):
        grade_attempt(load_once(), 1, answers)


@given(p=st.integers(1, 16), m=st.integers(1, 64))
def test_keys_agree_with_the_published_formulas(p: int, m: int) -> None:
    def key(formula: str, **arguments: int) -> float:
        return Key(formula=formula, **arguments).value

    assert key("gpipe_bubble_percent", stages=p, micro_batches=m) == pytest.approx(100 * (p - 1) / (m + p - 1))
    assert key("gpipe_overhead_percent", stages=p, micro_batches=m) == pytest.approx(100 * (p - 1) / m)
    assert key("gpipe_speedup", stages=p, micro_batches=m) == pytest.approx(p * m / (m + p - 1))
    assert key("gpipe_live", stages=p, micro_batches=m) == m
    assert key("one_f_one_b_live", stages=p, micro_batches=m, rank=p - 1) == 1
