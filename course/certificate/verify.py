"""Verifying a certificate: what it says, who signed it, and what that proves.

It is refused unless all of this holds: RS256 and nothing else; the signature fits the key in the header, which is a
public RSA key and the one that was asked for, if one was; issuer and key are the same; every member has its type and
none is unknown; the JWT's claims repeat the credential's; the ID is the hash of the content; today is within its time.

What it proves: that nothing was changed since that key signed. Whose key it is, the certificate cannot say: compare
it with a key that you got from its owner. Nothing is revoked, and nothing is fetched: no network is used.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any

from joserfc.jwk import RSAKey
from pydantic import ValidationError

from course.certificate.credential import CLAIMS, Credential, canonical, content_id, seconds
from course.certificate.keys import key_uri
from course.certificate.token import Refused, opened
from course.untrusted import shown
from minipar.words import _

LEEWAY = 120  # seconds by which another machine's clock may be wrong


@dataclass(frozen=True)
class Verified:
    """A certificate that is believed. `expected` says that the key is the one that was asked for."""

    credential: Credential
    expected: bool


def verify(token: str, key: RSAKey | None = None, now: datetime | None = None) -> Verified:
    """What a token says, if it can be believed; `Refused` with the reason if not.

    `key` is the public key of whom you expect to have signed; `now` (with its zone) stands in for the clock.
    """
    signer, payload = opened(token, key)
    document = {name: value for name, value in payload.items() if name not in CLAIMS}
    credential = _credential(document)
    for claim, value in credential.payload().items():
        if claim in CLAIMS and not (type(payload.get(claim)) is type(value) and payload[claim] == value):
            words = _("Its claim {claim} is {found}, but the content says {wanted}.")
            raise Refused(words.format(claim=claim, found=shown(payload.get(claim)), wanted=shown(value)))
    if "exp" in payload and credential.valid_until is None:
        raise Refused(_("It has a claim exp that the content does not have."))
    if credential.issuer.id != key_uri(signer):
        raise Refused(_("It names another issuer than the key that signed it."))
    if credential.id != content_id(document):
        raise Refused(_("Its ID is not the hash of its content."))
    _check_time(credential, now or datetime.now(timezone.utc))
    return Verified(credential, key is not None)


def _credential(document: dict[str, Any]) -> Credential:
    try:
        credential = Credential.model_validate_json(canonical(document))
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(str(part) for part in first["loc"])[:100]
        words = _("It is no certificate of this course: {field} is missing, unknown, or of another form.")
        raise Refused(words.format(field=ascii(field)[1:-1])) from None
    if credential.document() != document:  # a member that is always the same was left out
        raise Refused(_("It is no certificate of this course: members that each has are missing."))
    quizzes = [told.id for told in credential.credential_subject.achievement.result_description]
    scored = [result.result_description for result in credential.credential_subject.result]
    if len({*quizzes}) < len(quizzes) or len({*scored}) < len(scored) or not {*scored} <= {*quizzes}:
        raise Refused(_("Its scores do not belong to its quizzes."))
    return credential


def _check_time(credential: Credential, now: datetime) -> None:
    if seconds(credential.valid_from) > now.timestamp() + LEEWAY:
        words = _("It is not valid yet: it says that it holds from {time}.")
        raise Refused(words.format(time=credential.valid_from))
    if credential.valid_until is not None and seconds(credential.valid_until) < now.timestamp() - LEEWAY:
        raise Refused(_("It has expired: it held until {time}.").format(time=credential.valid_until))
