"""Keys that sign certificates: made once, kept in a file that only its owner can read, named by their thumbprint."""

from __future__ import annotations

import base64
import json
import os
import sys
import warnings
from pathlib import Path
from typing import Any

from joserfc.errors import JoseError, SecurityWarning
from joserfc.jwk import RSAKey

from course.progress import data_folder
from course.untrusted import parse_json, read_bytes, shown
from minipar.words import _

BITS = 3072  # of a new key: as strong as AES-128 (NIST SP 800-57), and its signature fills base64 exactly
FEWEST, MOST = 2048, 8192  # bits of a key that is believed: below is weak, above costs seconds
MOST_BYTES = 64 << 10  # of a key's file
PRIVATE = {"d", "p", "q", "dp", "dq", "qi", "oth", "k"}  # members of a private or a secret key (RFC 7518, section 6)


def learner_key() -> RSAKey:
    """The learner's own key, made when it is first needed, in the data folder."""
    path = data_folder() / "keys" / "learner.json"
    if not path.exists():
        try:
            return make_key(path)
        except FileExistsError:
            pass  # another process was faster
    return load_key(path)


def make_key(path: Path) -> RSAKey:
    """A new private key, written to `path` for its owner alone; `FileExistsError` where a file is there already."""
    key: RSAKey = RSAKey.generate_key(BITS)
    text = json.dumps(key.as_dict(private=True))
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(handle, "w", encoding="ascii") as file:
        file.write(text)
    return key


def load_key(path: Path) -> RSAKey:
    """The private key in a file; `ValueError` where it is none, or where others can read it."""
    data = read_bytes(path, MOST_BYTES)
    if sys.platform != "win32" and path.stat().st_mode & 0o077:
        raise ValueError(_("the key {path} can be read by others; run: chmod 600 {path}").format(path=path))
    try:
        key: RSAKey = RSAKey.import_key(parse_json(data))
        if key.is_private:
            return key
    except (JoseError, ValueError, TypeError, KeyError, AttributeError):
        pass
    raise ValueError(_("{path} is no private key of the course").format(path=path))


def read_public(path: Path) -> RSAKey:
    """The public key in a file, as PEM or as JWK; `ValueError` for anything else, a private key too."""
    data = read_bytes(path, MOST_BYTES)
    if b"PRIVATE" in data:
        raise ValueError(_("{path} is a private key; give the public one").format(path=path))
    if data.lstrip().startswith(b"{"):
        try:
            return public_key(parse_json(data))
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SecurityWarning)
            return _measured(RSAKey.import_key(data))
    except (JoseError, ValueError, TypeError):
        raise ValueError(_("{path} is no public RSA key (PEM or JWK)").format(path=path)) from None


def public_key(jwk: Any) -> RSAKey:
    """The key that a JWK says; `ValueError` for one that is private, no RSA, weak, or far too large."""
    if not isinstance(jwk, dict):
        raise ValueError(_("the key is no JWK, but {value}").format(value=shown(jwk)))
    if PRIVATE & jwk.keys():
        raise ValueError(_("the key is a private one; nobody may show that"))
    if jwk.get("kty") != "RSA":
        raise ValueError(_("the key is of the kind {kind}; RSA is needed").format(kind=shown(jwk.get("kty"))))
    if not all(isinstance(jwk.get(part), str) and 0 < len(jwk[part]) <= MOST // 4 for part in ("n", "e")):
        raise ValueError(_("the key is no RSA key: its numbers are missing, or too large"))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SecurityWarning)  # a weak key is refused, which says more
            return _measured(RSAKey.import_key({part: jwk[part] for part in ("kty", "n", "e")}))
    except (JoseError, ValueError, TypeError):
        raise ValueError(
            _("the key is no RSA key of {fewest} to {most} bits").format(fewest=FEWEST, most=MOST)
        ) from None


def _measured(key: RSAKey) -> RSAKey:
    if key.is_private or not FEWEST <= key.public_key.key_size <= MOST:
        raise ValueError(_("the key is no public RSA key of {fewest} to {most} bits").format(fewest=FEWEST, most=MOST))
    return key


def key_uri(key: RSAKey) -> str:
    """The name of a key: its thumbprint (RFC 7638) as a URI (RFC 9278). Nobody can have another key of this name."""
    return f"urn:ietf:params:oauth:jwk-thumbprint:sha-256:{key.thumbprint()}"


def fingerprint(uri: str) -> str:
    """The name of a key for people: the first 80 bits of its thumbprint, as in ``"7Q2M-KX4A-…"``."""
    raw = base64.urlsafe_b64decode(uri.rpartition(":")[2] + "=")
    text = base64.b32encode(raw[:10]).decode("ascii")
    return "-".join(text[i : i + 4] for i in range(0, len(text), 4))
