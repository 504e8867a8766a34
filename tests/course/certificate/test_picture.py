"""The picture: it says what the credential says, in SVG, PNG and PDF, and no name can break or leave it."""

import io
import re
import xml.etree.ElementTree as ET
from dataclasses import replace

import numpy as np
import pytest
import segno
from joserfc.jwk import RSAKey
from PIL import Image

from course.certificate import Work, paint, picture, short_id
from course.certificate.paint import fitted, to_pdf, to_png, unknown_characters, width
from course.certificate.picture import QR, TABLE_TOP, draw
from course.certificate.shapes import HEIGHT, WIDTH, Box, Line, Page, Text
from course.certificate.svg import to_svg
from course.certificate.work import Score
from course.lessons import Lesson
from tests.course.certificate.conftest import Made, sha

LONG = "José María Núñez-Wójcik von und zu Hohenstein über den Wolken, Αλέξανδρος Дмитрий bin al-Khwarizmi."
NAMES = [
    "Ng",
    "Ada Lovelace",
    LONG,
    "W" * 100,
    "王小明",
    "محمد بن موسى",
    "<script>alert(1)</script>",
    '$x$ & "O\'Neil" ]]>',
]


def texts(page: Page) -> list[Text]:
    return [shape for shape in page.shapes if isinstance(shape, Text)]


def left(text: Text) -> float:
    return text.x - {"start": 0, "middle": 0.5, "end": 1}[text.anchor] * width(text)


@pytest.mark.parametrize("name", NAMES)
def test_every_text_is_on_the_page_and_within_its_room(made: Made, name: str) -> None:
    for text in texts(fitted(draw(made(name)))):
        assert text.room is None or width(text) <= text.room + 1, text
        assert left(text) >= 10, text
        assert left(text) + width(text) <= WIDTH - 10, text
        assert text.size >= 2


@pytest.mark.parametrize("name", NAMES)
def test_the_svg_has_the_name_as_text_and_as_nothing_else(made: Made, name: str) -> None:
    root = ET.fromstring(to_svg(fitted(draw(made(name)))))
    assert {element.tag.rpartition("}")[2] for element in root.iter()} == {
        "svg",
        "title",
        "desc",
        "rect",
        "line",
        "text",
    }
    assert name in [element.text for element in root.iter("{http://www.w3.org/2000/svg}text")]


def test_it_says_name_scores_date_id_and_what_it_proves(made: Made, instructor: RSAKey) -> None:
    own, graded = draw(made()), draw(made(issuer=instructor))
    said = {text.text for text in texts(own)}
    assert {"Ada Lovelace", "90.0 %", "85.0 %", "00  Start here", "1 exercise"} <= said
    identifier = short_id(made().id)
    assert {identifier[:19], identifier[20:]} <= said
    words = " ".join(said)
    assert "2026-03-14 · signed with the learner's own key" in words
    assert "Who did the work, and how, it does not prove" in words
    again = " ".join(text.text for text in texts(graded))
    assert "graded again from the raw answers and signed by Prof. Hopper" in again
    for forbidden in ("certified", "1EdTech", "accredited"):
        assert forbidden not in words + again
    assert own.description.startswith("Certificate of completion: Ada Lovelace")


def test_the_qr_code_is_the_id(made: Made) -> None:
    """The picture's own pixels, a module each, are those of a QR code made anew."""
    credential = made()
    pixels = np.asarray(Image.open(io.BytesIO(to_png(fitted(draw(credential))))).convert("L"))
    matrix = segno.make(short_id(credential.id), error="m", micro=False, boost_error=False).matrix
    side, scale = QR / len(matrix), pixels.shape[1] / WIDTH
    centres = (np.arange(len(matrix)) + 0.5) * side
    rows = ((TABLE_TOP - 5 + centres) * scale).astype(int)
    columns = ((WIDTH - picture.MARGIN - QR + centres) * scale).astype(int)
    assert np.array_equal(pixels[np.ix_(rows, columns)] < 128, np.array(matrix) % 2 == 1)


def test_a_course_of_thirteen_lessons_fits(made: Made, work: Work, monkeypatch: pytest.MonkeyPatch) -> None:
    names = [f"{i:02}-lesson" for i in range(13)]
    course = tuple(Lesson(name, f"A title that is rather long, number {name}", 20) for name in names)
    for module in ("course.certificate.work", "course.certificate.picture"):
        monkeypatch.setattr(f"{module}.lessons", lambda: course)
    scores = {name: Score(1.0, sha(name)) for name in names if name != "05-lesson"}
    page = fitted(draw(made(work=replace(work, scores={**work.scores, **scores}))))
    rows = [text for text in texts(page) if text.group == "table" and text.anchor == "start"]
    assert len(rows) == 14
    assert len({text.size for text in rows}) == 1, "the titles of all lessons are equally large"
    assert [text.text for text in texts(page)].count("–") == 1, "a quiz that was not taken"
    assert max(text.y for text in rows) < HEIGHT - 24, "above the foot"
    boxes = sorted((text.x, text.y) for text in rows)
    assert len(set(boxes)) == len(boxes)


def test_the_png_is_sharp_on_white_paper(made: Made) -> None:
    image = Image.open(io.BytesIO(to_png(fitted(draw(made())))))
    assert image.width / (WIDTH / 25.4) >= 199, "dots an inch"
    assert image.convert("RGB").getpixel((5, 5)) == (255, 255, 255)
    assert image.text["Title"] == "Certificate of completion"


def test_the_pdf_is_one_page_of_a4_with_letters_and_no_date_of_its_own(made: Made) -> None:
    pdf = to_pdf(fitted(draw(made())))
    assert pdf.startswith(b"%PDF-1.")
    box = re.search(rb"/MediaBox \[ ?0 0 ([\d.]+) ([\d.]+) ?\]", pdf)
    assert box is not None
    assert [round(float(side) / 72 * 25.4) for side in box.groups()] == [WIDTH, HEIGHT]
    assert len(re.findall(rb"/Type /Page\b", pdf)) == 1
    assert b"/FontFile2" in pdf, "letters as TrueType, not as pictures"
    assert b"/CreationDate" not in pdf
    assert to_pdf(fitted(draw(made()))) == pdf, "the same certificate gives the same file"


def test_the_frieze_is_a_whole_schedule_and_leaves_idle_time_empty(made: Made) -> None:
    frieze = [shape for shape in draw(made()).shapes if isinstance(shape, Box) and shape.y < 40]
    assert len(frieze) == 2 * picture.STAGES * picture.MICRO_BATCHES
    assert {box.color for box in frieze} == {"#0072B2", "#D55E00"}


def test_characters_that_no_font_has_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    assert unknown_characters("Ada Łódź Ελλάδα Москва محمد") == ""
    monkeypatch.setattr(paint.fontManager, "ttflist", [f for f in paint.fontManager.ttflist if "DejaVu" in f.name])
    assert unknown_characters("Ada 王小王\u200d") == "王小"
    assert len(to_png(Page("t", "d", (Text(20, 20, 5, "王"), Line(0, 0, 1, 1))))) > 1000, "drawn all the same"
