"""Messages between stages: tuples of tensors in order, with their shapes announced whenever those change.

A receiver cannot see what is on its way: with gloo a wrong shape is silent garbage or an abort. So the tensors of a
message travel in one buffer behind a header, whose size both ends know from the message before; when shapes, types
or whether a gradient is to come back change, the header says so, and a description follows. Sends never block:
gloo's own thread carries them while the sender computes, and what is sent is a copy, so that the sender can free
its tensors at once.
"""

from __future__ import annotations

import pickle
import time
from collections import deque
from typing import NamedTuple

import torch
import torch.distributed as dist
from torch import Tensor

from minipar.links import hold
from minipar.mesh import Axis

ALIGNMENT = 64  # bytes; every type of tensor may start at a multiple of it
HEADER = 3  # numbers: length of the description that follows, messages received so far, when this was sent in ns


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
        self.places: list[tuple[int, int]] = []
        self.size = _aligned(8 * HEADER)
        self.bytes = 0
        for shape, dtype, _ in descriptions:
            end = self.size + shape.numel() * dtype.itemsize
            self.bytes += end - self.size
            self.places.append((self.size, end))
            self.size = _aligned(end)

    def tensors(self, buffer: Tensor) -> tuple[Tensor, ...]:
        """The tensors in `buffer`, which they share."""
        return tuple(
            buffer[start:end].view(d.dtype).view(d.shape)
            for (start, end), d in zip(self.places, self.descriptions, strict=True)
        )

    def buffer(self) -> Tensor:
        """Room for one message, in host memory."""
        return torch.empty(self.size, dtype=torch.uint8)


def _aligned(size: int) -> int:
    return -(-size // ALIGNMENT) * ALIGNMENT


def _header(buffer: Tensor) -> Tensor:
    return buffer[: 8 * HEADER].view(torch.int64)


class Line:
    """Both directions between this rank and the one with index `peer` on `axis`.

    `count` is how many messages will arrive. The next one's receive is always posted, so that it can arrive while
    this rank computes; messages are received in the order in which they were sent.
    """

    def __init__(self, axis: Axis, peer: int, count: int) -> None:
        self.axis, self.peer, self.left, self.received = axis, axis.ranks[peer], count, 0
        self._sent_as = self._received_as = Layout(())
        self._sent: deque[tuple[dist.Work, Tensor]] = deque()
        self._delivered = 0
        self._post()

    def send(self, tensors: tuple[Tensor, ...]) -> None:
        """Start sending a copy of `tensors`, and return at once."""
        described = describe(tensors)
        if described != self._sent_as.descriptions:
            text = torch.frombuffer(bytearray(pickle.dumps(described)), dtype=torch.uint8)
            # The receiver has already posted a message like the last one: fill that, and say what follows.
            self._put(self._sent_as.buffer(), len(text))
            self._start(text)
            self._sent_as = Layout(described)
        self.axis.ledger.record("send", self.axis, self._sent_as.bytes)
        buffer = self._sent_as.buffer()
        for place, tensor in zip(self._sent_as.tensors(buffer), tensors, strict=True):
            place.copy_(tensor.detach())
        self._put(buffer, 0)

    def _put(self, buffer: Tensor, following: int) -> None:
        _header(buffer).copy_(torch.tensor([following, self.received, time.perf_counter_ns()]))
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
            self._sent.popleft()[0].wait()

    def receive(self) -> tuple[Tensor, ...]:
        """The next message's tensors, on this rank's device, once they are here; `ValueError` where none is to come."""
        if self.left < 1:
            raise ValueError(f"rank {self.peer} sends no more messages")
        following, delivered, sent = self._read_header()
        if following:
            text = torch.empty(following, dtype=torch.uint8)
            self._receive(text)
            self._wait()
            self._received_as = Layout(pickle.loads(bytes(text.tolist())))
            self._post()
            _, delivered, sent = self._read_header()
        self._free(delivered)
        layout, buffer = self._received_as, self._buffer
        if self.axis.links is not None:
            link = self.axis.links.of(self.peer, self.axis.ranks[self.axis.rank])
            hold(sent / 1e9, link.seconds(layout.bytes))
        self.left -= 1
        self._post()
        device = self.axis.placement.device
        tensors = zip(layout.tensors(buffer), layout.descriptions, strict=True)
        return tuple(t.to(device).requires_grad_(d.requires_grad) for t, d in tensors)

    def _free(self, delivered: int) -> None:
        """Forget what the peer says it has received: to wait for that takes no time."""
        while self._delivered < delivered:
            self._sent.popleft()[0].wait()
            self._delivered += 1

    def _post(self) -> None:
        if self.left > 0:
            self._buffer = self._received_as.buffer()
            self._receive(self._buffer)

    def _receive(self, buffer: Tensor) -> None:
        work = dist.irecv(buffer, self.peer, group=self.axis.group)
        assert work is not None, "a rank outside the group tried to receive"
        self._work = work

    def _read_header(self) -> list[int]:
        self._wait()
        numbers: list[int] = _header(self._buffer).tolist()
        return numbers

    def _wait(self) -> None:
        self._work.wait()
        self.received += 1
