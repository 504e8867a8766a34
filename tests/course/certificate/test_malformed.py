"""Hundreds of files that are no certificate: each is refused with a sentence, nothing is written, none crashes."""

import copy
import json
import zlib
from collections.abc import Iterator
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest
from joserfc.jwk import RSAKey
from typer.testing import CliRunner

from course.certificate.baked import bake_png, bake_svg
from course.certificate.files import token_in
from course.certificate.paint import fitted, to_png
from course.certificate.picture import draw
from course.certificate.svg import to_svg
from course.certificate.verify import verify
from course.cli import app
from tests.course.certificate import forge
from tests.course.certificate.conftest import Made

WRONG: list[Any] = [
    None,
    True,
    5,
    -1.5,
    "text",
    "",
    [],
    ["x"],
    {},
    {"a": 1},
    "\u202e",
    "../../etc/passwd",
    "A" * 100_000,
]


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The path of every value in a document."""
    yield path
    if isinstance(value, dict):
        for name in value:
            yield from places(value[name], (*path, name))
    elif isinstance(value, list):
        for number in range(len(value)):
            yield from places(value[number], (*path, number))


def put(document: Any, path: tuple[Any, ...], new: Any) -> Any:
    """A copy of the document with another value in one place."""
    if not path:
        return new
    changed = copy.deepcopy(document)
    at = changed
    for step in path[:-1]:
        at = at[step]
    at[path[-1]] = new
    return changed


def without(document: Any, path: tuple[Any, ...]) -> Any:
    changed = copy.deepcopy(document)
    at = changed
    for step in path[:-1]:
        at = at[step]
    del at[path[-1]]
    return changed


def wrong_types(token: str, key: RSAKey) -> Iterator[bytes]:
    """Truly signed, with a right ID, but one value of another type, another form, or gone."""
    header, payload = forge.parts(token)
    for path in places(payload):
        if path and path[0] in ("iss", "sub", "jti", "nbf", "id"):
            continue  # test_verify has these
        for wrong in WRONG:
            if path and (old := _at(payload, path)) != wrong and not (isinstance(old, str) and free_text(path, wrong)):
                yield forge.signed(header, forge.rehashed(put(payload, path, wrong)), key).encode()
        if path and isinstance(path[-1], str) and path[-1] != "requiredValue":  # the one member that may be left out
            yield forge.signed(header, forge.rehashed(without(payload, path)), key).encode()
    for document in (None, 5, "text", [], [payload], True):
        yield forge.signed(header, document, key).encode()


def _at(document: Any, path: tuple[Any, ...]) -> Any:
    for step in path:
        document = document[step]
    return document


def free_text(path: tuple[Any, ...], wrong: Any) -> bool:
    """Whether this place may say what it likes: a sentence of the issuer's, or the name of a thing."""
    free = ("name", "description", "version", "narrative", "identityHash")
    return path[-1] in free and isinstance(wrong, str) and wrong in ("text", "../../etc/passwd")


