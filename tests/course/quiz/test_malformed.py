"""Files that are no quiz, made systematically: each is one clear error, quickly, and nothing is written."""

import copy
import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from course.quiz.document import MOST_BYTES, QuizError
from course.quiz.schema import load
from tests.course.quiz.test_schema import GOOD

PLAIN = YAML(typ="safe").load(GOOD)
WRONG: list[Any] = [None, True, 7, ["x"], {"x": "y"}]


def cut() -> Iterator[tuple[str, bytes]]:
    """The file up to the middle of each of its lines, where what is left is not a whole quiz by chance."""
    lines = GOOD.splitlines(keepends=True)
    for i in range(1, len(lines) - 1):
        whole = "".join(lines[:i])
        yield f"cut in line {i + 1}", (whole + lines[i][: len(lines[i]) // 2]).encode()


def wrong_types() -> Iterator[tuple[str, bytes]]:
    """Each field in turn with a value of another type."""
    for path in fields(PLAIN):
        for wrong in WRONG:
            document = copy.deepcopy(PLAIN)
            at = document
            for part in path[:-1]:
                at = at[part]
            if fits(path, wrong, at[path[-1]]):
                continue
            at[path[-1]] = wrong
            yield f"{'.'.join(map(str, path))}: {wrong!r}", json.dumps(document).encode()  # JSON is YAML


def fields(part: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    for key, value in part.items() if isinstance(part, dict) else enumerate(part):
        yield (*path, key)
        if isinstance(value, dict | list):
            yield from fields(value, (*path, key))


def fits(path: tuple[Any, ...], wrong: Any, old: Any) -> bool:
    """Whether the schema allows the other value there."""
    name = path[-1]
    if name in ("en", "unit", "id"):
        return isinstance(wrong, str)
    if name == "read_again":
        return isinstance(wrong, str) or wrong is None
    if name == "right" and isinstance(old, bool):
        return wrong is True
    if name in ("tolerance", "stages", "micro_batches", "ranks"):
        return wrong == 7
    return name == "decoys" and wrong == []


def bombs() -> Iterator[tuple[str, bytes]]:
    laugh = "a0: &a0 [x, x]\n" + "".join(f"a{i}: &a{i} [*a{i - 1}, *a{i - 1}]\n" for i in range(1, 40))
    yield "billion laughs", laugh.encode()
    yield "an alias to itself", b"a: &a [*a]\n"
    yield "a merge key", b"base: &b {id: x}\nq: {<<: *b}\n"
    yield "an anchor that nobody uses", GOOD.replace("id: sample", "id: &here sample").encode()
    yield "an alias to nothing", GOOD.replace("id: sample", "id: *nowhere").encode()
    yield "deep lists", b"[" * 20_000
    yield "deep lists, closed", b"[" * 5_000 + b"]" * 5_000
    yield "deep maps", b"{a: " * 5_000
    yield "deep blocks", "".join(" " * i + "a:\n" for i in range(400)).encode()
    yield "many parts", b"[" + b"a," * 60_000 + b"]"
    yield "a number of a hundred thousand digits", GOOD.replace("ranks: 2", "ranks: " + "9" * 100_000).encode()
    yield "too large", GOOD.encode() + b"#" * MOST_BYTES
    yield "a text too long", GOOD.replace("Which?", "x" * 5_000).encode()
    yield (
        "too many questions",
        b"id: x\ntitle: {en: x}\nquestions:\n"
        + b"".join(b"  - {id: q%d, kind: generated, function: gpipe-bubble}\n" % i for i in range(101)),
    )
    yield (
        "too many choices",
        GOOD.replace(
            "    choices:\n",
            "    choices:\n" + "".join(f"      - {{text: {{en: c{i}}}, feedback: {{en: f}}}}\n" for i in range(20)),
        ).encode(),
    )
    yield "braces in a formula", GOOD.replace("Which?", '"$' + "{" * 1_000 + "}" * 1_000 + '$"').encode()


def tags() -> Iterator[tuple[str, bytes]]:
    for tag in (
        "!!python/object/apply:os.system [touch pwned]",
        "!!python/name:os.system ''",
        "!!python/object/new:subprocess.Popen [[touch, pwned]]",
        "!!binary aGk=",
        "!!set {a, b}",
        "!!omap [a: 1]",
        "!!str sample",
        "!!timestamp 2026-01-01",
        "!mine x",
        "! x",
        "!<tag:yaml.org,2002:str> x",
    ):
        yield f"the tag {tag.split()[0]}", GOOD.replace("id: sample", f"id: {tag}").encode()
    yield "a directive", b"%YAML 1.1\n---\n" + GOOD.encode()
    yield "a directive for tags", b"%TAG ! tag:example.org,2026:\n---\n" + GOOD.encode()


def encodings() -> Iterator[tuple[str, bytes]]:
    for name in ("utf-16", "utf-16-le", "utf-32", "cp037"):
        yield name, GOOD.encode(name)
    yield "latin-1", GOOD.replace("Which?", "Wéche?").encode("latin-1")
    yield "half a character", GOOD.encode() + b"# \xe0\xa6"
    yield "an overlong slash", GOOD.encode() + b"# \xc0\xaf"
    yield "a surrogate", GOOD.encode() + b"# \xed\xa0\x80"
    yield "a null", GOOD.encode() + b"\0"
    yield "an escape", GOOD.encode() + b"# \x1b[31m"
    yield "random bytes", bytes(range(256)) * 4
    yield "a picture", b"\x89PNG\r\n\x1a\n" + bytes(100)
    yield "compressed", b"\x1f\x8b\x08\0" + bytes(100)


def shapes() -> Iterator[tuple[str, bytes]]:
    for text in ("", "\n", "# nothing", "null", "- a list", "just words", "7", "questions: 3", "{}", "[]", "id: x"):
        yield f"only {text!r}", text.encode()
    yield "two documents", (GOOD + "---\n" + GOOD).encode()
    yield "tabs", GOOD.replace("    kind", "\tkind").encode()
    yield "a key that is a list", (GOOD + "? [a, b]\n: c\n").encode()
    yield "a key that is a map", (GOOD + "? {a: b}\n: c\n").encode()
    yield "JSON that is cut", b'{"id": "sample", "title": {"en": '
    yield "HTML", b"<html><body><p>404</p></body></html>"
    yield "an unclosed quote", GOOD.replace("Which?", '"Which?').encode()


CASES = [*cut(), *wrong_types(), *bombs(), *tags(), *encodings(), *shapes()]


def test_there_are_enough_of_them() -> None:
    assert len({data for _, data in CASES}) > 400


@pytest.mark.parametrize("group", [cut, wrong_types, bombs, tags, encodings, shapes], ids=lambda f: f.__name__)
def test_each_is_a_clear_error_and_nothing_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, data_folder: Path, group: Any
) -> None:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "sample.yaml"
    for name, data in group():
        path.write_bytes(data)
        began = time.monotonic()
        with pytest.raises(QuizError) as error:
            pytest.fail(f"{name}: it was taken for a quiz: {load(path)}")
        assert time.monotonic() - began < 5, name
        said = str(error.value)
        assert said.startswith("sample.yaml"), (name, said)
        assert len(said) < 20_000, name
        assert "\x1b" not in said, name
        assert "Traceback" not in said, name
        assert os.listdir(tmp_path) == ["sample.yaml"], name
        assert not data_folder.exists(), name


def test_a_folder_and_a_missing_file_are_clear_errors(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "none.yaml"):
        with pytest.raises(QuizError, match="cannot be read"):
            load(path)
