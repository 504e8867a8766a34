from __future__ import annotations

from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from minipar.train import ByteText

TEXT = ByteText()


def test_the_text_that_every_python_brings_is_english_and_long_enough() -> None:
    assert len(TEXT.bytes) > 100_000
    assert b"statement" in bytes(TEXT.bytes.tolist())


@given(st.integers(0, 10**6), st.integers(1, 5), st.integers(1, 50), st.integers(0, 2**31 - 1))
def test_targets_are_the_inputs_moved_by_one(step: int, batch: int, sequence: int, seed: int) -> None:
    inputs, targets = TEXT.batch(step, batch, sequence, seed)
    assert inputs.shape == targets.shape == (batch, sequence)
    assert inputs.dtype == targets.dtype == torch.int64
    assert torch.equal(inputs[:, 1:], targets[:, :-1])
    text = bytes(TEXT.bytes.tolist())
    assert all(
        bytes([*start.tolist(), end]) in text for start, end in zip(inputs, targets[:, -1].tolist(), strict=True)
    )


def test_a_batch_depends_on_step_and_seed_alone() -> None:
    first = TEXT.batch(3, 4, 16, seed=1)[0]
    assert torch.equal(first, ByteText().batch(3, 4, 16, seed=1)[0])
    assert not torch.equal(first, TEXT.batch(4, 4, 16, seed=1)[0])
    assert not torch.equal(first, TEXT.batch(3, 4, 16, seed=2)[0])


def test_a_file_is_read_byte_by_byte(tmp_path: Path) -> None:
    path = tmp_path / "text.bin"
    path.write_bytes(bytes([0, 255, 7]))
    for name in (path, str(path)):
        inputs, targets = ByteText(name).batch(0, 1, 2)
        assert (inputs.tolist(), targets.tolist()) == ([[0, 255]], [[255, 7]])


def test_every_place_in_a_text_is_reached(tmp_path: Path) -> None:
    path = tmp_path / "text"
    path.write_bytes(b"abcd")
    assert {bytes(row) for row in ByteText(path).batch(0, 100, 2)[0].tolist()} == {b"ab", b"bc"}


@pytest.mark.parametrize(("size", "sequence"), [(0, 1), (1, 1), (8, 8), (8, 100)])
def test_a_text_that_is_too_short_is_refused(size: int, sequence: int, tmp_path: Path) -> None:
    path = tmp_path / "short"
    path.write_bytes(b"x" * size)
    with pytest.raises(ValueError, match=f"short has {size} bytes; a sequence of {sequence} needs {sequence + 1}"):
        ByteText(path).batch(0, 1, sequence)


def test_a_missing_file_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"nowhere\.txt' cannot be read: No such file"):
        ByteText(tmp_path / "nowhere.txt")


def test_a_folder_is_no_text(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="cannot be read: Is a directory"):
        ByteText(tmp_path)


def test_a_file_that_may_not_be_read_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: Path) -> bytes:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(Path, "read_bytes", refuse)  # root may read everything
    with pytest.raises(ValueError, match="text' cannot be read: Permission denied"):
        ByteText(tmp_path / "text")
