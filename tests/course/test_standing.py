"""Where a learner stands, as the terminal and the notebook's home show it."""

import re
from datetime import datetime, timedelta, timezone
from html.parser import HTMLParser
from pathlib import Path

import pytest

from course.events import Event, Kind
from course.exercises.catalogue import EXERCISES
from course.lessons import ROOT, lessons
from course.progress import Progress
from course.standing import facts, minutes_by_item, next_step, standing
from course.table import Table, table
from course.widgets.home import home, to_html

START = datetime(2026, 1, 31, 12, tzinfo=timezone.utc)
FIRST = lessons()[0]
EXERCISE = next(exercise for exercise in EXERCISES.values() if exercise.lesson == FIRST.name)


def event(kind: Kind, item: str, points: float = 0.0, minute: float = 0.0) -> Event:
    return Event(kind, item, START + timedelta(minutes=minute), points, None)


QUIZ_PASSED = event("attempt", FIRST.name, 0.8)
EXERCISES_PASSED = [event("exercise", e.item, 1.0) for e in EXERCISES.values() if e.lesson == FIRST.name]


def test_one_who_did_nothing_begins_with_the_first_lesson() -> None:
    course = standing([])
    assert next_step(course).command == f"course start {FIRST.id}"
    assert course.minutes_left == sum(lesson.minutes for lesson in lessons())
    assert (course.minutes, course.exam, course.exam_passed) == (0, None, False)


def test_after_the_exercises_comes_the_quiz_after_the_quiz_the_exam_and_then_the_certificate() -> None:
    assert "the exercise" in next_step(standing([QUIZ_PASSED])).sentence
    assert next_step(standing(EXERCISES_PASSED)).command == f"course quiz {FIRST.id}"
    done = standing([QUIZ_PASSED, *EXERCISES_PASSED])
    assert done.lessons[0].done
    assert done.minutes_left == sum(lesson.minutes for lesson in lessons()[1:])
    everything = [event("attempt", lesson.name, 0.8) for lesson in lessons()]
    everything += [event("exercise", exercise.item, 1.0) for exercise in EXERCISES.values()]
    assert standing(everything).minutes_left == 0
    assert next_step(standing(everything)).command == "course quiz exam"
    whole = standing([*everything, event("attempt", "exam", 0.8)])
    assert next_step(whole).command.startswith("course certificate")


@pytest.mark.parametrize(("points", "passed"), [(0.79, False), (0.8, True), (0.8 - 1e-12, True), (1e6, True)])
def test_the_exam_is_passed_with_eighty_percent(points: float, passed: bool) -> None:
    course = standing([event("attempt", "exam", points)])
    assert course.exam_passed == passed
    assert course.exam is not None
    assert course.exam <= 1


def test_the_best_attempt_counts_and_single_answers_do_not() -> None:
    course = standing([event("attempt", FIRST.name, p) for p in (0.2, 0.9, 0.5)] + [event("answer", FIRST.name, 5)])
    assert course.lessons[0].score == 0.9
    assert standing([event("answer", FIRST.name, 5)]).lessons[0].score is None


def test_minutes_left_shrink_with_what_is_passed() -> None:
    part = standing(EXERCISES_PASSED).lessons[0]
    assert 0 < part.minutes_left < FIRST.minutes


def test_time_is_counted_between_events_and_pauses_are_not() -> None:
    events = [event("answer", "00-start", minute=m) for m in (0, 5, 7)]
    events += [event("answer", "00-start", minute=500), event("exercise", "00-start/x", minute=503)]
    events += [event("attempt", "exam", minute=505)]
    assert minutes_by_item(events) == {"00-start": pytest.approx(10), "exam": pytest.approx(2)}


def test_the_facts_are_those_of_the_table() -> None:
    found = facts(standing([QUIZ_PASSED]))
    assert found["lessons"][0]["score"] == 0.8
    assert found["lessons"][0]["quiz_passed"] is True
    assert found["next"]["command"] == f"course start {FIRST.id}"


def test_the_table_says_it_in_words() -> None:
    shown = table(standing([QUIZ_PASSED, event("attempt", "exam", 0.5)]))
    name, score, exercises, *_rest = shown.rows[0]
    assert (name, score) == (f"{FIRST.id}  {FIRST.title}", "80 %, passed")
    assert re.fullmatch(r"0 of \d+", exercises)
    assert shown.rows[-1][1] == "50 %, not passed yet"
    assert shown.sentences[0] == f"Next: Lesson {FIRST.id}, {FIRST.title}: the exercise {EXERCISE.name}."
    assert len({len(row) for row in shown.rows} | {len(shown.heads)}) == 1
    assert len(shown.notebooks) == len(shown.rows)


class Page(HTMLParser):
    """The tags and the texts of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.links: list[str | None] = []
        self.texts: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.links += [value for name, value in attrs if name == "href"]

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def read(page: str) -> Page:
    parser = Page()
    parser.feed(page)
    return parser


def test_the_home_shows_the_table_and_leads_to_each_notebook() -> None:
    Progress().record("attempt", FIRST.name, 0.8)
    page = read(str(home().data))
    shown = table(standing(Progress().log()))
    texts = [shown.title, *shown.heads, *(text for row in shown.rows for text in row if text), *shown.sentences]
    assert [text for text in page.texts[1:] if text] == texts
    assert page.links == [lesson.notebook.name for lesson in lessons()]
    assert all((ROOT / "notebooks" / str(link)).exists() for link in page.links)
    assert "script" not in page.tags


def test_no_text_can_bring_markup_into_the_home() -> None:
    hostile = "<script>alert(1)</script>&amp;'\""
    rows = ((hostile, hostile), (hostile, hostile))
    page = read(to_html(Table(hostile, (hostile, hostile), rows, (hostile, ""), (hostile,))))
    assert set(page.tags) == {"style", "div", "table", "caption", "thead", "tbody", "tr", "th", "td", "a", "p"}
    assert page.texts.count(hostile) == 8
    assert page.links == ["%3Cscript%3Ealert%281%29%3C/script%3E%26amp%3B%27%22"]


def test_where_progress_cannot_be_read_the_home_says_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("COURSE_DATA", str(tmp_path / "file" / "<data>"))
    page = read(str(home().data))
    assert page.tags == ["p"]
    assert "cannot be kept in" in page.texts[0]
