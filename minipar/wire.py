"""Messages between stages: tuples of tensors in order, with their shapes announced whenever those change.

A receiver cannot see what is on its way: with gloo a wrong shape is silent garbage or an abort. So
every message starts with two numbers, its micro-batch and the length of a description that follows
only when the tensors differ from those of the message before (shape, dtype, whether a gradient is
to come back). Sends never block: gloo's own thread carries them while the sender computes.

Messages travel through host memory on every backend. NCCL runs the two directions of a pair of ranks
one after the other, so what is free of deadlock with gloo need not be with NCCL.
"""

from __future__ import annotations

import pickle
from typing import NamedTuple

import torch
import torch.distributed as dist
from torch import Tensor

from minipar.comm import size_of
from minipar.mesh import Axis


class Description(NamedTuple):
    """What a receiver must know of one tensor before it arrives."""

    shape: torch.Size
    dtype: torch.dtype
    requires_grad: bool

    def buffer(self) -> Tensor:
        """Room for such a tensor, in host memory."""
        return torch.empty(self.shape, dtype=self.dtype)


def describe(tensors: tuple[Tensor, ...]) -> tuple[Description, ...]:
    """What the receiver of `tensors` must know."""
    return tuple(Description(t.shape, t.dtype, t.requires_grad) for t in tensors)


class Outbox:
    """The sending end of a one-way line to the rank with index `to` on `axis`; `line` tells parallel lines apart."""

    def __init__(self, axis: Axis, to: int, line: int) -> None:
        self.axis, self.to, self.line = axis, axis.ranks[to], line
        self.known: tuple[Description, ...] | None = None
        self.pending: list[tuple[dist.Work, Tensor]] = []

    def send(self, micro_batch: int, tensors: tuple[Tensor, ...]) -> None:
        """Start sending `tensors` as the message of `micro_batch`, and return at once."""
        described = describe(tensors)
        text = b"" if described == self.known else pickle.dumps(described)
        self._put(torch.tensor([micro_batch, len(text)]))
        if text:
            # The receiver has already made room for tensors like the last ones: fill that room first.
            for old in self.known or ():
                self._put(old.buffer().zero_())
            self._put(torch.frombuffer(bytearray(text), dtype=torch.uint8))
            self.known = described
        self.axis.ledger.record("send", self.axis, sum(map(size_of, tensors)))
        for tensor in tensors:
            self._put(tensor.detach().cpu().contiguous())

    def _put(self, tensor: Tensor) -> None:
        self.pending = [(work, sent) for work, sent in self.pending if not work.is_completed()]
        work = dist.isend(tensor, self.to, group=self.axis.group, tag=self.line)
        assert work is not None, "a rank outside the group tried to send"
        self.pending.append((work, tensor))

    def flush(self) -> None:
        """Wait until everything has been handed over."""
        for work, _ in self.pending:
            work.wait()
        self.pending.clear()


class Inbox:
    """The receiving end of a line that will carry `count` messages from the rank with index `source` on `axis`."""

    def __init__(self, axis: Axis, source: int, line: int, count: int) -> None:
        self.axis, self.source, self.line, self.count = axis, axis.ranks[source], line, count
        self.known: tuple[Description, ...] = ()
        self.early: dict[int, tuple[tuple[Tensor, ...], tuple[Description, ...]]] = {}
        self._make_room()

    def receive(self, micro_batch: int) -> tuple[Tensor, ...]:
        """The tensors of `micro_batch`, on this rank's device; messages that come before it are kept."""
        while micro_batch not in self.early:
            number, tensors = self._next()
            self.early[number] = tensors, self.known
        described = zip(*self.early.pop(micro_batch), strict=True)
        device = self.axis.placement.device
        return tuple(tensor.to(device).requires_grad_(d.requires_grad) for tensor, d in described)

    def _next(self) -> tuple[int, tuple[Tensor, ...]]:
        if self.count < 0:
            raise ValueError(f"line {self.line} from rank {self.source} carries no more messages")
        self._wait()
        number, length = self.header.tolist()
        if length:
            text = self._get(torch.empty(length, dtype=torch.uint8))
            self._wait()
            self.known = pickle.loads(bytes(text.tolist()))
            self.room = tuple(self._get(d.buffer()) for d in self.known)
            self._wait()
        tensors = self.room
        self._make_room()
        return number, tensors

    def _make_room(self) -> None:
        """Post the next message's receives now, so that it can arrive while this rank computes."""
        self.waiting: list[dist.Work] = []
        self.count -= 1
        if self.count >= 0:
            self.header = self._get(torch.zeros(2, dtype=torch.int64))
            self.room = tuple(self._get(d.buffer()) for d in self.known)

    def _get(self, buffer: Tensor) -> Tensor:
        work = dist.irecv(buffer, self.source, group=self.axis.group, tag=self.line)
        assert work is not None, "a rank outside the group tried to receive"
        self.waiting.append(work)
        return buffer

    def _wait(self) -> None:
        for work in self.waiting:
            work.wait()
        self.waiting.clear()
