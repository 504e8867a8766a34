"""Keys: for their owner alone, never overwritten, named by what they are."""

import hashlib
import stat
from pathlib import Path

import pytest
from joserfc.jwk import ECKey, RSAKey

from course.certificate.keys import fingerprint, key_uri, learner_key, load_key, make_key, read_public
from tests.course.certificate import forge


@pytest.fixture(autouse=True)
def quickly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("course.certificate.keys.BITS", 2048)


def test_a_new_key_is_for_its_owner_alone(tmp_path: Path) -> None:
    path = tmp_path / "keys" / "key.json"
    key = make_key(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert key_uri(load_key(path)) == key_uri(key)


def test_a_key_is_never_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "key.json"
    make_key(path)
    before = path.read_bytes()
    with pytest.raises(FileExistsError):
        make_key(path)
    assert path.read_bytes() == before


def test_a_key_that_others_can_read_is_not_used(tmp_path: Path) -> None:
    path = tmp_path / "key.json"
    make_key(path)
    path.chmod(0o644)
    with pytest.raises(ValueError, match="can be read by others; run: chmod 600"):
        load_key(path)


def test_the_learners_key_stays_the_same(data_folder: Path) -> None:
    assert key_uri(learner_key()) == key_uri(learner_key())
    assert [path.name for path in (data_folder / "keys").iterdir()] == ["learner.json"]


@pytest.mark.parametrize(
    "content", [b"", b"{", b"[]", b"5", b"\xff", b'{"kty": "RSA"}', b'{"kty": "RSA", "n": 5, "d": []}']
)
def test_a_damaged_key_is_a_sentence_and_stays_as_it_is(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "key.json"
    path.write_bytes(content)
    path.chmod(0o600)
    with pytest.raises(ValueError, match="no private key of the course"):
        load_key(path)
    assert path.read_bytes() == content


def test_a_public_key_is_read_as_pem_and_as_jwk_and_a_private_one_is_refused(tmp_path: Path, learner: RSAKey) -> None:
    path = tmp_path / "key"
    for content in (learner.as_pem(private=False), forge.as_json(learner.as_dict(private=False))):
        path.write_bytes(content)
        assert key_uri(read_public(path)) == key_uri(learner)
    for content in (learner.as_pem(private=True), forge.as_json(learner.as_dict(private=True))):
        path.write_bytes(content)
        with pytest.raises(ValueError, match="private"):
            read_public(path)


def test_a_key_of_another_kind_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "key.pem"
    path.write_bytes(ECKey.generate_key("P-256").as_pem(private=False))
    with pytest.raises(ValueError, match="no public RSA key"):
        read_public(path)


def test_the_name_of_a_key_is_its_thumbprint(learner: RSAKey) -> None:
    """RFC 7638, worked out by hand: the hash of the required members in order."""
    jwk = learner.as_dict(private=False)
    text = f'{{"e":"{jwk["e"]}","kty":"RSA","n":"{jwk["n"]}"}}'
    uri = key_uri(learner)
    assert uri == "urn:ietf:params:oauth:jwk-thumbprint:sha-256:" + forge.b64(hashlib.sha256(text.encode()).digest())
    assert len(fingerprint(uri)) == 19
