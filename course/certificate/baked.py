"""Baking: a token inside a picture, as section 5.3 of Open Badges 3.0 says, and out of it again."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from typing import Any
from xml.parsers import expat
from xml.sax.saxutils import quoteattr

from course.certificate.token import Refused
from minipar.words import _

PNG = b"\x89PNG\r\n\x1a\n"
KEYWORD = b"openbadgecredential"
NAMESPACE = "https://purl.imsglobal.org/ob/v3p0"


def bake_png(picture: bytes, token: str) -> bytes:
    """The PNG with the token in an uncompressed iTXt chunk, directly after its header."""
    # keyword, null; not compressed, method 0; no language tag, no translated keyword (PNG, section 11.3.3.4)
    data = KEYWORD + b"\0" + b"\0\0" + b"\0" + b"\0" + token.encode("ascii")
    chunk = struct.pack(">I", len(data)) + b"iTXt" + data + struct.pack(">I", zlib.crc32(b"iTXt" + data))
    header = len(PNG) + 8 + 13 + 4
    return picture[:header] + chunk + picture[header:]


def token_in_png(picture: bytes) -> str:
    """The token in a PNG; `Refused` where there is none, two, or the file is damaged."""
    tokens = []
    for kind, data in _chunks(picture):
        keyword, _null, rest = data.partition(b"\0")
        if kind == b"iTXt" and keyword == KEYWORD:
            if rest[:1] != b"\0":
                raise Refused(_("The certificate in the picture is compressed; that is not allowed."))
            tokens.append(rest[2:].split(b"\0", 2)[-1])
    return _only(tokens)


def _chunks(picture: bytes) -> Iterator[tuple[bytes, bytes]]:
    place = len(PNG)
    while place < len(picture):
        if place + 8 > len(picture):
            raise Refused(_("The picture is cut off."))
        length, kind = struct.unpack_from(">I4s", picture, place)
        data = picture[place + 8 : place + 8 + length]
        check = picture[place + 8 + length : place + 12 + length]
        if len(check) < 4:
            raise Refused(_("The picture is cut off."))
        if zlib.crc32(kind + data) != int.from_bytes(check, "big"):
            raise Refused(_("The picture is damaged: a checksum in it does not fit."))
        yield kind, data
        place += 12 + length


def bake_svg(picture: str, token: str) -> str:
    """The SVG (one that starts with its `svg` tag) with the token in an element directly after that tag."""
    tag, _end, rest = picture.partition(">")
    return (
        f'{tag} xmlns:openbadges="{NAMESPACE}">'
        f"<openbadges:credential verify={quoteattr(token)}></openbadges:credential>{rest}"
    )


def token_in_svg(picture: bytes) -> str:
    """The token in an SVG; `Refused` where there is none, two, or the file is no SVG. No entity is expanded."""
    tokens: list[bytes] = []

    def start(name: str, attributes: dict[str, str]) -> None:
        if name == f"{NAMESPACE} credential":
            tokens.append(attributes.get("verify", "").encode())

    def refuse(*_anything: Any) -> None:
        raise Refused(_("The picture has a document type; a certificate's has none."))

    parser = expat.ParserCreate(namespace_separator=" ")
    parser.StartElementHandler = start
    parser.StartDoctypeDeclHandler = refuse
    try:
        parser.Parse(picture, True)
    except (expat.ExpatError, ValueError, LookupError) as error:
        if isinstance(error, Refused):
            raise
        raise Refused(_("The picture is no SVG, or is cut off.")) from None
    return _only(tokens)


def _only(tokens: list[bytes]) -> str:
    if not tokens:
        raise Refused(_("There is no certificate in the picture. Was it saved anew by another program?"))
    if len(tokens) > 1:
        raise Refused(_("There is more than one certificate in the picture."))
    try:
        return tokens[0].decode("ascii")
    except UnicodeDecodeError:
        raise Refused(_("The certificate in the picture is not in ASCII.")) from None
