"""The certificate's content: an AchievementCredential of Open Badges 3.0, and the ID that is the hash of it.

Written after the final text of 1EdTech's Open Badges 3.0 specification (document version 1.1; data model in appendix
B, JWT proof in section 8.2) over W3C's Verifiable Credentials Data Model 2.0. What was checked: the structure by an
independent verifier (`openbadgeslib`, in the tests), the names of members and enumerations against the specification.
What was not: 1EdTech's own validator and conformance tests were not run, nor were the JSON-LD contexts expanded. So
this is the Open Badges 3.0 *structure*; the course is no issuer that 1EdTech has approved.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Callable
from datetime import datetime, timezone
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from course.untrusted import person_name

CONTEXT = ("https://www.w3.org/ns/credentials/v2", "https://purl.imsglobal.org/spec/ob/v3p0/context-3.0.3.json")
CLAIMS = ("iss", "sub", "jti", "nbf", "exp")  # of the JWT; each repeats a member of the credential


def _is_name(text: str) -> str:
    if person_name(text) != text:
        raise ValueError("a name in normal form is needed")
    return text


def _is_time(text: str) -> str:
    datetime.strptime(text, "%Y-%m-%dT%H:%M:%SZ")
    return text


def _like(pattern: str) -> Callable[[str], str]:
    def check(text: str) -> str:
        if not re.fullmatch(pattern, text):
            raise ValueError(f"it is not of the form {pattern}")
        return text

    return check


Name = Annotated[str, AfterValidator(_is_name)]
Time = Annotated[str, AfterValidator(_is_time)]
KeyUri = Annotated[str, AfterValidator(_like(r"urn:ietf:params:oauth:jwk-thumbprint:sha-256:[A-Za-z0-9_-]{43}"))]
HashUri = Annotated[str, AfterValidator(_like(r"ni:///sha-256;[A-Za-z0-9_-]{43}"))]  # RFC 6920
CourseUri = Annotated[str, AfterValidator(_like(r"urn:uuid:[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"))]
Item = Annotated[str, AfterValidator(_like(r"[a-z0-9][a-z0-9-]{0,60}(/[a-z0-9][a-z0-9-]{0,60})?"))]
Percent = Annotated[str, AfterValidator(_like(r"(100|\d{1,2})\.\d"))]
Sentence = Annotated[str, Field(min_length=1, max_length=500), AfterValidator(_like(r"[ -~]+"))]


class Part(BaseModel):
    """Any part of a credential: exactly these members, of exactly these types."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, alias_generator=to_camel, populate_by_name=True)


class Identity(Part):
    """The learner's name, in plain text."""

    type: Literal["IdentityObject"] = "IdentityObject"
    hashed: Literal[False] = False
    identity_hash: Name
    identity_type: Literal["name"] = "name"


class ResultDescription(Part):
    """A quiz that has a score: its name in the course, and the percentage that passes it, if it must be passed."""

    id: CourseUri
    type: tuple[Literal["ResultDescription"]] = ("ResultDescription",)
    name: Item
    result_type: Literal["Percent"] = "Percent"
    required_value: Percent | None = None
    value_min: Literal["0"] = "0"
    value_max: Literal["100"] = "100"


class Result(Part):
    """The score of a quiz, in percent."""

    type: tuple[Literal["Result"]] = ("Result",)
    result_description: CourseUri
    value: Percent


class Criteria(Part):
    """What had to be done."""

    narrative: Sentence


class Achievement(Part):
    """The course, in one version of it."""

    id: CourseUri
    type: tuple[Literal["Achievement"]] = ("Achievement",)
    achievement_type: Literal["Course"] = "Course"
    name: Sentence
    version: Sentence
    description: Sentence
    criteria: Criteria
    in_language: Literal["en"] = "en"
    result_description: Annotated[tuple[ResultDescription, ...], Field(min_length=1, max_length=100)]


