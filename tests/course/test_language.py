import gettext
import struct
from pathlib import Path

import pytest

from course.language import languages, localized
from minipar.words import _, plural


@pytest.fixture(autouse=True)
def no_language(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("LANGUAGE", "LC_ALL", "LC_MESSAGES", "LANG"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize(
    ("variable", "value", "expected"),
    [
        ("LANG", "bn_BD.UTF-8", ["bn", "en"]),
        ("LANGUAGE", "bn:de", ["bn", "de", "en"]),
        ("LANG", "C.UTF-8", ["en"]),
        ("LANG", "", ["en"]),
    ],
)
def test_the_environment_says_the_language(
    monkeypatch: pytest.MonkeyPatch, variable: str, value: str, expected: list[str]
) -> None:
    monkeypatch.setenv(variable, value)
    assert languages() == expected


def test_a_text_is_shown_in_the_readers_language_or_in_english(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LANG", "bn_BD.UTF-8")
    assert localized({"en": "yes", "bn": "হ্যাঁ"}) == "হ্যাঁ"
    assert localized({"en": "yes"}) == "yes"


def test_one_is_singular() -> None:
    assert plural("{count} stage", "{count} stages", 1) == "1 stage"
    assert plural("{count} stage", "{count} stages", 4) == "4 stages"


def test_a_catalogue_beside_the_course_is_found(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    words = {"": "Content-Type: text/plain; charset=UTF-8\n", "forward": "সামনে"}
    monkeypatch.setattr(gettext, "find", lambda *_, **__: [str(tmp_path / "course.mo")])
    (tmp_path / "course.mo").write_bytes(compiled(words))
    assert _("forward") == "সামনে"
    assert _("backward") == "backward"


def compiled(words: dict[str, str]) -> bytes:
    """A catalogue in gettext's binary form: a header, two tables of lengths and places, then the texts."""
    texts = [key.encode() for key in sorted(words)] + [words[key].encode() for key in sorted(words)]
    place, tables = 28 + 8 * len(texts), b""
    for text in texts:
        tables += struct.pack("<II", len(text), place)
        place += len(text) + 1
    count = len(words)
    header = struct.pack("<7I", 0x950412DE, 0, count, 28, 28 + 8 * count, 0, 0)
    return header + tables + b"".join(text + b"\0" for text in texts)
