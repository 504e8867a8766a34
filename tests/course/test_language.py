import pytest

from course.language import languages, localized
from minipar.words import plural


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
