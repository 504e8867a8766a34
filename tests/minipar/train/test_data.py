"""Text as bytes: every window once an epoch, in an order that no batch, mesh or restart changes."""

from __future__ import annotations

import os
import warnings
from collections import Counter
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from minipar.train import ByteText

TEXT = ByteText()


def written(folder: Path, data: bytes) -> ByteText:
    path = folder / "text"
    path.write_bytes(data)
    return ByteText(path)


def text_of(size: int) -> ByteText:
    """A text in which a byte tells where it stands (up to 256)."""
    text = ByteText()
    text.bytes = torch.arange(size, dtype=torch.uint8)
    return text


def samples(text: ByteText, first: int, count: int, sequence: int, seed: int = 0) -> list[bytes]:
    """Whole windows: the inputs and the last target."""
    inputs, targets = text.batch(first, count, sequence, seed)
    return [bytes([*row, last]) for row, last in zip(inputs.tolist(), targets[:, -1].tolist(), strict=True)]


def test_the_text_that_every_python_brings_is_english_and_long_enough() -> None:
    assert len(TEXT.bytes) > 100_000
    assert b"statement" in bytes(TEXT.bytes.tolist())


@given(st.integers(0, 10**6), st.integers(1, 5), st.integers(1, 50), st.integers(0, 2**31 - 1))
def test_targets_are_the_inputs_moved_by_one(first: int, count: int, sequence: int, seed: int) -> None:
    inputs, targets = TEXT.batch(first, count, sequence, seed)
    assert inputs.shape == targets.shape == (count, sequence)
    assert inputs.dtype == targets.dtype == torch.int64
    assert torch.equal(inputs[:, 1:], targets[:, :-1])


@given(st.data(), st.integers(2, 200), st.integers(0, 3), st.integers(0, 9))
def test_every_window_comes_exactly_once_an_epoch(data: st.DataObject, size: int, epoch: int, seed: int) -> None:
    sequence = data.draw(st.integers(1, size - 1))
    whole = bytes(range(size))
    windows = [whole[at : at + sequence + 1] for at in range(0, size - sequence, sequence)]
    assert sorted(samples(text_of(size), epoch * len(windows), len(windows), sequence, seed)) == windows


@given(st.data(), st.integers(3, 60), st.integers(1, 10), st.integers(0, 100), st.integers(2, 80), st.integers(0, 9))
def test_no_cut_into_batches_changes_the_order(
    data: st.DataObject, size: int, sequence: int, first: int, count: int, seed: int
) -> None:
    sequence = min(sequence, size - 1)
    middle = data.draw(st.integers(1, count - 1))
    whole = samples(text_of(size), first, count, sequence, seed)
    resumed = text_of(size)  # as after a restart: nothing remembered
    late = samples(resumed, first + middle, count - middle, sequence, seed)
    assert samples(resumed, first, middle, sequence, seed) + late == whole
    one_by_one = text_of(size)
    assert [samples(one_by_one, first + i, 1, sequence, seed)[0] for i in range(count)] == whole


def test_replicas_that_each_take_their_part_see_what_one_alone_sees() -> None:
    count, step = 12, 7
    whole = TEXT.batch(step * count, count, 32)
    for replicas in (2, 3, 4, 12):
        share = count // replicas
        parts = [ByteText().batch(step * count + rank * share, share, 32) for rank in range(replicas)]
        for tensor, theirs in zip(whole, zip(*parts, strict=True), strict=True):
            assert torch.equal(torch.cat(theirs), tensor)


def test_epochs_and_seeds_have_orders_of_their_own() -> None:
    text = text_of(200)
    orders = [samples(text, epoch * 199, 199, 1, seed) for epoch in range(3) for seed in range(3)]
    assert len({tuple(order) for order in orders}) == 9
    assert orders[0] != sorted(orders[0]), "an epoch is shuffled"


def test_every_window_is_as_likely_at_every_place() -> None:
    """600 epochs of 5 windows: each place sees each window 120 times, give or take 5 standard deviations."""
    text = text_of(6)
    first = Counter((place, window) for i in range(600) for place, window in enumerate(samples(text, 5 * i, 5, 1)))
    assert len(first) == 25
    assert all(abs(times - 120) < 5 * (600 * 0.2 * 0.8) ** 0.5 for times in first.values())


def test_only_the_current_epochs_orders_are_kept() -> None:
    text = text_of(20)
    text.batch(0, 190, 2)  # over 22 epochs of 9 windows
    assert len(text._orders) == 2


