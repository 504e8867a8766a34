"""The document in which events travel: whole, or refused with a sentence; it is never trusted."""

import json
from collections.abc import Callable
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from course.events import MOST_DETAIL, MOST_EVENTS, Event, from_document, read_json, to_document
from course.progress import Progress

UUID = "6f1c1a52-6d0f-4a0e-9f0e-3b9a0e7c2d11"
ROW = {
    "uuid": UUID,
    "at": "2026-01-31T12:00:00.000001+00:00",
    "kind": "attempt",
    "item": "00-start",
    "points": 0.5,
    "detail": {"seed": 7},
}


def document(**changes: Any) -> dict[str, Any]:
    return {"format": "minipar-course-progress", "version": 1, "events": [{**ROW, **changes}]}


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**30), 10**30)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@given(
    st.sampled_from(["answer", "attempt", "exercise", "hint", "solution", "prediction"]),
    st.from_regex(r"[A-Za-z0-9][A-Za-z0-9/_.-]{0,199}", fullmatch=True),
    st.datetimes(datetime(1971, 1, 1), datetime(2200, 1, 1), timezones=st.just(timezone.utc)),
    st.floats(0, 1e6),
    JSON,
    st.uuids(),
)
def test_every_event_comes_through_the_document_as_it_was(
    kind: str, item: str, at: datetime, points: float, detail: Any, uuid: Any
) -> None:
    event = Event(kind, item, at, points, detail, str(uuid))
    assert from_document(json.loads(json.dumps(to_document([event])))) == [event]


MALFORMED: list[tuple[Any, str]] = [
    (None, "no progress of the course"),
    ([], "no progress of the course"),
    ({}, "no progress of the course"),
    ({"format": "another"}, "no progress of the course"),
    ({**document(), "version": 2}, "version 2; this course reads version 1"),
    ({**document(), "version": True}, "version True"),
    ({**document(), "version": "1"}, "version '1'"),
    ({**document(), "more": 1}, "fields that nobody knows: 'more'"),
    ({**document(), "events": {}}, "should be a list, but is dict"),
    ({**document(), "events": None}, "should be a list, but is None"),
    ({**document(), "events": [1]}, "event 0: it should have the fields"),
    ({**document(), "events": [[]]}, "event 0: it should have the fields"),
    ({**document(), "events": [ROW, {}]}, "event 1: it should have the fields"),
    (document(more=1), "event 0: it should have the fields"),
    (document(kind="cheat"), "'cheat' is no kind of event"),
    (document(kind=["attempt"]), "list is no kind of event"),
    (document(kind=None), "None is no kind of event"),
    (document(item=""), "'' cannot name an item"),
    (document(item="../../etc/passwd"), "cannot name an item"),
    (document(item="a" * 201), "cannot name an item"),
    (document(item="00-start\n"), "cannot name an item"),
    (document(item="<script>"), "cannot name an item"),
    (document(item="\x1b[31m"), r"'\\x1b\[31m' cannot name an item"),
    (document(item="\ud800"), "cannot name an item"),
    (document(item=7), "7 cannot name an item"),
    (document(points=-1), "-1 cannot be points"),
    (document(points=float("nan")), "nan cannot be points"),
    (document(points=float("inf")), "inf cannot be points"),
    (document(points=10**400), "cannot be points"),
    (document(points=True), "True cannot be points"),
    (document(points="1"), "'1' cannot be points"),
    (document(points=None), "None cannot be points"),
    (document(at="yesterday"), "'yesterday' is no time with a zone"),
    (document(at="2026-01-31T12:00:00"), "is no time with a zone"),
    (document(at=0), "0 is no time with a zone"),
    (document(at="0001-01-01T00:00:00+23:59"), "is no time with a zone"),
    (document(uuid="1"), "'1' is no UUID"),
    (document(uuid=UUID + "0"), "is no UUID"),
    (document(uuid="g" * 36), "is no UUID"),
    (document(uuid=None), "None is no UUID"),
    (document(detail="x" * MOST_DETAIL), "at most 262144 fit"),
    (document(detail=float("inf")), "is no JSON"),
    (document(detail={1, 2}), "is no JSON"),
]


@pytest.mark.parametrize(("wrong", "sentence"), MALFORMED)
def test_what_is_wrong_is_said_and_nothing_is_written(wrong: Any, sentence: str) -> None:
    progress = Progress()
    kept = progress.record("hint", "x")
    with pytest.raises(ValueError, match=sentence) as raised:
        progress.merge(wrong)
    assert len(str(raised.value)) < 400
    assert progress.log() == [kept]


def test_a_document_that_is_wrong_at_its_end_adds_nothing_of_its_beginning() -> None:
    good = [{**ROW, "uuid": f"{i:08x}{UUID[8:]}"} for i in range(50)]
    with pytest.raises(ValueError, match="event 50: "):
        Progress().merge({**document(), "events": [*good, {**ROW, "points": -1}]})
    assert Progress().log() == []


def test_too_many_events_are_refused() -> None:
    with pytest.raises(ValueError, match=f"there are {MOST_EVENTS + 1} events"):
        from_document({**document(), "events": [None] * (MOST_EVENTS + 1)})


def deep(file: Path) -> None:
    file.write_text("[" * 100_000 + "]" * 100_000)


def deep_detail(file: Path) -> None:
    file.write_text(json.dumps(document()).replace('{"seed": 7}', "[" * 900 + "]" * 900))


FILES: list[tuple[Callable[[Path], Any], str]] = [
    (lambda file: None, "cannot be read: No such file"),
    (lambda file: file.mkdir(), "cannot be read: Is a directory"),
    (lambda file: file.write_bytes(b""), "is no JSON in UTF-8"),
    (lambda file: file.write_bytes(b"\xff\xfe{}"), "is no JSON in UTF-8"),
    (lambda file: file.write_text(json.dumps(document())[:-9]), "is no JSON in UTF-8"),
    (lambda file: file.write_text('{"a": NaN}'), "NaN is no number in JSON"),
    (lambda file: file.write_text('{"a": 1e999}'), "is too large a number"),
    (lambda file: file.write_text('{"a": ' + "9" * 10_000 + "}"), "is no JSON in UTF-8"),
    (deep, "is no JSON in UTF-8"),
    (lambda file: file.write_bytes(b" " * 3000), "is larger than 2000 bytes"),
]


@pytest.mark.parametrize(("write", "sentence"), FILES)
def test_a_file_that_is_no_document_is_a_sentence(write: Callable[[Path], Any], sentence: str, tmp_path: Path) -> None:
    write(tmp_path / "file.json")
    most = 2000 if "2000" in sentence else 1 << 20
    with pytest.raises(ValueError, match=sentence):
        read_json(tmp_path / "file.json", most)


def test_lists_within_lists_are_kept_or_refused_but_never_a_crash(tmp_path: Path) -> None:
    deep_detail(tmp_path / "file.json")
    try:
        added = Progress().merge(read_json(tmp_path / "file.json"))
    except ValueError:
        added = 0
    assert len(Progress().log()) == added
