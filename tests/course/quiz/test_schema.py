from pathlib import Path

import pytest

from course.lessons import lessons
from course.quiz.schema import QuizError, load
from tests.course.quiz.samples import SAMPLER

GOOD = """\
id: sample
title: {en: Sample}
questions:
  - id: first
    kind: one
    read_again: A heading
    text: {en: Which?}
    choices:
      - text: {en: This}
        right: true
        feedback: {en: Yes.}
      - text: {en: That}
        feedback: {en: No.}
  - id: second
    kind: number
    read_again: A heading
    text: {en: How many percent?}
    key: {formula: gpipe_bubble_percent, stages: 4, micro_batches: 1}
    tolerance: 0.5
    unit: "%"
    right: {en: Yes.}
    wrong: {en: No.}
  - id: third
    kind: order
    text: {en: In which order?}
    items:
      - {text: {en: one}, feedback: {en: f1}}
      - {text: {en: two}, feedback: {en: f2}}
      - {text: {en: three}, feedback: {en: f3}}
    right: {en: Yes.}
  - id: fourth
    kind: match
    text: {en: What belongs together?}
    pairs:
      - {left: {en: a}, right: {en: A}, feedback: {en: fa}}
      - {left: {en: b}, right: {en: B}, feedback: {en: fb}}
    decoys:
      - {en: C}
    right: {en: Yes.}
  - id: fifth
    kind: schedule
    text: {en: Write one.}
    ranks: 2
    micro_batches: 4
    as_good_as: 1f1b
    targets: {bubble: {en: too idle}, live: {en: too full}}
    right: {en: Yes.}
  - id: sixth
    kind: generated
    function: gpipe-bubble
    ask: number
"""
"""A quiz with every kind; each mistake below changes one thing in it."""


def quiz_file(folder: Path, text: str) -> Path:
    path = folder / "sample.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def test_a_good_file_loads(tmp_path: Path) -> None:
    quiz = load(quiz_file(tmp_path, GOOD))
    kinds = ["one", "number", "order", "match", "schedule", "generated"]
    assert [question.kind for question in quiz.questions] == kinds


