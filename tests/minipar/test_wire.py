from __future__ import annotations

import time
from typing import NamedTuple

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

import minipar
from minipar import Mesh
from minipar.links import Link, Links
from minipar.mesh import Axis
from minipar.wire import Line
from tests.minipar.equality import few

Message = tuple[Tensor, ...]


def line_of(axis: Axis, count: int) -> Line:
    """A line to the other of two ranks that expects so many messages, all of one kind."""
    line = Line(axis, 1 - axis.rank)
    line.expect([0] * count)
    return line


def exchange(messages: list[Message]) -> None:
    """Two ranks send each other these messages, both first sending all; they arrive as they left, in order."""

    def on_rank() -> list[Message]:
        axis = Mesh(pp=2).pp
        line = line_of(axis, len(messages))
        for message in messages:
            line.send(0, message)
        arrived = [line.receive() for _ in messages]
        line.flush()
        return arrived

    for arrived in minipar.run(on_rank, 2, timeout=20, device="cpu"):
        for received, sent in zip(arrived, messages, strict=True):
            assert_same(received, sent)


def assert_same(received: Message, sent: Message) -> None:
    assert len(received) == len(sent)
    for ours, theirs in zip(received, sent, strict=True):
        assert ours.dtype == theirs.dtype
        assert ours.requires_grad == theirs.requires_grad
        assert torch.equal(ours, theirs)


MIXED = (
    torch.linspace(-1, 1, 12).reshape(3, 4).requires_grad_(),
    torch.tensor([[True, False], [False, True]]),
    torch.tensor([2**62, -1, 0]),
    torch.full((2, 1, 2), torch.pi, dtype=torch.float64),
    torch.arange(6).bfloat16().requires_grad_(),
)


def test_a_tuple_of_all_kinds_arrives_as_it_left() -> None:
    exchange([MIXED])


def test_shapes_dtypes_and_lengths_may_change_between_messages() -> None:
    a, b = torch.ones(2, 3), torch.arange(4)
    messages = [
        (a,),
        (a,),
        (a.T,),
        (a.double(),),
        (a, b),
        (b, a),
        (a[:, :0],),
        (),
        (),
        (a,),
        (a.clone().requires_grad_(),),
    ]
    exchange(messages)


def test_nothing_at_all_is_a_message_too() -> None:
    exchange([(), (), (torch.empty(0, 5, requires_grad=True),)])


def test_both_sides_may_first_send_eight_megabytes() -> None:
    def on_rank() -> bool:
        axis = Mesh(pp=2).pp
        line = line_of(axis, 2)
        large = torch.arange(1 << 20, dtype=torch.float64)
        for i in (0, 1):
            line.send(0, (large + i,))
        right = [torch.equal(line.receive()[0], large + i) for i in (0, 1)]
        line.flush()
        return all(right)

    assert minipar.run(on_rank, 2, timeout=20) == [True, True]


def test_what_arrives_is_a_leaf_without_the_senders_graph() -> None:
    def on_rank() -> tuple[bool, bool, list[float]]:
        axis = Mesh(pp=2).pp
        line = line_of(axis, 1)
        weight = torch.ones(2, requires_grad=True)
        line.send(0, (weight * 3,))
        [x] = line.receive()
        (x * x).sum().backward()
        line.flush()
        return x.is_leaf, weight.grad is None, x.grad.tolist()

    assert minipar.run(on_rank, 2, timeout=20) == [(True, True, [6.0, 6.0])] * 2


def test_what_is_sent_may_be_changed_at_once() -> None:
    def on_rank() -> float:
        axis = Mesh(pp=2).pp
        line, x = line_of(axis, 1), torch.full((1 << 20,), 7.0)
        line.send(0, (x,))
        x.zero_()
        [arrived] = line.receive()
        line.flush()
        return arrived.mean().item()

    assert minipar.run(on_rank, 2, timeout=20) == [7.0, 7.0]


def test_more_messages_than_were_announced_are_not_waited_for() -> None:
    def on_rank() -> str:
        axis = Mesh(pp=2).pp
        with pytest.raises(ValueError, match=f"rank {1 - axis.rank} sends no more messages") as error:
            line_of(axis, 0).receive()
        return str(error.value)

    assert len(minipar.run(on_rank, 2, timeout=20)) == 2


def test_the_ledger_counts_the_tensors_of_each_message() -> None:
    def on_rank() -> list[tuple]:
        mesh = Mesh(pp=2)
        line = line_of(mesh.pp, 2)
        line.send(0, (torch.zeros(3), torch.zeros(2, dtype=torch.int64)))
        line.send(0, ())
        assert [len(line.receive()) for _ in range(2)] == [2, 0]
        line.flush()
        return mesh.ledger.rows()

    assert minipar.run(on_rank, 2, timeout=20) == [[("send", "pp", 2, 2, 3 * 4 + 2 * 8)]] * 2


def test_copies_are_freed_when_an_answer_says_that_they_have_arrived() -> None:
    def on_rank() -> list[int]:
        axis = Mesh(pp=2).pp
        line, waiting = line_of(axis, 20), []
        for i in range(20):  # to and fro: each message answers the other's last
            if axis.rank == 0:
                line.send(0, (torch.ones(100) * i,))
                line.receive()
            else:
                line.receive()
                line.send(0, (torch.ones(100) * i,))
            waiting.append(line.waiting)
        line.flush()
        return [*waiting, line.waiting]

    for waiting in minipar.run(on_rank, 2, timeout=20):
        assert max(waiting) <= 3  # and not 20
        assert waiting[-1] == 0


def test_an_emulated_link_takes_its_latency_and_its_bandwidth() -> None:
    def on_rank() -> float:
        slow = Link(latency=0.05, bandwidth=8e6)
        axis = Mesh(pp=2, links=Links(inside=Link(0, 1e12), between=slow, ranks_per_node=1)).pp
        line = line_of(axis, 2)
        for _ in range(2):  # the first one also says what it is
            minipar.comm.barrier(axis)
            began = time.perf_counter()
            line.send(0, (torch.zeros(100_000),))
            line.receive()
        took = time.perf_counter() - began
        line.flush()
        return took

    for took in minipar.run(on_rank, 2, timeout=20, device="cpu"):
        assert 0.09 <= took < 0.4  # the barrier lets one go a little earlier; 50 ms and 400,000 bytes at 8 MB/s


class Kind(NamedTuple):
    shape: tuple[int, ...]
    dtype: torch.dtype
    requires_grad: bool

    def tensor(self) -> Tensor:
        tensor = torch.arange(torch.Size(self.shape).numel()).reshape(self.shape).to(self.dtype)
        return tensor.requires_grad_(self.requires_grad and self.dtype.is_floating_point)


kinds = st.builds(
    Kind,
    st.lists(st.integers(0, 4), max_size=3).map(tuple),
    st.sampled_from(
        [torch.float32, torch.float64, torch.bfloat16, torch.float16, torch.bool, torch.int64, torch.uint8]
    ),
    st.booleans(),
)
messages = st.lists(st.lists(kinds, max_size=4), min_size=1, max_size=8)


@few
@given(messages)
def test_any_messages(messages: list[list[Kind]]) -> None:
    exchange([tuple(kind.tensor() for kind in message) for message in messages])
