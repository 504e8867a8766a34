"""The certificate is what Open Badges 3.0 says, by an independent verifier; and its ID is the hash of its content."""

from dataclasses import replace
from datetime import timedelta

import pytest
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding, rsa
from joserfc.jwk import RSAKey
from openbadgeslib.ob3 import OB3VerificationError, OB3Verifier

from course.certificate import Credential, Work, short_id
from course.certificate.credential import content_id
from course.certificate.keys import key_uri
from course.certificate.token import sign
from course.certificate.work import Score, quizzes
from course.quiz.exam import EXAM
from tests.course.certificate import forge
from tests.course.certificate.conftest import MOMENT, Made, sha


def test_an_independent_verifier_believes_it(token: str, learner: RSAKey) -> None:
    found = OB3Verifier(learner.as_pem(private=False)).verify(token, expected_recipient=key_uri(learner))
    assert found.achievement.name == "Model and pipeline parallelism"
    assert found.issuer.id == found.recipient_id == key_uri(learner)
    assert found.issuance_date == MOMENT
    assert [identity.identity_hash for identity in found.identifiers] == ["Ada Lovelace"]
    assert [described.name for described in found.achievement.result_descriptions] == quizzes()


def test_an_independent_verifier_refuses_it_when_altered_or_for_another_key(
    token: str, learner: RSAKey, instructor: RSAKey
) -> None:
    head, _body, signature = token.split(".")
    payload = forge.parts(token)[1]
    altered = f"{head}.{forge.b64(forge.as_json({**payload, 'name': 'Other'}))}.{signature}"
    with pytest.raises(OB3VerificationError, match="signature"):
        OB3Verifier(learner.as_pem(private=False)).verify(altered)
    with pytest.raises(OB3VerificationError, match="signature"):
        OB3Verifier(instructor.as_pem(private=False)).verify(token)


def test_the_signature_is_rs256_by_hand_with_the_public_key_in_the_header(token: str) -> None:
    header, _payload = forge.parts(token)
    assert header.keys() == {"alg", "typ", "jwk"}
    assert (header["alg"], header["typ"]) == ("RS256", "JWT")
    assert header["jwk"].keys() == {"kty", "n", "e"}, "nothing private is shown"
    modulus, exponent = (int.from_bytes(forge.unb64(header["jwk"][part]), "big") for part in "ne")
    signed, _dot, signature = token.rpartition(".")
    key = rsa.RSAPublicNumbers(exponent, modulus).public_key()
    key.verify(forge.unb64(signature), signed.encode(), padding.PKCS1v15(), hashes.SHA256())
    assert b"BEGIN PUBLIC KEY" in key.public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )


def test_the_credential_is_at_the_top_level_and_the_claims_repeat_it(token: str) -> None:
    _header, payload = forge.parts(token)
    assert "vc" not in payload
    assert payload["@context"] == [
        "https://www.w3.org/ns/credentials/v2",
        "https://purl.imsglobal.org/spec/ob/v3p0/context-3.0.3.json",
    ]
    assert payload["type"] == ["VerifiableCredential", "AchievementCredential"]
    assert payload["iss"] == payload["issuer"]["id"]
    assert payload["sub"] == payload["credentialSubject"]["id"]
    assert payload["jti"] == payload["id"]
    assert payload["nbf"] == MOMENT.timestamp()
    assert payload["validFrom"] == "2026-03-14T15:09:26Z"


def test_it_says_scores_hashes_and_versions(made: Made, work: Work) -> None:
    credential = made()
    assert credential.scores == dict.fromkeys(quizzes(), "90.0") | {"exam": "85.0"}
    hashed = {(e.genre, e.name): e.id for e in credential.evidence}
    for item, digest in work.solutions.items():
        assert hashed["exercise", item] == "ni:///sha-256;" + forge.b64(bytes.fromhex(digest))
    assert hashed["quiz", "00-start"] == "ni:///sha-256;" + forge.b64(bytes.fromhex(sha("quiz")))
    assert credential.credential_subject.achievement.version.startswith("minipar ")
    assert "PyTorch" in credential.credential_subject.narrative


def test_a_quiz_that_was_not_taken_has_no_score(made: Made, work: Work) -> None:
    credential = made(work=replace(work, scores={EXAM: work.scores[EXAM]}))
    assert credential.scores == dict.fromkeys(quizzes()) | {"exam": "85.0"}


def test_the_id_is_the_hash_of_the_content_worked_out_anew(made: Made) -> None:
    payload = made().payload()
    assert forge.rehashed(payload)["id"] == payload["id"] == content_id(payload)


def test_the_same_work_gives_the_same_token_and_any_other_another_id(
    made: Made, learner: RSAKey, instructor: RSAKey, work: Work, token: str
) -> None:
    assert sign(made(), learner) == token
    others: list[Credential] = [
        made("Ada Byron"),
        made(issuer=instructor),
        made(at=MOMENT + timedelta(seconds=1)),
        made(work=replace(work, scores={**work.scores, "00-start": Score(0.8, sha("quiz"))})),
        made(work=replace(work, scores={**work.scores, "00-start": Score(0.9, sha("another file"))})),
        made(work=replace(work, solutions={item: sha("other") for item in work.solutions})),
        made(work=replace(work, solutions={})),
    ]
    ids = {credential.id for credential in [made(), *others]}
    assert len(ids) == len(others) + 1
    assert len({short_id(identifier) for identifier in ids}) == len(ids)


def test_the_short_id_can_be_typed() -> None:
    assert short_id("ni:///sha-256;" + "A" * 43) == "-".join(["AAAA"] * 8)


@pytest.mark.parametrize(
    "name", ["", "   ", "a" * 101, "Ada\x1b[31m", "Ada\nLovelace\x00", "evil\u202eada", "\ud800", "-.-", "\u200d"]
)
def test_a_name_that_cannot_be_shown_honestly_is_refused(made: Made, name: str) -> None:
    with pytest.raises(ValueError, match="name"):
        made(name)


@pytest.mark.parametrize("name", ["Ng", "王小明", "সুকুমার রায়", "محمد", "O'Neil <script>", "$x$ & co", "ক্‍ষ"])
def test_names_of_any_script_are_kept(made: Made, name: str) -> None:
    assert made(name).learner == name


def test_a_name_is_kept_in_normal_form(made: Made) -> None:
    assert made("  Jose\u0301   Mari\u0301a ").learner == "José María"