def test_a_file_is_read_byte_by_byte(tmp_path: Path) -> None:
    path = tmp_path / "text.bin"
    path.write_bytes(bytes([0, 255, 7]))
    for name in (path, str(path)):
        inputs, targets = ByteText(name).batch(0, 1, 2)
        assert (inputs.tolist(), targets.tolist()) == ([[0, 255]], [[255, 7]])


def test_a_file_larger_than_any_memory_is_not_read_whole(tmp_path: Path) -> None:
    path, size = tmp_path / "sparse", 2**42
    with open(path, "wb") as file:
        file.truncate(size)  # takes no room
        file.seek(size - 4)
        file.write(b"end.")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        text = ByteText(path)
    training, evaluation = text.split(2**-41)
    assert (len(training.bytes), bytes(evaluation.bytes.tolist())) == (size - 2, b"d.")
    inputs, targets = text.batch(10, 2, 2**20)
    assert inputs.shape == targets.shape == (2, 2**20)


def test_a_files_bytes_cannot_be_written_through_the_text(tmp_path: Path) -> None:
    text = written(tmp_path, b"abc" * 5000)
    maps = [line.split() for line in Path("/proc/self/maps").read_text().splitlines()]
    assert [map_[1] for map_ in maps if map_[-1] == text.name] == ["r--s"]


@pytest.mark.parametrize(("size", "sequence"), [(0, 1), (1, 1), (8, 8), (8, 100)])
def test_a_text_that_is_too_short_is_refused(size: int, sequence: int, tmp_path: Path) -> None:
    text = written(tmp_path, b"x" * size)
    with pytest.raises(ValueError, match=f"text has {size} bytes; a sequence of {sequence} needs {sequence + 1}"):
        text.batch(0, 1, sequence)


@pytest.mark.parametrize(
    ("name", "first", "count", "sequence", "least"),
    [("first", -1, 1, 1, 0), ("count", 0, 0, 1, 1), ("count", 0, -2, 1, 1), ("sequence", 0, 1, 0, 1)],
)
def test_numbers_that_make_no_batch_are_refused(name: str, first: int, count: int, sequence: int, least: int) -> None:
    with pytest.raises(ValueError, match=rf"^{name}=-?\d; it must be at least {least}$"):
        TEXT.batch(first, count, sequence)


@given(st.integers(2, 300), st.floats(0.01, 0.99))
def test_a_split_has_every_byte_in_one_part(size: int, held_out: float) -> None:
    text, last = text_of(size), round(size * held_out)
    if last in (0, size):
        with pytest.raises(ValueError, match="leaves a part empty"):
            text.split(held_out)
        return
    training, evaluation = text.split(held_out)
    assert torch.equal(torch.cat([training.bytes, evaluation.bytes]), text.bytes)
    assert len(evaluation.bytes) == last


def test_a_split_copies_nothing_and_names_its_parts() -> None:
    training, evaluation = TEXT.split(0.25)
    assert training.bytes.untyped_storage().data_ptr() == evaluation.bytes.untyped_storage().data_ptr()
    assert evaluation.bytes.data_ptr() == TEXT.bytes.data_ptr() + len(training.bytes)
    assert (training.name, evaluation.name) == ("pydoc_data.topics (training)", "pydoc_data.topics (evaluation)")
    assert TEXT.name == "pydoc_data.topics"


def test_parts_keep_orders_of_their_own() -> None:
    text = text_of(200)
    before = samples(text, 0, 199, 1)
    training, evaluation = text.split(0.1)
    assert sorted(samples(training, 0, 179, 1)) == [bytes([i, i + 1]) for i in range(179)]
    assert sorted(samples(evaluation, 0, 19, 1)) == [bytes([i, i + 1]) for i in range(180, 199)]
    assert samples(text, 0, 199, 1) == before


@pytest.mark.parametrize("held_out", [0, 1, -0.1, 1.5, float("nan")])
def test_a_share_that_is_none_is_refused(held_out: float) -> None:
    with pytest.raises(ValueError, match=f"held_out={held_out}; it is a share between 0 and 1"):
        TEXT.split(held_out)


@pytest.mark.parametrize("name", ["nowhere.txt", ""])
def test_a_missing_file_is_refused_by_name(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match=rf"'{name}' cannot be read: No such file"):
        ByteText(name)


def test_a_folder_is_no_text(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="cannot be read: Is a directory"):
        ByteText(tmp_path)


def test_a_pipe_is_refused_and_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ValueError, match="pipe' cannot be read: not a regular file"):
        ByteText(tmp_path / "pipe")


def test_a_file_that_may_not_be_read_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "text").write_bytes(b"abc")

    def refuse(path: Path, mode: str) -> None:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr("builtins.open", refuse)  # root may read everything
    with pytest.raises(ValueError, match="text' cannot be read: Permission denied"):
        ByteText(tmp_path / "text")
