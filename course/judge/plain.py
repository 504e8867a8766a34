"""Values as bytes: numbers, texts, lists and tensors, and nothing else. Reading them never runs code."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import torch
from torch import Tensor

from minipar.words import _

MOST_BYTES = 256 << 20  # of one message
MOST_DEPTH = 32  # lists within lists
MOST_DIMS = 16
DTYPES = {
    str(dtype).removeprefix("torch."): dtype
    for dtype in (
        *(torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64),
        *(torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.complex64, torch.complex128),
    )
}
SIZES = {name: torch.empty(0, dtype=dtype).element_size() for name, dtype in DTYPES.items()}


@dataclass(frozen=True)
class Part:
    """Stands for a part of the mesh among a function's arguments; each rank puts its own in its place."""

    name: Literal["mesh", "dp", "pp", "tp"]


@dataclass(frozen=True)
class Other:
    """Stands for a value that is none of those that can be sent: all that is known of it is its type's name."""

    kind: str


Plain: TypeAlias = Any  # None, bool, int, float, str, Tensor, Part, Other, and lists, tuples and dicts of these


def encode(value: Plain) -> bytes:
    """A value as bytes: the length of the header, the header in JSON, then the tensors' entries."""
    blobs: list[bytes] = []
    header = json.dumps(_node(value, blobs, 0)).encode()
    data = b"".join([len(header).to_bytes(8, "little"), header, *blobs])
    if len(data) > MOST_BYTES:
        raise ValueError(_("the result is {size} bytes; at most {most} fit").format(size=len(data), most=MOST_BYTES))
    return data


def _node(value: Plain, blobs: list[bytes], depth: int) -> list[Any]:
    if depth > MOST_DEPTH:
        raise ValueError(_("the result has lists within lists, more than {most} deep").format(most=MOST_DEPTH))
    if value is None or isinstance(value, (bool, str)):
        return ["is", value]
    if isinstance(value, int):
        return ["int", hex(value)]
    if isinstance(value, float):
        return ["float", value.hex()]
    if isinstance(value, (list, tuple)):
        kind = "tuple" if isinstance(value, tuple) else "list"
        return [kind, [_node(item, blobs, depth + 1) for item in value]]
    if isinstance(value, dict):
        return ["dict", [[_node(k, blobs, depth + 1), _node(v, blobs, depth + 1)] for k, v in value.items()]]
    if isinstance(value, Part):
        return ["part", value.name]
    if isinstance(value, Tensor) and (entries := _entries(value)) is not None:
        blobs.append(entries)
        return ["tensor", str(value.dtype).removeprefix("torch."), list(value.shape), len(entries)]
    return ["other", value.kind if isinstance(value, Other) else type(value).__name__]


def _entries(tensor: Tensor) -> bytes | None:
    """A tensor's entries in row-major order; None for a tensor that has no plain ones (sparse, quantized, meta)."""
    if str(tensor.dtype).removeprefix("torch.") not in DTYPES or tensor.layout is not torch.strided or tensor.is_meta:
        return None
    flat = tensor.detach().resolve_conj().resolve_neg().cpu().contiguous().reshape(-1)
    return bytes(flat.view(torch.uint8).numpy().tobytes())


def decode(data: bytes) -> Plain:
    """The value of `encode`; `ValueError` for bytes that it never writes."""
    if not 8 <= len(data) <= MOST_BYTES:
        raise ValueError(f"a message of {len(data)} bytes")
    end = 8 + int.from_bytes(data[:8], "little")
    try:
        reader = _Reader(data, end)
        value = reader.value(json.loads(data[8:end].decode("ascii")), 0)
    except (ValueError, TypeError, KeyError, IndexError, OverflowError, RecursionError, RuntimeError) as error:
        raise ValueError(f"a message that cannot be read: {error}") from None
    if reader.at != len(data):
        raise ValueError(f"a message of {len(data)} bytes, of which {reader.at} were announced")
    return value


class _Reader:
    """Reads nodes; `at` is where the next tensor's entries begin."""

    def __init__(self, data: bytes, at: int) -> None:
        self.data, self.at = data, at

    def value(self, node: Any, depth: int) -> Plain:
        if depth > MOST_DEPTH or not isinstance(node, list):
            raise ValueError("no node")
        kind, *rest = node
        if kind == "tensor":
            return self.tensor(*rest)
        (content,) = rest
        if kind == "is" and (content is None or isinstance(content, (bool, str))):
            return content
        if kind == "int":
            return int(content, 16)
        if kind == "float":
            return float.fromhex(content)
        if kind in ("list", "tuple"):
            items = [self.value(item, depth + 1) for item in content]
            return items if kind == "list" else tuple(items)
        if kind == "dict":
            return {self.value(k, depth + 1): self.value(v, depth + 1) for k, v in content}
        if kind == "part" and content in ("mesh", "dp", "pp", "tp"):
            return Part(content)
        if kind == "other" and isinstance(content, str):
            return Other(content[:100])
        raise ValueError("an unknown node")

    def tensor(self, dtype: str, shape: list[int], size: int) -> Tensor:
        whole = all(type(n) is int and n >= 0 for n in [*shape, size])
        if not whole or len(shape) > MOST_DIMS or math.prod(shape) * SIZES[dtype] != size:
            raise ValueError("a tensor whose size is not its shape's")
        entries = self.data[self.at : self.at + size]
        if len(entries) != size:
            raise ValueError("a tensor that is cut off")
        self.at += size
        if size == 0:
            return torch.empty(shape, dtype=DTYPES[dtype])
        return torch.frombuffer(bytearray(entries), dtype=DTYPES[dtype]).reshape(shape)
