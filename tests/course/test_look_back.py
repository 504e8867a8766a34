"""What stands at the end of a lesson: what was predicted, beside what is true, and the words it explained."""

from html.parser import HTMLParser

import pytest
from typer.testing import CliRunner

from course.cli import app
from course.glossary import glossary, of_lesson, search, words
from course.lessons import lessons
from course.progress import Progress
from course.widgets import predictions
from course.widgets.predict import Prediction
from course.widgets.predictions import firsts


class Cells(HTMLParser):
    """The texts of a page's cells, and all its tags."""

    def __init__(self) -> None:
        super().__init__()
        self.cells: list[str] = []
        self.tags: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        if tag == "td":
            self.cells.append("")

    def handle_data(self, data: str) -> None:
        if self.cells:
            self.cells[-1] += data


def read(page: object) -> Cells:
    cells = Cells()
    cells.feed(str(page))
    return cells


def predict(item: str, question: str, unit: str, truth: float, *typed: str) -> None:
    widget = Prediction(item, question, unit, truth, "because")
    for text in typed:
        widget._handle_custom_msg({"prediction": text}, [])


def test_the_first_prediction_of_each_question_stands_beside_the_truth() -> None:
    predict("00-start/a", "How much?", "GiB", 128.0, "nonsense", "16", "128")
    predict("00-start/b", "How many?", "", 12345.0, "1e4")
    predict("01-memory/c", "Of another lesson?", "", 1.0, "1")
    assert read(predictions("00").data).cells == ["How much?", "16 GiB", "128 GiB", "How many?", "10,000", "12,345"]


def test_who_predicted_nothing_is_told_what_it_would_have_been_good_for() -> None:
    assert "no prediction" in str(predictions("00").data)


def test_no_question_brings_markup_into_the_page_and_an_older_record_is_shown_by_its_name() -> None:
    predict("00-start/a", "<script>alert(1)</script>", "<b>", 1.0, "2")
    Progress().record("prediction", "00-start/old", detail={"predicted": 3, "truth": 4.5})
    Progress().record("prediction", "00-start/odd", detail="x")
    page = read(predictions("00").data)
    assert "script" not in page.tags
    assert "b" not in page.tags
    assert page.cells[3:] == ["00-start/old", "3", "4.5", "00-start/odd", "–", "–"]
    assert [event.item for event in firsts(Progress().log("prediction"))] == [
        "00-start/a",
        "00-start/old",
        "00-start/odd",
    ]


def test_an_unknown_lesson_is_refused() -> None:
    with pytest.raises(ValueError, match="there is no lesson '77'"):
        predictions("77")


def test_every_word_is_of_a_lesson_in_their_order() -> None:
    order = [word.lesson for word in glossary()]
    assert order == sorted(order)
    assert set(order) == {lesson.id for lesson in lessons()}
    assert all(word.meaning.endswith(".") for word in glossary())
    page = str(words("00").data)
    assert all(word.term in page for word in of_lesson("00"))


def test_the_command_finds_a_word_whatever_its_letters_case() -> None:
    told = CliRunner().invoke(app, ["glossary", "BUBBLE"], env={"COLUMNS": "200"})
    assert told.exit_code == 0
    assert {word.term for word in search("bubble")} == {w.term for w in glossary() if "bubble" in w.term}
    assert "Time in which ranks wait with nothing to do" in told.stdout
    assert "00 Start here" in told.stdout


def test_the_command_says_so_where_there_is_no_such_word() -> None:
    told = CliRunner().invoke(app, ["glossary", "xyzzy"])
    assert told.exit_code == 1
    assert "no word contains 'xyzzy'" in told.stderr
