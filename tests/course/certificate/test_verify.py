"""What is not exactly what the key's owner signed is refused, each time with a sentence that says why."""

import json
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from joserfc.errors import SecurityWarning
from joserfc.jwk import RSAKey

from course.certificate import Refused, verify
from course.certificate.keys import key_uri
from course.certificate.token import sign
from tests.course.certificate import forge
from tests.course.certificate.conftest import MOMENT, Made


def refused(token: str, because: str, **how: Any) -> None:
    with pytest.raises(Refused, match=because):
        verify(token, **how)


def test_what_the_learner_signed_is_valid_and_said_to_be_self_signed(token: str, learner: RSAKey) -> None:
    found = verify(token)
    assert found.credential.learner == "Ada Lovelace"
    assert found.credential.self_signed
    assert not found.expected
    assert verify(token, learner).expected


def test_what_an_instructor_signed_is_not_self_signed(made: Made, instructor: RSAKey) -> None:
    found = verify(sign(made(issuer=instructor), instructor), instructor)
    assert not found.credential.self_signed
    assert found.credential.issuer.name == "Prof. Hopper"


def test_a_token_that_is_signed_by_hand_is_as_good(token: str, learner: RSAKey) -> None:
    assert verify(forge.signed(*forge.parts(token), learner))


def test_algorithm_none_is_refused(token: str) -> None:
    header, payload = forge.parts(token)
    for name in ("none", "None", "NONE"):
        bare = f"{forge.b64(json.dumps({**header, 'alg': name}).encode())}.{forge.b64(json.dumps(payload).encode())}"
        refused(f"{bare}.", "not signed")
        refused(f"{bare}.{token.rpartition('.')[2]}", "not signed")


def test_the_public_key_is_no_secret_to_sign_with(token: str, learner: RSAKey) -> None:
    header, payload = forge.parts(token)
    pem = learner.as_pem(private=False)
    for secret in (pem, json.dumps(header["jwk"]).encode(), pem.strip(), b""):
        refused(forge.with_secret({**header, "alg": "HS256"}, payload, secret), "HS256.*RS256", key=learner)
        refused(forge.with_secret(header, payload, secret), "signature does not fit", key=learner)


@pytest.mark.parametrize("algorithm", ["RS384", "RS512", "PS256", "ES256", "EdDSA", "rs256", "", None, 5, ["RS256"]])
def test_any_other_algorithm_is_refused(token: str, learner: RSAKey, algorithm: object) -> None:
    header, payload = forge.parts(token)
    refused(forge.signed({**header, "alg": algorithm}, payload, learner), "signed with RS256")


def test_a_swapped_key_is_refused(token: str, learner: RSAKey, instructor: RSAKey) -> None:
    header, payload = forge.parts(token)
    other = {**header, "jwk": instructor.as_dict(private=False)}
    _head, body, signature = token.split(".")
    refused(f"{forge.b64(json.dumps(other).encode())}.{body}.{signature}", "signature does not fit")
    refused(forge.signed(other, payload, instructor), "another issuer than the key")
    refused(forge.signed(other, payload, instructor), "another key than the one that you gave", key=learner)


def test_another_key_than_the_one_that_was_asked_for_is_refused(token: str, instructor: RSAKey) -> None:
    refused(token, "another key than the one that you gave", key=instructor)


def test_a_learner_who_claims_an_instructors_name_does_not_have_the_instructors_key(
    made: Made, learner: RSAKey, instructor: RSAKey
) -> None:
    """Anyone can sign with a key of their own under any name: only the key tells."""
    forged = sign(made(name="Ada", issuer=learner), learner)
    refused(forged, "another key than the one that you gave", key=instructor)


@pytest.mark.parametrize(
    ("header", "because"),
    [
        ({"jwk": None}, "no JWK"),
        ({"jwk": "text"}, "no JWK"),
        ({"jwk": {}}, "kind None"),
        ({"jwk": {"kty": "oct", "k": "AAAA"}}, "private"),
        ({"jwk": {"kty": "EC", "crv": "P-256", "x": "AA", "y": "AA"}}, "kind 'EC'"),
        ({"jwk": {"kty": "RSA"}}, "numbers are missing"),
        ({"jwk": {"kty": "RSA", "n": 5, "e": "AQAB"}}, "numbers are missing"),
        ({"jwk": {"kty": "RSA", "n": "AQAB", "e": "AQAB"}}, "2048 to 8192"),
        ({"jwk": {"kty": "RSA", "n": "_" * 100_000, "e": "AQAB"}}, "too large"),
        ({"jwk": {"kty": "RSA", "n": "!!", "e": "AQAB"}}, "2048 to 8192"),
        ({"crit": ["exp"], "exp": 1}, "more than is allowed"),
        ({"kid": "https://example.org/key"}, "more than is allowed"),
        ({"jku": "https://example.org/keys"}, "more than is allowed"),
        ({"b64": False}, "more than is allowed"),
        ({"typ": "vc+jwt"}, "not a JWT"),
        ({"typ": 7}, "not a JWT"),
    ],
)
def test_a_header_that_says_anything_else_is_refused(
    token: str, learner: RSAKey, header: dict[str, Any], because: str
) -> None:
    good, payload = forge.parts(token)
    refused(forge.signed({**good, **header}, payload, learner), because)


