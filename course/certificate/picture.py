"""The certificate's picture: one page for print. Everything in it comes from the credential.

Its frieze is a real schedule, one forward and one backward in turn (1F1B): 4 stages, 12 micro-batches, simulated.
"""

from __future__ import annotations

from collections.abc import Iterator

import segno

from course.certificate.credential import Credential, short_id
from course.certificate.keys import fingerprint
from course.certificate.shapes import HEIGHT, INK, QUIET, WIDTH, Box, Line, Page, Shape, Text
from course.lessons import lessons
from course.quiz.exam import EXAM
from minipar.draw import FILL, percent
from minipar.pipeline import one_f_one_b, simulate
from minipar.words import _, plural

MARGIN = 22.0
STAGES, MICRO_BATCHES = 4, 12
FRIEZE_TOP, ROW = 14.0, 4.2  # where the frieze begins, and how tall a rank's row is
TABLE_TOP, TABLE_ROW = 132.0, 6.4
ROWS = 7  # of the table, in each of its columns
QR = 34.0  # side of the QR code, without its quiet zone


def draw(credential: Credential) -> Page:
    """The page for a credential."""
    identifier = short_id(credential.id)
    title = _("Certificate of completion")
    description = _("{title}: {name}, {course}, {date}, ID {identifier}").format(
        title=title,
        name=credential.learner,
        course=course_title(),
        date=credential.valid_from[:10],
        identifier=identifier,
    )
    shapes = (*_frieze(), *_heading(credential, title), *_table(credential), *_seal(identifier), *_foot(credential))
    return Page(title, description, shapes)


def course_title() -> str:
    """The course's title, in the reader's language."""
    return _("Model and pipeline parallelism")


def _frieze() -> Iterator[Shape]:
    timeline = simulate(one_f_one_b(STAGES, MICRO_BATCHES))
    unit = (WIDTH - 2 * MARGIN) / timeline.duration
    bottom = FRIEZE_TOP + STAGES * ROW
    for rank in range(STAGES + 1):  # idle time is nothing, outlined
        yield Line(MARGIN, FRIEZE_TOP + rank * ROW, WIDTH - MARGIN, FRIEZE_TOP + rank * ROW, thick=0.12)
    for x in (MARGIN, WIDTH - MARGIN):
        yield Line(x, FRIEZE_TOP, x, bottom, thick=0.12)
    for span in timeline.spans:
        x, y = MARGIN + span.start * unit, FRIEZE_TOP + span.rank * ROW
        width = (span.end - span.start) * unit
        yield Box(x + 0.2, y + 0.2, width - 0.4, ROW - 0.4, FILL[span.action.kind])
    words = _("one forward, one backward: {stages} stages, {count} micro-batches, idle {idle} of the time")
    caption = words.format(stages=STAGES, count=MICRO_BATCHES, idle=percent(timeline.bubble_of_total))
    yield Text(WIDTH - MARGIN, bottom + 4.4, 2.6, caption, color=QUIET, anchor="end", room=WIDTH - 2 * MARGIN)


def _heading(credential: Credential, title: str) -> Iterator[Shape]:
    middle, room = WIDTH / 2, WIDTH - 2 * MARGIN
    yield Text(middle, 54, 12.5, title, "serif", anchor="middle", room=room)
    yield Text(middle, 68, 4.6, _("This is to say that"), color=QUIET, anchor="middle", room=room)
    yield Text(middle, 86, 15, credential.learner, "serif", anchor="middle", bold=True, room=room - 20)
    yield Line(middle - 70, 91, middle + 70, 91)
    passed = _("has passed every exercise and the final exam of the course")
    yield Text(middle, 101, 4.6, passed, color=QUIET, anchor="middle", room=room)
    yield Text(middle, 114, 9, course_title(), "serif", anchor="middle", room=room)


def _table(credential: Credential) -> Iterator[Shape]:
    """A row a lesson: its title, how many exercises were passed, and the score of its quiz; the exam last."""
    titles = {lesson.name: lesson.title for lesson in lessons()}
    done = [evidence.name.partition("/")[0] for evidence in credential.evidence if evidence.genre == "exercise"]
    rows = [(quiz, score) for quiz, score in credential.scores.items() if quiz != EXAM]
    columns = 1 if len(rows) < ROWS else 2
    width = (WIDTH - 2 * MARGIN - QR - 14 - 10 * (columns - 1)) / columns
    shown = rows[: 2 * ROWS - 1]
    for number, (quiz, score) in enumerate([*shown, (EXAM, credential.scores.get(EXAM))]):
        x = MARGIN + (number // ROWS) * (width + 10)
        y = TABLE_TOP + (number % ROWS) * TABLE_ROW
        exam = quiz == EXAM
        label = _("Final exam") if exam else f"{quiz[:2]}  {titles.get(quiz, quiz)}"
        yield Text(x, y, 3.5, label, bold=exam, room=width - 38, group="table")
        if not exam:
            count = plural("{count} exercise", "{count} exercises", done.count(quiz))
            yield Text(x + width - 17, y, 3.0, count, color=QUIET, anchor="end", room=19, group="table")
        value = "–" if score is None else _("{score} %").format(score=score)
        yield Text(x + width, y, 3.5, value, bold=exam, anchor="end", room=16, group="table")
        yield Line(x, y + 1.9, x + width, y + 1.9, thick=0.15)


def _seal(identifier: str) -> Iterator[Shape]:
    """The QR code of the ID, and the ID in words that a person can type."""
    matrix = segno.make(identifier, error="m", micro=False, boost_error=False).matrix
    side = QR / len(matrix)
    left, top = WIDTH - MARGIN - QR, TABLE_TOP - 5
    for row, modules in enumerate(matrix):
        start = None
        for column in range(len(modules) + 1):
            dark = column < len(modules) and modules[column] & 1
            if dark and start is None:
                start = column
            elif not dark and start is not None:
                yield Box(left + start * side, top + row * side, (column - start) * side, side, INK)
                start = None
    groups = identifier.split("-")
    below = top + QR + 5
    yield Text(left + QR / 2, below, 3.0, _("ID of this certificate"), color=QUIET, anchor="middle", room=QR + 8)
    for number, line in enumerate(("-".join(groups[:4]), "-".join(groups[4:])), 1):
        yield Text(left + QR / 2, below + 4.2 * number, 3.0, line, "mono", anchor="middle", room=QR + 8)


def _foot(credential: Credential) -> Iterator[Shape]:
    """When, by whom, and what that proves."""
    who = fingerprint(credential.issuer.id)
    if credential.self_signed:
        signed = _("{date} · signed with the learner's own key {key}")
        proof = _("This proves that nothing was changed since. Who did the work, and how, it does not prove.")
    else:
        signed = _("{date} · graded again from the raw answers and signed by {issuer}, key {key}")
        proof = _("This proves that the holder of this key says so. Ask them for the key, and compare.")
    words = signed.format(date=credential.valid_from[:10], issuer=credential.issuer.name, key=who)
    check = _("{proof} Check the .jwt, .svg or .png file with: course verify FILE").format(proof=proof)
    yield Line(MARGIN, HEIGHT - 22, WIDTH - MARGIN, HEIGHT - 22)
    yield Text(MARGIN, HEIGHT - 16, 3.3, words, room=WIDTH - 2 * MARGIN)
    yield Text(MARGIN, HEIGHT - 11, 3.0, check, color=QUIET, room=WIDTH - 2 * MARGIN)
