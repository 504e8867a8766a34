"""The curve of a run: bytewise what was computed, and one clean curve however often the run was restarted."""

from __future__ import annotations

import json
import math
import os
import struct
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from minipar.train.metrics import Metrics, read

FLOATS = st.floats() | st.floats(width=32)
VALUES = st.none() | st.integers() | FLOATS
NAMES = st.text(min_size=1).filter(lambda name: name not in ("step", "not_finite"))
RECORDS = st.dictionaries(NAMES, VALUES | st.dictionaries(NAMES, VALUES, max_size=3), max_size=4)


def write(path: Path | None, records: list[dict[str, Any]], first_step: int = 0, board: Path | None = None) -> None:
    with Metrics(path, board, first_step) as metrics:
        for record in records:
            metrics.write(record)


def run_of(steps: range, loss: float = 0.1) -> list[dict[str, Any]]:
    """A record a step, and an evaluation after every third."""
    records: list[dict[str, Any]] = []
    for step in steps:
        records.append({"step": step, "loss": loss / (step + 3), "sent": {"dp": step, "tp": 7}})
        if step % 3 == 2:
            records.append({"step": step, "evaluation_loss": 2 * loss / (step + 3)})
    return records


def bits(value: Any) -> Any:
    """What tells -0.0 from 0.0, an int from a float, and makes NaN equal itself."""
    if isinstance(value, dict):
        return {name: bits(inner) for name, inner in value.items()}
    if isinstance(value, float):
        return "nan" if math.isnan(value) else struct.pack("d", value)
    return value


@given(st.lists(RECORDS, max_size=4))
def test_what_is_read_is_bitwise_what_was_written(tmp_path_factory: pytest.TempPathFactory, records: list[Any]) -> None:
    path = tmp_path_factory.mktemp("metrics") / "curve.jsonl"
    records = [{"step": step, **record} for step, record in enumerate(records)]
    write(path, records)
    assert [bits(record) for record in read(path)] == [bits(record) for record in records]


def test_a_line_is_strict_json_with_every_digit_of_a_float(tmp_path: Path) -> None:
    path = tmp_path / "curve.jsonl"
    write(path, [{"step": 0, "loss": 0.1 + 0.2, "mfu": None, "sent": {"dp": 5}}])
    assert path.read_text() == '{"step": 0, "loss": 0.30000000000000004, "mfu": null, "sent": {"dp": 5}}\n'


def test_what_json_has_no_number_for_is_null_and_named(tmp_path: Path) -> None:
    path = tmp_path / "curve.jsonl"
    record = {"step": 0, "loss": math.nan, "norm": {"a": -math.inf, "b": 1.0}, "c": None}
    write(path, [record])
    assert json.loads(path.read_text(), parse_constant=pytest.fail) == {
        "step": 0,
        "loss": None,
        "norm": {"a": None, "b": 1.0},
        "c": None,
        "not_finite": {"loss": "nan", "norm": {"a": "-inf"}},
    }
    assert bits(read(path)[0]) == bits(record)


def test_a_line_can_be_read_as_soon_as_it_is_written(tmp_path: Path) -> None:
    path = tmp_path / "curve.jsonl"
    with Metrics(path, None, 0) as metrics:
        for step in range(3):
            metrics.write({"step": step})
            assert read(path)[-1] == {"step": step}


def test_a_fresh_run_begins_the_file_anew_and_makes_its_folder(tmp_path: Path) -> None:
    path = tmp_path / "runs" / "one" / "curve.jsonl"
    write(path, run_of(range(9)))
    write(path, run_of(range(2)))
    assert read(path) == run_of(range(2))


def test_wherever_a_run_dies_the_resumed_file_is_that_of_an_unbroken_run(tmp_path: Path) -> None:
    """Checkpoint before step 4; killed at any byte after that."""
    path, whole = tmp_path / "curve.jsonl", tmp_path / "whole.jsonl"
    write(whole, run_of(range(7)))
    wanted, before = whole.read_bytes(), sum(map(len, whole.read_bytes().splitlines(keepends=True)[:5]))
    for at in range(before - 1, len(wanted) + 1):  # the fifth line without its end is whole too
        path.write_bytes(wanted[:at])
        write(path, run_of(range(4, 7)), first_step=4)
        assert path.read_bytes() == wanted, at
    assert sorted(os.listdir(tmp_path)) == ["curve.jsonl", "whole.jsonl"]


