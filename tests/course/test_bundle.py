"""Bundles: what was done comes out as it went in, and whatever else comes in is refused with a sentence."""

import copy
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from course.bundle import MOST_BYTES, pack, read, unpack
from course.certificate.work import quizzes, required
from course.cli import app
from course.progress import Progress
from tests.course.class_of import LEARNER, attempt, bundle_of, passed, right_answers, solve

WRONG: list[Any] = [
    None,
    True,
    -1,
    1.5,
    10**30,
    "text",
    "",
    [],
    {},
    ["x"],
    {"a": {}},
    "../../etc/passwd",
    "\u202e",
    "A" * 300_000,
]


@pytest.fixture(scope="module")
def document(tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("learner")
    progress = Progress(folder / "p.sqlite3")
    solve(progress, "00-start/column-linear")
    attempt(progress, "00-start", 3, right_answers("00-start", 3))
    progress.record("answer", "00-start", 1.0, {"seed": 3, "quiz": "0" * 64, "question": "bubble", "answer": 1})
    progress.record("hint", "00-start/column-linear")
    return json.loads(pack(progress, LEARNER, "Ada Lovelace"))


def test_what_was_packed_is_unpacked(document: Any) -> None:
    bundle = unpack(json.dumps(document).encode())
    assert (bundle.learner, bundle.name) == (LEARNER, "Ada Lovelace")
    assert [made.answers for made in bundle.tries] == [right_answers("00-start", 3)]
    assert [(a.quiz, a.answers) for a in bundle.answers] == [("00-start", {"bubble": 1})]
    assert [(s.item, s.claimed) for s in bundle.solutions] == [("00-start/column-linear", True)]
    assert "def column_linear" in bundle.solutions[0].source
    assert [event.kind for event in bundle.events] == ["exercise", "attempt", "answer", "hint"]


def test_a_bundle_is_plain_json_that_a_person_can_read(document: Any) -> None:
    assert document.keys() == {"format", "version", "course", "learner", "progress"}
    assert document["format"] == "minipar-course-submission"


def malformed(document: Any) -> Iterator[bytes]:
    raw = json.dumps(document).encode()
    for size in {*range(0, len(raw), len(raw) // 30), len(raw) - 1}:
        yield raw[:size]
    places = [
        *[(field,) for field in document],
        *[("learner", field) for field in document["learner"]],
        *[("progress", field) for field in document["progress"]],
        *[("progress", "events", number) for number in range(4)],
        *[("progress", "events", n, field) for n in range(4) for field in ("uuid", "at", "kind", "item", "points")],
        *[("progress", "events", 0, "detail", "source")],
        *[("progress", "events", 1, "detail", field) for field in ("seed", "quiz", "answers")],
        *[("progress", "events", 2, "detail", field) for field in ("seed", "quiz", "question")],
    ]
    for place in places:
        for wrong in WRONG:
            if not _may_be(place, wrong):
                yield json.dumps(_put(document, place, wrong)).encode()
        if place[-1] not in (0, 1, 2, 3, "source"):
            yield json.dumps(_put(document, place, ...)).encode()
    yield from (
        b"",
        b"{}",
        b"[]",
        b"5",
        b"null",
        b'"text"',
        b"\0" * 50,
        b"\xff\xfe" + json.dumps(document).encode("utf-16-le"),
    )
    yield from (
        b"\xef\xbb\xbf" + raw,
        raw[:-1] + b', "format": "minipar-course-submission"}',
        raw + raw,
        raw.replace(b"1.0", b"NaN"),
    )
    yield from (raw.replace(b"1.0", b"1e999"), raw.replace(b'"seed": 3', b'"seed": 3' + b"0" * 5000), b"[" * 200_000)
    yield raw.replace(b'"bubble"', b'"\\ud800"')
    yield raw.replace(b'"answer": 1', b'"answer": ' + b"[" * 30 + b"]" * 30)
    yield raw.replace(b'"answer": 1', b'"answer": ' + b"[" * 50_000 + b"]" * 50_000)
    yield b"PK\x03\x04" + raw  # a zip
    yield b"\x80\x04\x95" + raw  # a pickle
    twice = copy.deepcopy(document)
    twice["progress"]["events"].append(twice["progress"]["events"][0])
    yield json.dumps(twice).encode()
    yield b" " * (MOST_BYTES + 1)
    for name in (
        "../../x",
        "/etc/passwd",
        "00-start/../../x",
        "C:\\x",
        "a\0b",
        "00-start",
        "00-start/",
        "~/x",
        "x/y/z",
    ):
        yield json.dumps(_put(document, ("progress", "events", 0, "item"), name)).encode()
        if name not in ("00-start",):
            yield json.dumps(_put(document, ("progress", "events", 1, "item"), name)).encode()
    yield json.dumps(_put(document, ("progress", "events", 1, "points"), 1.001)).encode()
    yield json.dumps(_put(document, ("learner", "name"), "\x1b[31mred")).encode()


def _may_be(place: tuple[Any, ...], wrong: Any) -> bool:
    """What is allowed there after all."""
    return (
        (place[-1] == "course" and wrong == "text")
        or (place[-1] == "name" and wrong in ("text", "../../etc/passwd"))
        or (place[-1] == "events" and wrong == [])
        or (place[-1] == "item" and wrong == "text" and place[2] != 0)
        or (place[-1] == "points" and wrong == 1.5 and place[2] != 1)
        or (place[-1] == "answers" and wrong in ({}, {"a": {}}))
        or (place[-1] == "source" and wrong in ("text", "../../etc/passwd", "\u202e"))
        or (place[-1] == "question" and isinstance(wrong, str) and len(wrong) < 200)
    )


def _put(document: Any, place: tuple[Any, ...], new: Any) -> Any:
    changed = copy.deepcopy(document)
    at = changed
    for step in place[:-1]:
        at = at[step]
    if new is ...:
        del at[place[-1]]
    else:
        at[place[-1]] = new
    return changed


def test_hundreds_of_malformed_bundles_are_refused_and_nothing_is_written(
    document: Any, tmp_path: Path, data_folder: Path
) -> None:
    folder = tmp_path / "files"
    folder.mkdir()
    path = folder / "bundle.json"
    count = 0
    for content in malformed(document):
        path.write_bytes(content)
        with pytest.raises(ValueError, match=r"bundle\.json") as refused:
            read(path)
        assert len(str(refused.value)) < 700, "no document can flood a terminal"
        assert str(refused.value).isprintable(), str(refused.value)
        count += 1
    assert count > 300
    assert [entry.name for entry in folder.iterdir()] == ["bundle.json"]
    assert not data_folder.exists()


def test_submit_writes_one_file_that_the_instructor_can_read(data_folder: Path, tmp_path: Path) -> None:
    passed(data_folder / "progress.sqlite3")
    target = tmp_path / "hand in.json"
    result = CliRunner().invoke(app, ["submit", "--name", " Ada  Lovelace ", "--file", str(target)])
    assert result.exit_code == 0, result.output
    assert f"{len(required())} solutions" in result.output
    assert f"{len(quizzes())} attempts" in result.output
    bundle = read(target)
    assert bundle.name == "Ada Lovelace"
    assert {made.quiz for made in bundle.tries} == set(quizzes())
    assert [entry.name for entry in tmp_path.iterdir() if entry.name != "data"] == ["hand in.json"]


def test_submit_refuses_a_name_that_is_none_and_writes_nothing(tmp_path: Path) -> None:
    target = tmp_path / "b.json"
    result = CliRunner().invoke(app, ["submit", "--name", "\x1b[0m", "--file", str(target)])
    assert result.exit_code == 1
    assert "name" in result.stderr
    assert not target.exists()


def test_reading_a_bundle_runs_nothing_in_it(tmp_path: Path) -> None:
    mark = tmp_path / "ran"
    progress = Progress(tmp_path / "p.sqlite3")
    solve(progress, "00-start/column-linear", f"open({str(mark)!r}, 'w')")
    read(bundle_of(progress, tmp_path / "b.json"))
    assert not mark.exists()
