"""Making tokens by hand, with `cryptography` alone: right ones to compare with, and all kinds of wrong ones."""

import base64
import functools
import hashlib
import hmac
import json
from typing import Any

from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding, rsa
from joserfc.jwk import RSAKey


def b64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def unb64(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


def as_json(value: Any) -> bytes:
    return value if isinstance(value, bytes) else json.dumps(value).encode()


def parts(token: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Header and payload, whatever the signature is."""
    head, body, _ = token.split(".")
    return json.loads(unb64(head)), json.loads(unb64(body))


def private(key: RSAKey) -> rsa.RSAPrivateKey:
    return _private(key.as_pem(private=True))


@functools.cache
def _private(pem: bytes) -> rsa.RSAPrivateKey:
    found = serialization.load_pem_private_key(pem, None)
    assert isinstance(found, rsa.RSAPrivateKey)
    return found


def signed(header: Any, payload: Any, key: RSAKey) -> str:
    """A token with this header and payload (JSON, or bytes as they are), truly signed with RS256."""
    text = f"{b64(as_json(header))}.{b64(as_json(payload))}"
    return f"{text}.{b64(private(key).sign(text.encode(), padding.PKCS1v15(), hashes.SHA256()))}"


def with_secret(header: Any, payload: Any, secret: bytes) -> str:
    """A token signed with HS256, as those make who hope that the public key is taken for a secret."""
    text = f"{b64(as_json(header))}.{b64(as_json(payload))}"
    return f"{text}.{b64(hmac.new(secret, text.encode(), hashlib.sha256).digest())}"


def rehashed(payload: dict[str, Any]) -> dict[str, Any]:
    """The payload with the ID that belongs to its content, worked out here anew."""
    content = {k: v for k, v in payload.items() if k not in ("id", "iss", "sub", "jti", "nbf", "exp")}
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()
    identifier = "ni:///sha-256;" + b64(hashlib.sha256(text).digest())
    return {**payload, "id": identifier, "jti": identifier}