def test_lines_are_dropped_by_their_step_wherever_they_stand(tmp_path: Path) -> None:
    path = tmp_path / "curve.jsonl"
    write(path, [{"step": step, "loss": 1.0} for step in (0, 5, 1, 2, 6)])
    write(path, [], first_step=2)
    assert [record["step"] for record in read(path)] == [0, 1]


def test_a_resumed_run_without_a_file_begins_one(tmp_path: Path) -> None:
    write(tmp_path / "new.jsonl", run_of(range(4, 6)), first_step=4)
    assert read(tmp_path / "new.jsonl") == run_of(range(4, 6))


def test_when_the_new_file_cannot_take_the_olds_place_the_old_one_is_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "curve.jsonl"
    write(path, run_of(range(9)))

    def refuse(source: Path, target: Path) -> None:
        assert read(Path(source)) == run_of(range(4)), "by then the new one is whole"
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", refuse)
    with pytest.raises(ValueError, match=r"curve\.jsonl' cannot be written: No space left on device"):
        Metrics(path, None, 4)
    assert read(path) == run_of(range(9))


def test_a_link_to_a_file_stays_a_link(tmp_path: Path) -> None:
    path, link = tmp_path / "curve.jsonl", tmp_path / "latest"
    write(path, run_of(range(5)))
    link.symlink_to(path.name)
    write(link, run_of(range(2, 4)), first_step=2)
    assert link.is_symlink()
    assert read(path) == run_of(range(4))


@pytest.mark.parametrize("line", ["hello", "[1, 2]", '{"loss": 1.0}', '{"step": "1"}', '{"step": 1.5}', ""])
@pytest.mark.parametrize("more", ["", '{"step": 1}\n'])
def test_a_file_that_is_no_curve_is_left_alone(line: str, more: str, tmp_path: Path) -> None:
    path, text = tmp_path / "notes.txt", f'{{"step": 0}}\n{line}\n{more}'
    path.write_text(text)
    with pytest.raises(ValueError, match=r"line 2 of the metrics file '.*notes\.txt' is no record: b'.*'"):
        Metrics(path, None, 1)
    with pytest.raises(ValueError, match="line 2 of the metrics file"):
        read(path)
    assert path.read_text() == text


def test_a_line_that_is_still_being_written_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "curve.jsonl"
    path.write_bytes(b'{"step": 0}\n{"step": 1, "lo')
    assert read(path) == [{"step": 0}]


def test_a_missing_file_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"the metrics file '.*none' cannot be read: No such file"):
        read(tmp_path / "none")


@pytest.mark.parametrize(
    ("record", "message"),
    [
        ({"loss": 1.0}, "this one's is None"),
        ({"step": 1.0}, r"this one's is 1\.0"),
        ({"step": True}, "this one's is True"),
        ({"step": -1}, "this one's is -1"),
        ({"step": 0, "loss": "1.0"}, "the metric 'loss' is a str; it can be a number, None or a dict"),
        ({"step": 0, "sent": {"dp": [1]}}, "the metric 'dp' is a list"),
        ({"step": 0, "not_finite": 1.0}, "cannot be called 'not_finite'"),
    ],
)
def test_a_record_that_is_none_is_refused_and_not_written(record: Any, message: str, tmp_path: Path) -> None:
    path = tmp_path / "curve.jsonl"
    with Metrics(path, None, 0) as metrics:
        with pytest.raises(ValueError, match=message):
            metrics.write(record)
        assert path.read_bytes() == b""
        metrics.write({"step": 0})
    assert read(path) == [{"step": 0}]


def test_a_negative_first_step_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="first_step=-1; it must be at least 0"):
        Metrics(None, None, -1)


