"""The signature: a credential as a JSON Web Token (RFC 7519), signed with RS256, the public key in its header."""

from __future__ import annotations

import base64
import binascii
import re
from typing import Any

from joserfc import jws
from joserfc.errors import JoseError
from joserfc.jwk import RSAKey

from course.certificate.credential import Credential, canonical
from course.certificate.keys import key_uri, public_key
from course.untrusted import parse_json, shown
from minipar.words import _

ALGORITHM = "RS256"  # the one that every Open Badges verifier supports (section 8.2.3)
MOST_CHARACTERS = 512 << 10  # of a token


class _Registry(jws.JWSRegistry):
    """Room for what a certificate has: the public key in the header, and the signature of a key of 8192 bits."""

    max_header_length = 8 << 10
    max_payload_length = MOST_CHARACTERS
    max_signature_length = 2 << 10


REGISTRY = _Registry(algorithms=[ALGORITHM])


class Refused(ValueError):
    """A certificate that is not believed; the message says why."""


def sign(credential: Credential, key: RSAKey) -> str:
    """The credential as a compact JWS. The same credential and key give the same token."""
    header = {"alg": ALGORITHM, "typ": "JWT", "jwk": key.as_dict(private=False)}
    return jws.serialize_compact(header, canonical(credential.payload()), key, registry=REGISTRY)


def opened(token: str, expected: RSAKey | None = None) -> tuple[RSAKey, dict[str, Any]]:
    """The key that signed a token, and what it says; `Refused` where the signature is not right.

    The key is the one in the header. Where `expected` is given it must be that one.
    """
    if len(token) > MOST_CHARACTERS:
        raise Refused(_("This is no certificate: it is larger than {most} characters.").format(most=MOST_CHARACTERS))
    parts = token.split(".")
    if len(parts) != 3:
        raise Refused(
            _("This is no certificate: a token has three parts with dots between; this has {count}.").format(
                count=len(parts)
            )
        )
    head, body, signature = parts
    key = _key(_json(head, _("header")))
    if expected is not None and key_uri(key) != key_uri(expected):
        raise Refused(_("It is signed by another key than the one that you gave."))
    _decoded(signature, _("signature"))
    try:
        jws.deserialize_compact(token, key, registry=REGISTRY)
    except (JoseError, ValueError, TypeError, KeyError):
        raise Refused(_("It was altered, or signed by another key than it says: the signature does not fit.")) from None
    payload = _json(body, _("content"))
    return key, payload


def _key(header: dict[str, Any]) -> RSAKey:
    """The key that a header says, if the header says nothing that is not allowed."""
    algorithm = header.get("alg")
    if isinstance(algorithm, str) and algorithm.lower() == "none":
        raise Refused(_("It is not signed (algorithm none), so it proves nothing."))
    if algorithm != ALGORITHM:
        words = _("It is signed with {found}; a certificate of the course is signed with {known}.")
        raise Refused(words.format(found=shown(algorithm), known=ALGORITHM))
    if unknown := sorted(shown(name) for name in header.keys() - {"alg", "typ", "jwk"}):
        raise Refused(_("Its header says more than is allowed: {names}.").format(names=", ".join(unknown[:5])))
    if header.get("typ", "JWT") != "JWT":
        raise Refused(_("Its header says that it is a {kind}, not a JWT.").format(kind=shown(header["typ"])))
    if "jwk" not in header:
        raise Refused(_("It does not say with what key it is signed."))
    try:
        return public_key(header["jwk"])
    except ValueError as error:
        raise Refused(_("The key in it cannot be used: {reason}.").format(reason=error)) from None


def _json(part: str, what: str) -> dict[str, Any]:
    try:
        document = parse_json(_decoded(part, what))
    except Refused:
        raise
    except ValueError as error:
        raise Refused(_("Its {part} cannot be read: {reason}.").format(part=what, reason=error)) from None
    if not isinstance(document, dict):
        raise Refused(_("Its {part} is no object.").format(part=what))
    return document


def _decoded(part: str, what: str) -> bytes:
    """The bytes of a part in base64url, in the one way to write them: no padding, no other signs, no spare bits."""
    if re.fullmatch(r"[A-Za-z0-9_-]+", part):
        try:
            data = base64.urlsafe_b64decode(part + "=" * (-len(part) % 4))
        except binascii.Error:
            data = b""
        if base64.urlsafe_b64encode(data).decode("ascii").rstrip("=") == part:
            return data
    raise Refused(_("This is no certificate: its {part} is not in base64url.").format(part=what))