MISTAKES = [
    ("        feedback: {en: No.}\n  - id: s", "  - id: s", 12, "questions.0.choices.1.feedback: Field required"),
    ("right: true", "right: perhaps", 10, "choices.0.right: Input should be a valid boolean"),
    ("right: true", "right: 1", 10, "choices.0.right: Input should be a valid boolean"),
    ("        right: true\n", "", 4, "exactly one choice with 'right: true'"),
    ("feedback: {en: No.}", "feedback: {en: No.}\n        right: true", 4, "exactly one choice with 'right: true'"),
    ("kind: one", "kind: order", 4, "questions.0.items: Field required"),
    ("tolerance: 0.5", "tolerance: true", 19, "tolerance: Input should be a valid number"),
    ("kind: one", "kind: guess", 4, "'guess' found using 'kind' does not match"),
    ("text: {en: Which?}", "text: {bn: কোনটি?}", 7, "needs an English sentence"),
    ("text: {en: Which?}", "text: {en: ' '}", 7, "needs an English sentence"),
    ("text: {en: Which?}", "text: {en: Which?, bn: ''}", 7, "the text in language 'bn' is empty"),
    ("text: {en: Which?}", "text: {en: Which?, English: x}", 7, "'English' is not the code of a language"),
    ("text: {en: Which?}", "text: {en: 2026-01-01}", 7, "Input should be a valid string"),
    ("text: {en: Which?}", "text: {en: [Which?]}", 7, "Input should be a valid string"),
    ("text: {en: Which?}", "text: Which?", 7, "Input should be a valid dictionary"),
    ("text: {en: Which?}", "text: {en: $\\foo$}", 7, "there is no \\foo here"),
    ("text: {en: Which?}", 'text: {en: "a\\e[31mb"}', 7, "the character U+001B cannot be shown"),
    ("text: {en: Which?}", 'text: {en: "a\\0b"}', 7, "the character U+0000 cannot be shown"),
    ("text: {en: That}", "text: {en: This}", 4, "two choices are the same: 'This'"),
    ("gpipe_bubble_percent", "bubbles", 18, "there is no formula 'bubbles'; there are: gpipe_bubble_percent"),
    ("stages: 4", "stages: 0", 18, "stages=0; it must be a whole number from 1 to 64"),
    ("stages: 4", "stages: true", 18, "stages=True; it must be a whole number"),
    ("stages: 4", "stages: 4.0", 18, "stages=4.0; it must be a whole number"),
    ("stages: 4", "stages: 65", 18, "stages=65; it must be a whole number from 1 to 64"),
    ("stages: 4", "ranks: 4", 18, "gpipe_bubble_percent takes stages, micro_batches; given are ranks, micro_batches"),
    ("{formula: gpipe_bubble_percent, stages: 4, micro_batches: 1}", "75", 18, "key"),
    ("tolerance: 0.5", "tolerance: -1", 19, "tolerance"),
    ("tolerance: 0.5", "tolerance: .nan", 19, "tolerance"),
    ("tolerance: 0.5", "tolerance: .inf", 19, "tolerance"),
    ("    wrong: {en: No.}", "    wrong: {en: No.}\n    points: 0", 23, "points: Input should be greater than 0"),
    ("    wrong: {en: No.}", "    wrong: {en: No.}\n    points: 1e999", 23, "points"),
    (
        "    wrong: {en: No.}",
        "    wrong: {en: No.}\n    mistakes:\n"
        "      - {key: {formula: gpipe_bubble_percent, stages: 4, micro_batches: 1}, feedback: {en: x}}",
        14,
        "mistake 0 leads to 75, which the tolerance takes for the key",
    ),
    ("id: second", "id: first", 3, "two questions have the id 'first'"),
    ("id: second", "id: Not Good!", 14, "id: String should match"),
    ("id: second", f"id: {'x' * 65}", 14, "id: String should have at most 64 characters"),
    ("id: second", "id: 2", 14, "id: Input should be a valid string"),
    ("    unit", "    unti", 20, "unti: Extra inputs are not permitted"),
    ("      - {text: {en: three}, feedback: {en: f3}}\n", "", 26, "items: Tuple should have at least 3 items"),
    ("feedback: {en: f3}", "feed: {en: f3}", 29, "items.2.feedback: Field required"),
    ("{en: three}", "{en: two}", 23, "two items are the same: 'two'"),
    ("right: {en: B}", "right: {en: A}", 31, "two right sides are the same: 'A'"),
    ("left: {en: b}", "left: {en: a}", 31, "two left sides are the same: 'a'"),
    ("- {en: C}", "- {en: A}", 31, "two right sides are the same: 'A'"),
    ("right: {en: B}, feedback: {en: fb}", "right: {en: B}", 36, "pairs.1.feedback: Field required"),
    ("as_good_as: 1f1b", "as_good_as: best", 40, "schedule 'best' is not one of naive, gpipe, 1f1b"),
    ("ranks: 2", "ranks: 9", 43, "ranks: Input should be less than or equal to 8"),
    ("ranks: 2", "ranks: '2'", 43, "ranks: Input should be a valid integer"),
    ("micro_batches: 4\n", "micro_batches: 1000\n", 44, "micro_batches: Input should be less than or equal to 16"),
    ("as_good_as: 1f1b", "as_good_as: 1f1b\n    virtual: 2", 40, "1f1b has 1 stage a rank, not 2"),
    ("{bubble: {en: too idle}, live: {en: too full}}", "{}", 46, "targets: Dictionary should have at least 1 item"),
    ("{bubble: {en: too idle},", "{idle: {en: too idle},", 46, "targets"),
    ("function: gpipe-bubble", "function: bubble", 48, "there is no function 'bubble'; there are: gpipe-bubble"),
    ("function: gpipe-bubble", "function: place-of", 48, "the answer of 'place-of' is not a number"),
    ("ask: number", "ask: twice", 51, "ask: Input should be 'one' or 'number'"),
    ("title: {en: Sample}", "title: {en: Sample}\npass_mark: 1.1", 3, "pass_mark"),
    ("title: {en: Sample}", "title: {en: Sample}\nfeedback: never", 3, "feedback"),
    ("title: {en: Sample}", "title: {en: Sample}\n_sha256: x", 3, "Extra inputs are not permitted"),
    ("questions:", "questions: [", 4, "expected the node content"),
    ("title: {en: Sample}", "title: {en: Sample}\ntitle: {en: Twice}", 3, "duplicate key"),
    ("id: sample\n", "", 1, "id: Field required"),
    ("title: {en: Sample}", "1: x\ntitle: {en: Sample}", 1, "1: Extra inputs are not permitted"),
]


@pytest.mark.parametrize(("old", "new", "line", "says"), MISTAKES)
def test_a_malformed_file_is_refused_with_its_line(tmp_path: Path, old: str, new: str, line: int, says: str) -> None:
    assert old in GOOD
    with pytest.raises(QuizError) as error:
        load(quiz_file(tmp_path, GOOD.replace(old, new, 1)))
    found = str(error.value).splitlines()
    assert any(sentence.startswith(f"sample.yaml, line {line}: ") and says in sentence for sentence in found), found


def test_every_mistake_in_a_file_is_named_at_once(tmp_path: Path) -> None:
    with pytest.raises(QuizError) as error:
        load(quiz_file(tmp_path, GOOD.replace("id: second", "id: Second").replace("ask: number", "ask: me")))
    assert len(str(error.value).splitlines()) == 2


def test_the_hash_is_that_of_the_file(tmp_path: Path) -> None:
    import hashlib

    path = quiz_file(tmp_path, GOOD)
    assert load(path).sha256 == hashlib.sha256(path.read_bytes()).hexdigest()


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(QuizError, match=r"none\.yaml cannot be read"):
        load(tmp_path / "none.yaml")


@pytest.mark.parametrize("lesson", lessons(), ids=lambda lesson: lesson.name)
def test_every_lesson_has_a_quiz_of_its_name(lesson) -> None:  # type: ignore[no-untyped-def]
    assert load(lesson.quiz).id == lesson.name


def test_the_sampler_has_every_kind() -> None:
    kinds = {question.kind for question in load(SAMPLER).questions}
    assert kinds == {"one", "several", "number", "order", "match", "schedule", "generated"}
