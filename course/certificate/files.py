"""Reading a certificate from a file: a token, or a picture or a JSON document that carries one."""

from __future__ import annotations

from enum import Enum
from pathlib import Path

from course.certificate.baked import PNG, token_in_png, token_in_svg
from course.certificate.token import Refused
from course.untrusted import parse_json, read_bytes
from minipar.words import _

MOST_BYTES = 16 << 20  # of a file: a picture for print has less than one million
ENVELOPE = "data:application/vc+jwt,"  # VC Data Model 2.0, section 4.13: EnvelopedVerifiableCredential


class Carrier(Enum):
    """What a certificate was found in. A picture's looks are not signed; only the token in it is."""

    TOKEN = "token"
    PICTURE = "picture"
    DOCUMENT = "document"


def token_in(path: Path) -> tuple[str, Carrier]:
    """The token in a file, told by its content, not by its name; `ValueError` where there is none."""
    data = read_bytes(path, MOST_BYTES)
    start = data[:64].removeprefix(b"\xef\xbb\xbf").lstrip()
    if not start:
        raise Refused(_("The file is empty."))
    if data.startswith(PNG):
        return token_in_png(data), Carrier.PICTURE
    if start.startswith(b"%PDF"):
        raise Refused(_("A PDF carries no signature. Ask for the .jwt, .svg or .png file."))
    if start.startswith(b"<"):
        return token_in_svg(data), Carrier.PICTURE
    if start[:1] in (b"{", b'"'):
        return _token_in_json(data), Carrier.DOCUMENT
    try:
        return data.decode("ascii").strip(), Carrier.TOKEN
    except UnicodeDecodeError:
        raise Refused(_("This is no certificate: neither a token, nor an SVG, PNG or JSON file.")) from None


def _token_in_json(data: bytes) -> str:
    """The token that is the document, or that an enveloped credential carries."""
    try:
        document = parse_json(data)
    except ValueError as error:
        raise Refused(_("The file cannot be read: {reason}.").format(reason=error)) from None
    if isinstance(document, str):
        return document
    identifier = document.get("id")
    enveloped = document.get("type") == "EnvelopedVerifiableCredential"
    if enveloped and isinstance(identifier, str) and identifier.startswith(ENVELOPE):
        return identifier.removeprefix(ENVELOPE)
    raise Refused(_("The file has no signature, so it proves nothing. Ask for the .jwt, .svg or .png file."))
