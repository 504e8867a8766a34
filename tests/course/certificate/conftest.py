"""Keys and certificates to test with. Keys take time to make, so each is made once."""

import hashlib
from collections.abc import Callable
from datetime import datetime, timezone
from typing import Any

import pytest
from joserfc.jwk import RSAKey

from course.certificate.compose import compose
from course.certificate.credential import Credential
from course.certificate.keys import key_uri
from course.certificate.token import sign
from course.certificate.work import Score, Work, required
from course.lessons import lessons
from course.quiz.exam import EXAM

MOMENT = datetime(2026, 3, 14, 15, 9, 26, tzinfo=timezone.utc)
Made = Callable[..., Credential]


def sha(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


@pytest.fixture(scope="session")
def learner() -> RSAKey:
    key: RSAKey = RSAKey.generate_key(3072)
    return key


@pytest.fixture(scope="session")
def instructor() -> RSAKey:
    key: RSAKey = RSAKey.generate_key(3072)
    return key


@pytest.fixture(scope="session")
def work() -> Work:
    scores = {lesson.name: Score(0.9, sha("quiz")) for lesson in lessons()} | {EXAM: Score(0.85, sha("exam"))}
    return Work(scores, {item: sha(item) for item in required()}, MOMENT)


@pytest.fixture(scope="session")
def made(learner: RSAKey, work: Work) -> Made:
    """A certificate, signed by the learner if nothing else is asked for."""

    def make(
        name: str = "Ada Lovelace", issuer: RSAKey | None = None, work: Work = work, at: Any = MOMENT
    ) -> Credential:
        signer = issuer or learner
        return compose(work, name, key_uri(signer), name if issuer is None else "Prof. Hopper", key_uri(learner), at)

    return make


@pytest.fixture(scope="session")
def token(made: Made, learner: RSAKey) -> str:
    return sign(made(), learner)
