"""What every lesson keeps to, so that who knows one finds the way in all."""

import re
from collections import Counter
from typing import Any

import nbformat
import pytest

from course.exercises.catalogue import EXERCISES
from course.glossary import glossary, of_lesson
from course.lessons import Lesson, lessons
from course.quiz.schema import Generated, load

MOST_PROSE = 25  # cells
LONGEST_SENTENCE = 45  # words
MOST_LINES = 16  # of a cell of code, imports apart
EACH = pytest.mark.parametrize("lesson", lessons(), ids=lambda lesson: lesson.name)


def cells(lesson: Lesson, kind: str) -> list[Any]:
    return [cell for cell in nbformat.read(lesson.notebook, as_version=4).cells if cell.cell_type == kind]


def prose(lesson: Lesson) -> str:
    return "\n\n".join(cell.source for cell in cells(lesson, "markdown"))


@EACH
def test_a_lesson_says_what_it_takes_and_gives_and_where_its_facts_are_from(lesson: Lesson) -> None:
    first, last = cells(lesson, "markdown")[0].source, cells(lesson, "markdown")[-1].source
    assert first.startswith(f"# {lesson.title}\n")
    assert f"about {lesson.minutes} minutes" in first
    assert 25 <= lesson.minutes <= 45
    assert last.startswith("## What you can do now\n")
    assert "**Next.**" in last
    assert "*Sources.*" in last
    assert len(cells(lesson, "markdown")) <= MOST_PROSE


@EACH
def test_every_other_lesson_that_it_names_is_there(lesson: Lesson) -> None:
    linked = re.findall(r"\]\(([^):]+\.ipynb)\)", prose(lesson))
    assert [name for name in linked if not (lesson.notebook.parent / name).exists()] == []


@EACH
def test_a_lesson_asks_before_it_shows_and_compares_at_the_end(lesson: Lesson) -> None:
    code = [cell.source for cell in cells(lesson, "code")]
    asked = [source for source in code if source.startswith("predict_")]
    assert asked
    compared = f'predictions("{lesson.id}")'
    assert code.index(compared) > max(map(code.index, asked))
    assert code.index(f'words("{lesson.id}")') < code.index(f'quiz("{lesson.id}")') < code.index("home()")


@EACH
def test_a_lesson_has_its_exercises_each_with_a_stub_a_check_and_a_hint(lesson: Lesson) -> None:
    code = cells(lesson, "code")
    own = [exercise.name for exercise in EXERCISES.values() if exercise.lesson == lesson.name]
    assert own
    assert [re.findall(r'^check\("([^"]+)"', cell.source) for cell in code if "check(" in cell.source] == [
        [name] for name in own
    ]
    assert sum("exercise" in cell.metadata.get("tags", []) for cell in code) == len(own)
    for name in own:
        assert any(cell.source == f'# hint("{name}")' for cell in code)


@EACH
def test_cells_of_code_are_short_and_have_names(lesson: Lesson) -> None:
    every = nbformat.read(lesson.notebook, as_version=4).cells
    assert len({cell.id for cell in every}) == len(every)
    assert all(re.fullmatch(r"[a-z0-9-]+", cell.id) and not re.fullmatch(r"[0-9a-f]{8}", cell.id) for cell in every)
    long = [cell.id for cell in cells(lesson, "code")[1:] if len(cell.source.splitlines()) > MOST_LINES]
    assert not long


@EACH
def test_what_a_cell_printed_is_kept_only_where_it_is_compared(lesson: Lesson) -> None:
    for cell in cells(lesson, "code"):
        tags = cell.metadata.get("tags", [])
        fact = "nbval-check-output" in tags
        # nbval takes a cell without a count for one that was not run, and fails it.
        assert (bool(cell.outputs), "keep_output" in tags, cell.execution_count == 1) == (fact, fact, fact), cell.id


@EACH
def test_sentences_are_short(lesson: Lesson) -> None:
    text = re.sub(r"```.*?```|<[^>]+>|^\|.*$|^[-#0-9].*$|\]\([^)]*\)", ".\n", prose(lesson), flags=re.S | re.M)
    sentences = re.split(r"(?<=[.!?:;])\s+|\n\n", text)
    assert [sentence for sentence in sentences if len(sentence.split()) > LONGEST_SENTENCE] == []


@EACH
def test_a_quiz_has_eight_to_twelve_questions_of_several_kinds_three_of_them_generated(lesson: Lesson) -> None:
    quiz = load(lesson.quiz)
    kinds = Counter(question.kind for question in quiz.questions)
    assert 8 <= len(quiz.questions) <= 12
    assert kinds["generated"] >= 3
    assert len(kinds) >= 4
    functions = [question.function for question in quiz.questions if isinstance(question, Generated)]
    assert len(set(functions)) == len(functions)


@EACH
def test_a_lesson_explains_words(lesson: Lesson) -> None:
    told = prose(lesson).casefold()
    missing = [word.term for word in of_lesson(lesson.id) if word.term.split(",")[0].casefold() not in told]
    assert len(of_lesson(lesson.id)) >= 3
    assert missing == []


def test_a_word_is_explained_once() -> None:
    assert [term for term, count in Counter(word.term.casefold() for word in glossary()).items() if count > 1] == []