class Subject(Part):
    """The learner, named by their key, and what they have achieved."""

    id: KeyUri
    type: tuple[Literal["AchievementSubject"]] = ("AchievementSubject",)
    identifier: tuple[Identity]
    achievement: Achievement
    result: Annotated[tuple[Result, ...], Field(min_length=1, max_length=100)]
    narrative: Sentence


class Profile(Part):
    """Who signed, named by their key: the learner, or an instructor."""

    id: KeyUri
    type: tuple[Literal["Profile"]] = ("Profile",)
    name: Name


class Evidence(Part):
    """The hash of one thing that was graded: a quiz's file, or the source of a solution."""

    id: HashUri
    type: tuple[Literal["Evidence"]] = ("Evidence",)
    name: Item
    genre: Literal["quiz", "exercise"]
    description: Sentence


class Credential(Part):
    """The whole credential. `id` is the hash of all its other members (see `content_id`)."""

    context: Annotated[
        tuple[
            Literal["https://www.w3.org/ns/credentials/v2"],
            Annotated[str, AfterValidator(_like(re.escape(CONTEXT[1])))],
        ],
        Field(alias="@context"),
    ]
    id: HashUri
    type: tuple[Literal["VerifiableCredential"], Literal["AchievementCredential"]]
    issuer: Profile
    valid_from: Time
    valid_until: Time | None = None
    name: Sentence
    credential_subject: Subject
    evidence: Annotated[tuple[Evidence, ...], Field(min_length=1, max_length=500)]

    def document(self) -> dict[str, Any]:
        """The credential as a JSON document."""
        return self.model_dump(mode="json", by_alias=True, exclude_none=True)

    def payload(self) -> dict[str, Any]:
        """The credential as the payload of a JWT: its members at the top level, and the registered claims."""
        claims: dict[str, Any] = {
            "iss": self.issuer.id,
            "sub": self.credential_subject.id,
            "jti": self.id,
            "nbf": seconds(self.valid_from),
        }
        if self.valid_until is not None:
            claims["exp"] = seconds(self.valid_until)
        return {**self.document(), **claims}

    @property
    def learner(self) -> str:
        """The learner's name."""
        return self.credential_subject.identifier[0].identity_hash

    @property
    def self_signed(self) -> bool:
        """Whether the learner's own key signed it."""
        return self.issuer.id == self.credential_subject.id

    @property
    def scores(self) -> dict[str, str | None]:
        """The percentage of each quiz, the exam last; None for a quiz that was not taken."""
        values = {result.result_description: result.value for result in self.credential_subject.result}
        return {told.name: values.get(told.id) for told in self.credential_subject.achievement.result_description}


def seconds(time: str) -> int:
    """A time of a credential as a NumericDate: seconds since 1970."""
    return int(datetime.strptime(time, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=timezone.utc).timestamp())


def canonical(document: Any) -> bytes:
    """A JSON document as bytes, one way only. For ASCII names and no numbers, as here, this is RFC 8785."""
    return json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def content_id(document: dict[str, Any]) -> str:
    """The ID of a credential: the SHA-256 of all its members but `id` and the JWT's claims, as a URI (RFC 6920)."""
    content = {name: value for name, value in document.items() if name not in ("id", *CLAIMS)}
    return hash_uri(hashlib.sha256(canonical(content)).digest())


def hash_uri(digest: bytes) -> str:
    """A SHA-256 digest as a URI (RFC 6920)."""
    return "ni:///sha-256;" + base64.urlsafe_b64encode(digest).decode("ascii").rstrip("=")


def short_id(uri: str) -> str:
    """The ID for people and for the QR code: the first 160 bits of the hash, as in ``"7Q2M-KX4A-…"`` (8 groups)."""
    digest = base64.urlsafe_b64decode(uri.partition(";")[2] + "=")
    text = base64.b32encode(digest[:20]).decode("ascii")
    return "-".join(text[i : i + 4] for i in range(0, len(text), 4))
