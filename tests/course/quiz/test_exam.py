"""The final exam: drawn of every lesson, with generated questions, the same for the same seed."""

import json

import pytest

from course.quiz.attempt import draw, grade_attempt
from course.quiz.exam import FROM_EACH, GENERATED_QUESTIONS, exam
from course.quiz.perfect import perfect
from course.quiz.schema import Quiz, load
from course.quiz.sitting import source
from tests.course.quiz.samples import SAMPLER


def quizzes() -> list[Quiz]:
    sampler = load(SAMPLER)
    return [sampler.model_copy(update={"id": f"{i:02}-lesson"}) for i in range(13)]


def test_every_lesson_is_asked_about_and_numbers_are_drawn() -> None:
    drawn = exam(3, quizzes())
    lessons = [question.id[:9] for question in drawn.questions if not question.id.startswith("generated-")]
    assert {lesson: lessons.count(lesson) for lesson in lessons} == {f"{i:02}-lesson": 2 for i in range(13)}
    assert sum(question.id.startswith("generated-") for question in drawn.questions) == 8
    assert {question.points for question in drawn.questions} == {1.0}
    assert (drawn.pass_mark, drawn.feedback) == (0.8, "at the end")


def test_the_same_seed_is_the_same_exam_and_another_seed_another() -> None:
    one, same, other = exam(3, quizzes()), exam(3, quizzes()), exam(4, quizzes())
    assert draw(one, 3) == draw(same, 3)
    assert [q.id for q in one.questions] != [q.id for q in other.questions]
    assert one.sha256 == other.sha256, "the hash is of what it is drawn from"


def test_over_some_seeds_every_question_comes_up() -> None:
    lesson = quizzes()[:1]
    asked = {question.id for seed in range(60) for question in exam(seed, lesson).questions}
    assert {f"00-lesson-{question.id}" for question in load(SAMPLER).questions} <= asked


def test_the_section_to_read_again_says_of_which_lesson() -> None:
    again = [question.read_again for question in exam(3, quizzes()).questions if question.read_again]
    assert again
    assert all(heading.startswith("Every kind of question: ") for heading in again)


def test_eighty_of_a_hundred_points_pass_and_one_less_does_not() -> None:
    questions = draw(source("exam").make(9), 9).questions
    answers = {question.id: perfect(question) for question in questions}
    assert grade_attempt(exam(9), 9, answers).passed
    least = -(-len(questions) * 8 // 10)
    assert grade_attempt(exam(9), 9, dict([*answers.items()][:least])).passed
    assert not grade_attempt(exam(9), 9, dict([*answers.items()][: least - 1])).passed


def test_ids_of_full_length_do_not_meet() -> None:
    document = json.loads(load(SAMPLER).model_dump_json())
    document["id"] = "l" * 64
    for i, question in enumerate(document["questions"]):
        question["id"] = "q" * 62 + f"{i:02}"
    drawn = exam(1, [Quiz.model_validate(document)])
    assert len({question.id for question in drawn.questions}) == FROM_EACH + GENERATED_QUESTIONS


@pytest.mark.parametrize("seed", [-1, 2**53, True, 1.0, "1"])
def test_what_is_no_seed_is_told(seed: object) -> None:
    with pytest.raises(ValueError, match="must be a whole number"):
        draw(load(SAMPLER), seed)  # type: ignore[arg-type]
