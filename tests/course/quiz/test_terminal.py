"""The terminal's front: typed as a learner types, read as a learner reads."""

import re

import pytest

from course.progress import Progress
from course.quiz.asked import Asked, Choose, GiveNumber, WriteSchedule
from course.quiz.perfect import perfect
from course.quiz.sitting import Sitting
from course.quiz.typed import letters, read
from tests.course.quiz.samples import Learner, as_typed, at_the_end, in_terminal, sampler, sit


def kind(sitting: Sitting, cls: type[Asked]) -> Asked:
    return next(question for question in sitting.attempt.questions if isinstance(question, cls))


def all_right(sitting: Sitting) -> list[str]:
    return [line for question in sitting.attempt.questions for line in as_typed(question, perfect(question))]


def test_all_right_answers_pass_and_each_has_its_feedback() -> None:
    sitting = sit(seed=7)
    said = in_terminal(sitting, Learner(all_right(sitting)))
    assert said.rstrip().endswith("13 of 13 points. Passed. Best so far: 100 % (1 attempt).")
    assert said.count("✓") >= len(sitting.attempt.questions)
    assert "✗" not in said
    assert "Worked out: A rank works 8 steps and waits 3, so 3 of 11 steps are idle." in said
    for number, question in enumerate(sitting.attempt.questions, 1):
        assert re.search(rf"^{number}\. \w", said, re.MULTILINE), question.id


def test_a_wrong_answer_names_the_section_and_can_be_answered_again() -> None:
    sitting = sit(seed=7)
    question = sitting.attempt.questions[0]
    assert isinstance(question, Choose)
    wrong = next(i for i, option in enumerate(question.options) if not option.right)
    said = in_terminal(sitting, Learner([letters(3)[wrong], letters(3)[perfect(question)]]))
    assert "Read again: Four stages, one batch" in said
    assert "Answer again, or go on with an empty line." in said
    assert sitting.result().points == 1
    assert [event.points for event in Progress().events("answer", "sampler")] == [0, 1]


def test_what_is_no_answer_is_said_and_costs_nothing() -> None:
    sitting = sit(seed=7)
    said = in_terminal(sitting, Learner(["z", "a b", "!", "a"]))
    assert "There is no z here; type letters from a to c." in said
    assert "Type one letter." in said
    assert len(Progress().events("answer", "sampler")) == 1


def test_an_end_in_the_middle_keeps_the_answers_and_the_next_sitting_goes_on() -> None:
    for after in (EOFError, KeyboardInterrupt):
        sitting = sit(seed=7)
        said = in_terminal(sitting, Learner(all_right(sitting)[:2], after))
        assert "Your answers to 2 questions are kept. The same command goes on from here." in said
    again = Sitting(sampler(), Progress())
    assert again.attempt.seed == 7
    learner = Learner(all_right(again)[2:])
    said = in_terminal(again, learner)
    assert "You go on where you were" in said
    assert "13 of 13 points. Passed." in said
    assert not learner.lines


def test_a_question_left_for_later_comes_again() -> None:
    sitting = sit(seed=7)
    lines = all_right(sitting)
    said = in_terminal(sitting, Learner(["", *lines[1:], lines[0]]))
    assert "1 question is left." in said
    assert "13 of 13 points" in said


def test_a_number_takes_its_unit_and_refuses_what_two_readers_read_in_two_ways() -> None:
    sitting = sit(seed=7)
    number = kind(sitting, GiveNumber)
    at = sitting.attempt.questions.index(number)
    said = in_terminal(sitting, Learner([*[""] * at, "1,024", "many", "27,3 %"]))
    assert "Write the number without a comma between its digits" in said
    assert "Write a number, such as 12.5." in said
    assert sitting.grades()[number.id].right


def test_a_schedule_is_typed_line_by_line() -> None:
    sitting = sit(seed=7)
    schedule = kind(sitting, WriteSchedule)
    at = sitting.attempt.questions.index(schedule)
    learner = Learner([*[""] * at, "F0 F1 x", "F0", "f0 f1 b0 f2 b1 f3 b2 b3", "F0 B0 F1 B1 F2 B2 F3 B3"])
    said = in_terminal(sitting, learner)
    assert "Rank 0: X is not an action" in said
    assert {"rank 0: ", "rank 1: "} <= set(learner.prompts)
    assert sitting.grades()[schedule.id].right
    assert "That is as good as 1F1B." in said


def test_an_exam_shows_nothing_before_it_is_handed_in_and_then_all() -> None:
    sitting = sit(at_the_end(), seed=7)
    lines = all_right(sitting)
    said = in_terminal(sitting, Learner(["", *lines[1:-1], "", "h"]))
    before, _middle, after = said.partition("2 questions are left.")
    assert "✓" not in before
    assert "✗" not in before
    assert after.count("You gave no answer.") == 2
    assert after.count("✓") >= 6
    assert "It took 1 minute." in after
    assert sitting.handed_in


def test_an_exams_answer_can_be_changed_by_its_number() -> None:
    sitting = sit(at_the_end(), seed=7)
    lines, question = all_right(sitting), sitting.attempt.questions[0]
    assert isinstance(question, Choose)
    wrong = letters(3)[(perfect(question) + 1) % 3]
    in_terminal(sitting, Learner([wrong, *lines[1:], "1", lines[0], "h"]))
    assert sitting.result().points == 13


def test_a_text_with_escape_codes_or_markup_of_the_terminal_stays_text() -> None:
    said = in_terminal(sit(seed=7), Learner(["\x1b[31m", "[red]a[/red]", "a"]))
    assert "\x1b" not in said


@pytest.mark.parametrize(("typed", "places"), [("a c", [0, 2]), ("AC", [0, 2]), ("c,a", [2, 0]), ("a; c.", [0, 2])])
def test_letters_are_read_however_they_are_parted(typed: str, places: list[int]) -> None:
    question = next(q for q in sit(seed=7).attempt.questions if isinstance(q, Choose) and q.several)
    assert read(question, [typed]) == places
