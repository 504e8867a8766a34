"""What travels between a notebook and its ranks: functions with their source, results without their GPU."""

from __future__ import annotations

import io
import linecache
import os
import pickle
import sys
from collections import ChainMap
from collections.abc import Callable
from types import CodeType
from typing import Any

import cloudpickle
import torch


class Carrier(cloudpickle.Pickler):  # type: ignore[misc]
    """A `cloudpickle.Pickler` that keeps what an error message needs, and moves tensors to the CPU.

    cloudpickle renames the file of a function that it sends by value, so a traceback could not
    show its lines. This pickler keeps the name, and gathers in `sources` the text of every file
    that exists only in memory, such as a notebook cell.
    """

    def __init__(self, file: io.BytesIO) -> None:
        self.sources: dict[str, list[str]] = {}
        # Set before the pickler starts, which is when it reads the table.
        self.dispatch_table = ChainMap({CodeType: self._reduce_code}, cloudpickle.Pickler.dispatch_table)
        super().__init__(file)

    def _reduce_code(self, code: CodeType) -> tuple[Callable[..., CodeType], tuple[Any, ...]]:
        make, fields = cloudpickle.Pickler.dispatch_table[CodeType](code)
        name = display_name(code.co_filename)
        if not os.path.exists(code.co_filename):
            self.sources[name] = linecache.getlines(code.co_filename)
        return _make_code, (make, fields, name)

    def reducer_override(self, value: Any) -> Any:
        """Send a tensor on a GPU as its copy on the CPU; leave everything else to cloudpickle."""
        if isinstance(value, torch.Tensor) and value.device.type not in ("cpu", "meta"):
            on_cpu: Any = value.detach().cpu().requires_grad_(value.requires_grad)
            return on_cpu.__reduce_ex__(pickle.HIGHEST_PROTOCOL)
        return super().reducer_override(value)


def _make_code(make: Callable[..., CodeType], fields: tuple[Any, ...], filename: str) -> CodeType:
    return make(*fields).replace(co_filename=filename)


def display_name(filename: str) -> str:
    """The name a person knows a source file by: ``Cell In[3]`` for a notebook's cell."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython else None
    label = shell.compile.format_code_name(filename) if shell else None
    return " ".join(label) if label else filename


def dumps(value: Any) -> bytes:
    """Pickle any value that cloudpickle can; tensors arrive on the CPU."""
    return pack(value)[0]


def pack(value: Any) -> tuple[bytes, dict[str, list[str]]]:
    """Pickle `value`; returns the bytes and the source lines that its functions need, by file name."""
    buffer = io.BytesIO()
    carrier = Carrier(buffer)
    carrier.dump(value)
    return buffer.getvalue(), carrier.sources


def unpack(data: bytes, sources: dict[str, list[str]]) -> Any:
    """Undo `pack`, and let `linecache` (hence every traceback) know the source lines."""
    for name, lines in sources.items():
        linecache.cache[name] = (sum(map(len, lines)), None, lines, name)
    return pickle.loads(data)