def damaged(token: str, key: RSAKey, png: bytes, svg: str) -> Iterator[bytes]:
    header, payload = forge.parts(token)
    raw = token.encode()
    for size in {*range(0, len(raw), len(raw) // 60), len(raw) - 1}:
        yield raw[:size]
    yield from (
        b"\0" * 100,
        b"\xff\xfe" + token.encode("utf-16-le"),
        b"A" * (20 << 20),
        raw + b"." + raw,
        b"..",
        b"a.b.c",
    )
    yield from (
        raw.replace(b".", b"=.", 1),
        raw + b"=",
        raw + b"\n\nmore",
        raw.replace(b".", b"\r\n."),
        b"\xc3\xa9" + raw,
    )
    for body in (
        b'{"a": 1, "a": 2}',
        b'{"a": NaN}',
        b'{"a": 1e999}',
        b'{"a": 1' + b"0" * 5000 + b"}",
        b'{"a": "\\ud800"}',
        b"[" * 100_000,
        b'{"a":' * 5000 + b"1" + b"}" * 5000,
        b"\xff",
        "{}".encode("utf-16"),
        b"",
        b"{",
    ):
        yield forge.signed(header, body, key).encode()
        yield (forge.b64(body) + "." + ".".join(token.split(".")[1:])).encode()
    yield from (b"{}", b"[]", b'"', b'"text"', b'{"id": "data:application/vc+jwt,x"}', b"{" * 50_000, b"%PDF-1.4 ...")
    yield json.dumps({"type": "EnvelopedVerifiableCredential", "id": "data:application/vc+jwt,a.b.c"}).encode()
    yield json.dumps(payload).encode()  # a credential without a signature
    yield json.dumps("\ud800").encode()
    good_png, good_svg = bake_png(png, token), bake_svg(svg, token).encode()
    for size in (8, 20, 40, 60, 500, len(good_png) // 2, len(good_png) - 1):
        yield good_png[:size]
    yield png
    yield bake_png(good_png, token)
    yield good_png.replace(b"openbadgecredential\0\0", b"openbadgecredential\0\1")
    yield bake_png(png, "x.y.z")
    yield _chunk(png, b"iTXt", b"openbadgecredential\0\1\0\0\0" + zlib.compress(raw))
    yield _chunk(png, b"iTXt", b"openbadgecredential\0\0\0\0\0\xff\xfe")
    yield png[:33] + b"\xff\xff\xff\xffiTXt" + png[33:]
    for size in (5, 100, 500, len(good_svg) // 2, len(good_svg) - 3):
        yield good_svg[:size]
    yield svg.encode()
    yield bake_svg(
        bake_svg(svg, token).replace(' xmlns:openbadges="https://purl.imsglobal.org/ob/v3p0"', "", 1), token
    ).encode()
    yield good_svg.replace(b"https://purl.imsglobal.org/ob/v3p0", b"https://example.org")
    yield good_svg.replace(b"verify=", b"other=")
    bomb = '<!DOCTYPE svg [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;">]>'
    yield bomb.encode() + good_svg
    yield b'<!DOCTYPE svg [<!ENTITY x SYSTEM "file:///etc/passwd">]>' + good_svg
    yield b'<?xml version="1.0" encoding="nonsense"?>' + good_svg
    yield b"<" * 1000
    yield b"<a>" * 100_000


def _chunk(png: bytes, kind: bytes, data: bytes) -> bytes:
    return png[:33] + len(data).to_bytes(4, "big") + kind + data + zlib.crc32(kind + data).to_bytes(4, "big") + png[33:]


@pytest.fixture(scope="module")
def pictures(made: Made) -> tuple[bytes, str]:
    page = fitted(draw(made()))
    return to_png(page), to_svg(page)


def refuse_all(files: Iterator[bytes], folder: Path, data_folder: Path) -> int:
    """Verify each file, and every tenth by the command too; returns how many there were."""
    count = 0
    path = folder / "certificate"
    for content in files:
        path.write_bytes(content)
        with pytest.raises(ValueError) as refused:  # noqa: PT011 - each has a reason of its own
            verify(token_in(path)[0])
        assert 0 < len(str(refused.value)) < 900
        assert str(refused.value).replace("…", "").isascii(), "no file can garble a terminal"
        if count % 10 == 0:
            result = CliRunner().invoke(app, ["verify", str(path)])
            assert result.exit_code == 1, content[:200]
            assert isinstance(result.exception, SystemExit), result.exception
            assert result.stdout == "", "nothing is said to be valid"
            assert result.stderr.strip() == str(refused.value)
        count += 1
    assert [entry.name for entry in folder.iterdir()] == [path.name]
    assert not data_folder.exists(), "nothing was written"
    return count


@pytest.fixture
def empty(tmp_path: Path) -> Path:
    folder = tmp_path / "files"
    folder.mkdir()
    return folder


def test_truly_signed_but_one_value_of_another_type(
    token: str, learner: RSAKey, empty: Path, data_folder: Path
) -> None:
    assert refuse_all(wrong_types(token, learner), empty, data_folder) > 500


def test_damaged_and_hostile_files(
    token: str, learner: RSAKey, pictures: tuple[bytes, str], empty: Path, data_folder: Path
) -> None:
    assert refuse_all(damaged(token, learner, *pictures), empty, data_folder) > 100


def test_no_file_a_folder_a_pipe_and_odd_names(tmp_path: Path) -> None:
    for what in ("missing.jwt", str(tmp_path), "/dev/zero", "../" * 40 + "etc/shadow\x00", "", "a" * 5000, "\udcff"):
        result = CliRunner().invoke(app, ["verify", what])
        assert result.exit_code == 1, what
        assert isinstance(result.exception, SystemExit), (what, result.exception)


@pytest.mark.parametrize("content", [b"", b"x", b"{}", b"-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n"])
def test_a_key_that_is_none_is_a_sentence(token: str, tmp_path: Path, content: bytes) -> None:
    (tmp_path / "c.jwt").write_text(token)
    (tmp_path / "key").write_bytes(content)
    result = CliRunner().invoke(app, ["verify", str(tmp_path / "c.jwt"), "--key", str(tmp_path / "key")])
    assert result.exit_code == 1
    assert "key" in result.stderr
    assert datetime.now(timezone.utc), result.stdout
