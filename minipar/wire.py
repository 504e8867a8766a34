"""Messages between stages: tuples of tensors in order, with their shapes announced whenever those change.

A receiver cannot see what is on its way: with gloo a wrong shape is silent garbage or an abort. So the tensors of a
message travel in one buffer behind a header, whose size both ends know from the message before; when shapes, types
or whether a gradient is to come back change, the header says so, and a description follows. Sends never block:
gloo's own thread carries them while the sender computes, and what is sent is a copy, so that the sender can free
its tensors at once.
"""

from __future__ import annotations

import ctypes
import pickle
import time
from collections import deque
from collections.abc import Hashable, Iterable
from typing import NamedTuple

import torch
import torch.distributed as dist
from torch import Tensor

from minipar.links import hold
from minipar.mesh import Axis

ALIGNMENT = 64  # bytes; every type of tensor may start at a multiple of it
Header = ctypes.c_int64 * 3  # length of the description that follows, messages received so far, when sent in ns
HEADER_SIZE = ALIGNMENT


class Description(NamedTuple):
    """What a receiver must know of one tensor before it arrives."""

    shape: torch.Size
    dtype: torch.dtype
    requires_grad: bool


Descriptions = tuple[Description, ...]


def describe(tensors: tuple[Tensor, ...]) -> Descriptions:
    """What the receiver of `tensors` must know."""
    return tuple(Description(t.shape, t.dtype, t.requires_grad) for t in tensors)


class Layout:
    """Where a message's header and its tensors lie in its buffer."""

    def __init__(self, descriptions: Descriptions) -> None:
        self.descriptions = descriptions
        self.bytes = 0
        self.size = HEADER_SIZE
        self.places: list[tuple[torch.dtype, torch.Size, tuple[int, ...], int]] = []
        for shape, dtype, _ in descriptions:
            strides = torch.empty(shape, device="meta").stride()
            self.places.append((dtype, shape, strides, self.size // dtype.itemsize))
            length = shape.numel() * dtype.itemsize
            self.bytes += length
            self.size = -(-(self.size + length) // ALIGNMENT) * ALIGNMENT

    def tensors(self, buffer: Tensor) -> list[Tensor]:
        """The tensors in `buffer`, which they share."""
        return [buffer.view(dtype).as_strided(shape, strides, offset) for dtype, shape, strides, offset in self.places]

    def buffer(self) -> Tensor:
        """Room for one message, in host memory."""
        return torch.empty(self.size, dtype=torch.uint8)


EMPTY = Layout(())


def _header(buffer: Tensor) -> ctypes.Array[ctypes.c_int64]:
    """The header's numbers in a buffer, straight in its memory: a tensor operation would take longer than a message."""
    return Header.from_address(buffer.data_ptr())


class Line:
    """Both directions between this rank and the one with index `peer` on `axis`, for as many steps as there are.

    Messages are received in the order in which they were sent. Each has a kind (any value that both ends know),
    and a line remembers how the last message of each kind looked: only when that changes is it said.
    """

    def __init__(self, axis: Axis, peer: int) -> None:
        self.axis, self.peer = axis, axis.ranks[peer]
        self._sent_as: dict[Hashable, Layout] = {}
        self._received_as: dict[Hashable, Layout] = {}
        self._coming: deque[Hashable] = deque()
        self._sent: deque[tuple[dist.Work, Tensor]] = deque()
        self._received = self._delivered = 0

    def expect(self, kinds: Iterable[Hashable]) -> None:
        """Say of what kinds the messages are that will arrive, in order."""
        self._coming.extend(kinds)

    def send(self, kind: Hashable, tensors: tuple[Tensor, ...]) -> None:
        """Start sending a copy of `tensors`, and return at once."""
        described = describe(tensors)
        layout = self._sent_as.get(kind, EMPTY)
        if described != layout.descriptions:
            text = torch.frombuffer(bytearray(pickle.dumps(described)), dtype=torch.uint8)
            # The receiver expects a message like the last one: send one as large, which says what follows.
            self._put(layout.buffer(), len(text))
            self._start(text)
            layout = self._sent_as[kind] = Layout(described)
        self.axis.ledger.record("send", self.axis, layout.bytes)
        buffer = layout.buffer()
        for place, tensor in zip(layout.tensors(buffer), tensors, strict=True):
            place.copy_(tensor.detach() if tensor.requires_grad else tensor)
        self._put(buffer, 0)

    def _put(self, buffer: Tensor, following: int) -> None:
        _header(buffer)[:] = [following, self._received, time.perf_counter_ns()]
        self._start(buffer)

    def _start(self, buffer: Tensor) -> None:
        work = dist.isend(buffer, self.peer, group=self.axis.group)
        assert work is not None, "a rank outside the group tried to send"
        self._sent.append((work, buffer))

    @property
    def waiting(self) -> int:
        """How many copies are kept, because it is not known that they have arrived."""
        return len(self._sent)

    def flush(self) -> None:
        """Wait until everything has been handed over."""
        while self._sent:
            self._forget()

    def receive(self) -> tuple[Tensor, ...]:
        """The next message's tensors, on this rank's device, once they are here; `ValueError` where none is to come."""
        if not self._coming:
            raise ValueError(f"rank {self.peer} sends no more messages")
        self._post()
        following, delivered, sent = self._read_header()
        if following:
            text = torch.empty(following, dtype=torch.uint8)
            self._receive(text)
            self._wait()
            self._received_as[self._coming[0]] = Layout(pickle.loads(text.numpy().tobytes()))
            self._post()
            _, delivered, sent = self._read_header()
        while self._delivered < delivered:  # to wait for what has arrived takes no time
            self._forget()
        layout, buffer = self._received_as.get(self._coming.popleft(), EMPTY), self._buffer
        del self._buffer, self._work  # what has arrived belongs to the caller alone
        if self.axis.links is not None:
            link = self.axis.links.of(self.peer, self.axis.ranks[self.axis.rank])
            hold(sent / 1e9, link.seconds(layout.bytes))
        tensors = layout.tensors(buffer)
        device = self.axis.placement.device
        if device.type != "cpu":
            tensors = [tensor.to(device) for tensor in tensors]
        for tensor, described in zip(tensors, layout.descriptions, strict=True):
            if described.requires_grad:
                tensor.requires_grad_()
        return tuple(tensors)

    def _forget(self) -> None:
        self._sent.popleft()[0].wait()
        self._delivered += 1

    def _post(self) -> None:
        if self._coming:
            self._buffer = self._received_as.get(self._coming[0], EMPTY).buffer()
            self._receive(self._buffer)

    def _receive(self, buffer: Tensor) -> None:
        work = dist.irecv(buffer, self.peer, group=self.axis.group)
        assert work is not None, "a rank outside the group tried to receive"
        self._work = work

    def _read_header(self) -> list[int]:
        self._wait()
        return list(_header(self._buffer))

    def _wait(self) -> None:
        self._work.wait()
        self._received += 1
