"""Baking as Open Badges 3.0 says: an independent reader finds our tokens, and we find those that it baked."""

import io
import struct
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from openbadgeslib import baking
from openbadgeslib.ob3 import OB3Verifier
from PIL import Image

from course.certificate.baked import bake_png, bake_svg
from course.certificate.files import ENVELOPE, Carrier, token_in
from course.certificate.paint import fitted, to_png
from course.certificate.picture import draw
from course.certificate.svg import to_svg
from tests.course.certificate.conftest import Made


@pytest.fixture(scope="module")
def png(made: Made) -> bytes:
    return to_png(fitted(draw(made())))


@pytest.fixture(scope="module")
def svg(made: Made) -> str:
    return to_svg(fitted(draw(made())))


def test_an_independent_reader_finds_the_token(png: bytes, svg: str, token: str) -> None:
    assert OB3Verifier.extract_token_from_png(bake_png(png, token)) == token
    assert OB3Verifier.extract_token_from_svg(bake_svg(svg, token).encode()) == token


def test_what_another_program_baked_is_found(png: bytes, svg: str, token: str, tmp_path: Path) -> None:
    png_there = baking.bake_png(png, token, keyword=baking.ITXT_KEYWORD_OB3)
    svg_there = baking.bake_svg(svg.encode(), token, element=baking.SVG_ELEMENT_OB3, namespace=baking.SVG_NS_OB3)
    for name, content in (("a.png", png_there), ("a.svg", svg_there)):
        (tmp_path / name).write_bytes(content)
        assert token_in(tmp_path / name) == (token, Carrier.PICTURE)


def test_the_chunk_is_uncompressed_and_directly_after_the_header(png: bytes, token: str) -> None:
    baked = bake_png(png, token)
    length, kind = struct.unpack_from(">I4s", baked, 33)
    assert kind == b"iTXt"
    assert baked[41 : 41 + length] == b"openbadgecredential\0\0\0\0\0" + token.encode()
    assert Image.open(io.BytesIO(baked)).tobytes() == Image.open(io.BytesIO(png)).tobytes(), "the picture is the same"


def test_the_element_is_directly_after_the_svg_tag_in_its_namespace(svg: str, token: str) -> None:
    root = ET.fromstring(bake_svg(svg, token))
    assert root[0].tag == "{https://purl.imsglobal.org/ob/v3p0}credential"
    assert root[0].attrib == {"verify": token}


def test_a_token_is_found_in_text_and_json_whatever_the_file_is_called(token: str, tmp_path: Path) -> None:
    enveloped = f'{{"type": "EnvelopedVerifiableCredential", "id": "{ENVELOPE}{token}"}}'
    for content, carrier in (
        (token, Carrier.TOKEN),
        (f"\n {token}\r\n", Carrier.TOKEN),
        (f'"{token}"', Carrier.DOCUMENT),
        (enveloped, Carrier.DOCUMENT),
    ):
        (tmp_path / "file.png").write_text(content)
        assert token_in(tmp_path / "file.png") == (token, carrier)
