"""The credential of what a learner has done: its content written out, and then its ID."""

from __future__ import annotations

import importlib.metadata
import platform
from datetime import datetime, timezone
from uuid import UUID, uuid5

from course.certificate.credential import (
    CONTEXT,
    Achievement,
    Credential,
    Criteria,
    Evidence,
    Identity,
    Profile,
    Result,
    ResultDescription,
    Subject,
    content_id,
    hash_uri,
)
from course.certificate.work import Work, quizzes
from course.quiz.exam import EXAM, PASS_MARK
from course.untrusted import person_name

COURSE = UUID("6c4b1c9e-5d0a-4b57-9d36-0e0b6f5a7c21")  # names this course in credentials, on every machine
TITLE = "Model and pipeline parallelism"


def compose(work: Work, name: str, issuer: str, issuer_name: str, subject: str, at: datetime) -> Credential:
    """The credential for `work`. `issuer` and `subject` are URIs of keys; `at` is from when it is valid.

    Raises `ValueError` for a name that cannot be shown honestly.
    """
    told = tuple(
        ResultDescription(
            id=_course_uri(f"quiz/{quiz}"), name=quiz, required_value=_percent(PASS_MARK) if quiz == EXAM else None
        )
        for quiz in quizzes()
    )
    results = tuple(
        Result(result_description=_course_uri(f"quiz/{quiz}"), value=_percent(work.scores[quiz].share))
        for quiz in quizzes()
        if quiz in work.scores
    )
    quiz_files = [
        Evidence(id=_hex_uri(score.quiz), name=quiz, genre="quiz", description="SHA-256 of the quiz's file")
        for quiz, score in work.scores.items()
    ]
    solutions = [
        Evidence(id=_hex_uri(sha), name=item, genre="exercise", description="SHA-256 of the solution that passed")
        for item, sha in work.solutions.items()
    ]
    credential = Credential(
        context=CONTEXT,  # type: ignore[arg-type]  # the literal is checked when it is made
        id=hash_uri(bytes(32)),  # in place until the content is known
        type=("VerifiableCredential", "AchievementCredential"),
        issuer=Profile(id=issuer, name=person_name(issuer_name)),
        valid_from=at.astimezone(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
        name=TITLE,
        credential_subject=Subject(
            id=subject,
            identifier=(Identity(identity_hash=person_name(name)),),
            achievement=_achievement(told),
            result=results,
            narrative=_narrative(issuer == subject),
        ),
        evidence=(*quiz_files, *solutions),
    )
    return credential.model_copy(update={"id": content_id(credential.document())})


def _achievement(told: tuple[ResultDescription, ...]) -> Achievement:
    needed = f"Passes every exercise of every lesson, and the final exam with at least {100 * PASS_MARK:.0f} %."
    return Achievement(
        id=_course_uri("course"),
        name=TITLE,
        version=f"minipar {importlib.metadata.version('minipar')}",
        description="Splits models over processes inside and between layers, schedules pipelines, trains on a mesh.",
        criteria=Criteria(narrative=needed),
        result_description=told,
    )


def _narrative(self_signed: bool) -> str:
    """How it was graded, and with what versions."""
    versions = f"Python {platform.python_version()}, PyTorch {importlib.metadata.version('torch')}"
    if self_signed:
        return f"Graded on the learner's own machine and signed by the learner's own key. {versions}."
    return f"Graded again by the issuer, from the learner's raw answers and sources. {versions}."


def _course_uri(what: str) -> str:
    return f"urn:uuid:{uuid5(COURSE, what)}"


def _hex_uri(sha256: str) -> str:
    digest = bytes.fromhex(sha256)
    if len(digest) != 32:
        raise ValueError(f"{sha256!r} is no SHA-256")
    return hash_uri(digest)


def _percent(share: float) -> str:
    return f"{100 * share:.1f}"