@pytest.mark.parametrize("first_step", [0, 3])
def test_a_path_that_cannot_be_written_is_refused_at_once(first_step: int, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for path, why in ((tmp_path, "Is a directory"), (tmp_path / "file" / "curve", "(Not a directory|File exists)")):
        with pytest.raises(ValueError, match=rf"the metrics file '{path}' cannot be written: {why}"):
            Metrics(path, None, first_step)
    with pytest.raises(ValueError, match=r"the TensorBoard folder '.*file' cannot be written: (Not a dir|File exists)"):
        Metrics(None, tmp_path / "file", first_step)


def test_a_full_disk_is_an_error_that_names_the_file(recwarn: pytest.WarningsRecorder) -> None:
    metrics = Metrics(Path("/dev/full"), None, 0)
    with pytest.raises(ValueError, match="the metrics file '/dev/full' cannot be written: No space left on device"):
        metrics.write({"step": 0})
    metrics.close()
    with pytest.raises(ValueError, match="these metrics are closed"):
        metrics.write({"step": 1})
    assert not list(recwarn)


def test_a_disk_that_takes_a_part_gets_the_rest(tmp_path: Path) -> None:
    path = tmp_path / "curve.jsonl"
    with Metrics(path, None, 0) as metrics:
        real = metrics._file

        class Slow:
            def write(self, data: bytes) -> int:
                return real.write(data[:3])  # type: ignore[union-attr]

            def close(self) -> None:
                real.close()  # type: ignore[union-attr]

        metrics._file = Slow()  # type: ignore[assignment]
        metrics.write({"step": 0, "loss": 0.5})
    assert read(path) == [{"step": 0, "loss": 0.5}]


def test_without_a_file_and_a_folder_nothing_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write(None, run_of(range(3)))
    assert os.listdir(tmp_path) == []


def curves(folder: Path) -> dict[str, list[tuple[int, float]]]:
    """What TensorBoard shows of a folder; of a curve that a restart purged it keeps the name."""
    shown = EventAccumulator(str(folder)).Reload()
    all_ = {tag: [(event.step, event.value) for event in shown.Scalars(tag)] for tag in shown.Tags()["scalars"]}
    return {tag: curve for tag, curve in all_.items() if curve}


def test_tensorboard_shows_one_curve_over_restarts(tmp_path: Path) -> None:
    path, board = tmp_path / "curve.jsonl", tmp_path / "board"
    write(path, run_of(range(6)), board=board)
    write(path, run_of(range(4, 8), loss=0.5), first_step=4, board=board)
    rows, shown = [*run_of(range(4)), *run_of(range(4, 8), loss=0.5)], curves(board)
    assert read(path) == rows
    assert shown.keys() == {"loss", "sent/dp", "sent/tp", "evaluation_loss"}
    for tag in ("loss", "evaluation_loss"):
        wanted = [(row["step"], row[tag]) for row in rows if tag in row]
        assert [step for step, _ in shown[tag]] == [step for step, _ in wanted]
        assert [value for _, value in shown[tag]] == pytest.approx([value for _, value in wanted], rel=1e-6)
    assert shown["sent/dp"] == [(step, step) for step in range(8)]


def test_tensorboard_begins_anew_with_a_fresh_run_and_leaves_out_what_is_none(tmp_path: Path) -> None:
    write(None, run_of(range(6)), board=tmp_path)
    write(None, [{"step": 0, "loss": 4.0, "mfu": None, "updated": True}, {"step": 1, "loss": math.inf}], board=tmp_path)
    assert curves(tmp_path) == {"loss": [(0, 4.0), (1, math.inf)], "updated": [(0, 1.0)]}


def test_tensorboard_groups_by_every_dict_around_a_number(tmp_path: Path) -> None:
    write(None, [{"step": 2, "norm": {"blocks": {"0": 1.0, "step": 3.0}}}], board=tmp_path)
    assert curves(tmp_path) == {"norm/blocks/0": [(2, 1.0)], "norm/blocks/step": [(2, 3.0)]}


def test_without_tensorboard_only_who_asks_for_it_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    path = tmp_path / "curve.jsonl"
    write(path, run_of(range(2)))
    with pytest.raises(ValueError, match=r"not installed here; pip install 'minipar\[tensorboard\]'"):
        Metrics(path, tmp_path / "board", 0)
    assert read(path) == run_of(range(2)), "the file is not begun anew"