def test_a_header_without_a_key_is_refused(token: str, learner: RSAKey) -> None:
    _header, payload = forge.parts(token)
    refused(forge.signed({"alg": "RS256"}, payload, learner), "with what key")


def test_a_private_key_in_the_header_is_refused(token: str, learner: RSAKey) -> None:
    header, payload = forge.parts(token)
    refused(forge.signed({**header, "jwk": learner.as_dict(private=True)}, payload, learner), "private")


def test_a_weak_key_is_refused(token: str) -> None:
    header, payload = forge.parts(token)
    with pytest.warns(SecurityWarning):
        weak = RSAKey.generate_key(1024)
    refused(forge.signed({**header, "jwk": weak.as_dict(private=False)}, payload, weak), "2048 to 8192")


def test_not_yet_valid_and_expired_are_refused(made: Made, token: str, learner: RSAKey) -> None:
    refused(token, "not valid yet.*2026-03-14", now=MOMENT - timedelta(minutes=5))
    assert verify(token, now=MOMENT - timedelta(minutes=1)), "clocks may differ a little"
    header, payload = forge.parts(token)
    until = forge.rehashed({**payload, "validUntil": "2026-03-15T00:00:00Z", "exp": 1773532800})
    dated = forge.signed(header, until, learner)
    assert verify(dated, now=MOMENT)
    refused(dated, "expired.*2026-03-15", now=MOMENT + timedelta(days=1))
    future = sign(made(at=datetime.now(timezone.utc) + timedelta(days=1)), learner)
    refused(future, "not valid yet")


@pytest.mark.parametrize(
    ("claims", "because"),
    [
        ({"iss": "urn:other"}, "claim iss"),
        ({"sub": "urn:other"}, "claim sub"),
        ({"jti": "urn:other"}, "claim jti"),
        ({"nbf": 0}, "claim nbf"),
        ({"nbf": True}, "claim nbf"),
        ({"nbf": float(MOMENT.timestamp())}, "claim nbf"),
        ({"nbf": None}, "claim nbf"),
        ({"exp": 1}, "claim exp"),
        ({"aud": "somebody"}, "aud is missing, unknown"),
        ({"iat": 5}, "iat is missing, unknown"),
        ({"vc": {}}, "vc is missing, unknown"),
    ],
)
def test_claims_that_are_not_the_contents_are_refused(
    token: str, learner: RSAKey, claims: dict[str, Any], because: str
) -> None:
    header, payload = forge.parts(token)
    refused(forge.signed(header, {**payload, **claims}, learner), because)


@pytest.mark.parametrize("claim", ["iss", "sub", "jti", "nbf"])
def test_a_missing_claim_is_refused(token: str, learner: RSAKey, claim: str) -> None:
    header, payload = forge.parts(token)
    del payload[claim]
    refused(forge.signed(header, payload, learner), f"claim {claim} is None")


def test_an_id_that_is_not_the_hash_is_refused_even_when_it_is_signed(token: str, learner: RSAKey) -> None:
    header, payload = forge.parts(token)
    better = json.loads(json.dumps(payload).replace("85.0", "99.9"))
    refused(forge.signed(header, better, learner), "ID is not the hash")
    assert verify(forge.signed(header, forge.rehashed(better), learner)).credential.scores["exam"] == "99.9"


def test_scores_that_belong_to_no_quiz_are_refused(token: str, learner: RSAKey) -> None:
    header, payload = forge.parts(token)
    payload["credentialSubject"]["result"] *= 2
    refused(forge.signed(header, forge.rehashed(payload), learner), "do not belong")


@given(data=st.data())
def test_one_character_changed_anywhere_is_refused(token: str, data: st.DataObject) -> None:
    place = data.draw(st.integers(0, len(token) - 1))
    new = data.draw(st.sampled_from("ABCxyz019-_.=~ é").filter(lambda c: c != token[place]))
    with pytest.raises(Refused):
        verify(token[:place] + new + token[place + 1 :])


def test_the_issuer_is_named_by_the_thumbprint_of_its_key(token: str, learner: RSAKey) -> None:
    assert forge.parts(token)[1]["iss"] == key_uri(learner) == learner.thumbprint_uri()
