"""The curve of a run: a JSON line for each record, clean however often the run was restarted; TensorBoard if asked."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from io import FileIO
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from torch.utils.tensorboard import SummaryWriter

Value: TypeAlias = "float | int | Mapping[str, Value] | None"

NOT_FINITE = "not_finite"  # the key beside a record's own


class Metrics:
    """Writes the records of a run to a file and to TensorBoard's folder, whichever is given; for one rank only.

    A line is a JSON object, ``{"step": 3, "loss": 2.5, …}``. A float stands there with all its digits, so that curves
    can be compared bitwise. JSON has no NaN and no infinity: such a value is null, and ``"not_finite"`` says what it
    was, ``{"step": 3, "loss": null, "not_finite": {"loss": "nan"}}``; `read` puts it back. TensorBoard keeps float32.

    first_step: the step that the run begins with. At 0 the file begins anew. Otherwise it goes on: lines of that step
    and later ones, which will come again, are dropped, and so is a last line that was cut off in the writing.

    Raises `ValueError` for what cannot be written, for a file with a line that is no record, and where TensorBoard is
    not installed.
    """

    def __init__(self, path: Path | None, tensorboard: Path | None, first_step: int) -> None:
        if first_step < 0:
            raise ValueError(f"first_step={first_step}; it must be at least 0")
        self.path, self.folder = path, tensorboard
        self.closed = False
        self._file: FileIO | None = None
        self._writer = None if tensorboard is None else _summary_writer(tensorboard, first_step)
        try:
            self._file = None if path is None else _opened(path, first_step)
        except ValueError:
            self.close()
            raise

    def write(self, record: Mapping[str, Value]) -> None:
        """Append a line, at once, and give TensorBoard its numbers; those of a dict ``a`` are called ``a/b``.

        Raises `ValueError` for a record without a step or with a value that is none of the allowed ones, and where
        the disk takes no more; what it took then is a line cut off, and the metrics are closed.
        """
        if self.closed:
            raise ValueError("these metrics are closed")
        step = record.get("step")
        if type(step) is not int or step < 0:
            raise ValueError(f"a record has a step, a number from 0 on; this one's is {step!r}")
        values, others = _finite(record)
        line = json.dumps({**values, NOT_FINITE: others} if others else values, allow_nan=False) + "\n"
        try:
            if self.path is not None and self._file is not None:
                with _clear("metrics file", self.path):
                    _write_all(self._file, line.encode())
            if self.folder is not None and self._writer is not None:
                with _clear("TensorBoard folder", self.folder):
                    for name, value in _scalars(record):
                        self._writer.add_scalar(name, value, step)
        except ValueError:
            self.close()
            raise

    def close(self) -> None:
        """Close both; again is nothing."""
        if not self.closed:
            self.closed = True
            if self._file is not None:
                self._file.close()
            if self._writer is not None and self.folder is not None:
                with _clear("TensorBoard folder", self.folder):
                    self._writer.close()

    def __enter__(self) -> Metrics:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()


def read(path: Path) -> list[dict[str, Any]]:
    """The records of a file, NaN and infinity put back; a last line that is still being written is left out.

    Raises `ValueError` for a file that cannot be read, and for a line that is no record.
    """
    return [_restored(record, record.pop(NOT_FINITE, {})) for _, record in _records(path)]


def _records(path: Path) -> list[tuple[bytes, dict[str, Any]]]:
    """Each whole line as it stands in the file, and what it says."""
    try:
        lines = path.read_bytes().splitlines(keepends=True)
    except OSError as error:
        raise ValueError(f"the metrics file {str(path)!r} cannot be read: {error.strerror}") from None
    found = []
    for number, line in enumerate(lines, 1):
        record = _parsed(line)
        if record is not None:
            found.append((line.rstrip(b"\n") + b"\n", record))
        elif line.endswith(b"\n"):
            raise ValueError(f"line {number} of the metrics file {str(path)!r} is no record: {line[:60]!r}")
    return found


def _parsed(line: bytes) -> dict[str, Any] | None:
    try:
        record = json.loads(line)
    except ValueError:
        return None
    return record if isinstance(record, dict) and type(record.get("step")) is int else None


def _opened(path: Path, first_step: int) -> FileIO:
    """The file to append to, without a buffer: what failed once is not tried again when it is closed."""
    if first_step and path.is_file():
        _keep_before(first_step, path)
    with _clear("metrics file", path):
        path.parent.mkdir(parents=True, exist_ok=True)
        if not first_step:
            open(path, "wb").close()
        return open(path, "ab", buffering=0)


def _keep_before(first_step: int, path: Path) -> None:
    """Drop later lines by putting a new file in the old one's place, so that at any moment one of them is whole."""
    kept = b"".join(line for line, record in _records(path) if record["step"] < first_step)
    with _clear("metrics file", path):
        path = path.resolve(strict=True)  # where a link leads to, the link stays
        new = path.with_name(path.name + ".new")
        with open(new, "wb") as file:
            file.write(kept)
            file.flush()
            os.fsync(file.fileno())
        os.replace(new, path)


def _write_all(file: FileIO, data: bytes) -> None:
    while data:
        data = data[file.write(data) :]


def _summary_writer(folder: Path, first_step: int) -> SummaryWriter:
    """TensorBoard's own; of earlier runs in the folder it will show the steps before the first one only."""
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        raise ValueError("TensorBoard is not installed here; pip install 'minipar[tensorboard]'") from None
    with _clear("TensorBoard folder", folder):
        return SummaryWriter(str(folder), purge_step=first_step, flush_secs=10)


@contextmanager
def _clear(what: str, where: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise ValueError(f"the {what} {str(where)!r} cannot be written: {error.strerror or error}") from None


def _finite(record: Mapping[str, Value]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The record as JSON can have it, and what its values are that JSON has no number for."""
    values: dict[str, Any] = {}
    others: dict[str, Any] = {}
    for name, value in record.items():
        if name == NOT_FINITE:
            raise ValueError(f"a record's value cannot be called {NOT_FINITE!r}: that says which ones JSON cannot hold")
        if isinstance(value, Mapping):
            values[name], inner = _finite(value)
            if inner:
                others[name] = inner
        elif value is None or isinstance(value, int) or (isinstance(value, float) and math.isfinite(value)):
            values[name] = value
        elif isinstance(value, float):
            values[name], others[name] = None, str(float(value))
        else:
            raise ValueError(f"the metric {name!r} is a {type(value).__name__}; it can be a number, None or a dict")
    return values, others


def _restored(values: dict[str, Any], others: Mapping[str, Any]) -> dict[str, Any]:
    for name, value in others.items():
        values[name] = _restored(values[name], value) if isinstance(value, dict) else float(value)
    return values


def _scalars(record: Mapping[str, Value], within: str = "") -> Iterator[tuple[str, float]]:
    """The numbers of a record but for its step, and their names."""
    for name, value in record.items():
        if isinstance(value, Mapping):
            yield from _scalars(value, f"{within}{name}/")
        elif value is not None and (within or name != "step"):
            yield within + name, value
