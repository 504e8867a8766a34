from __future__ import annotations

from typing import NamedTuple

import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

import minipar
from minipar import Mesh
from minipar.wire import Inbox, Outbox
from tests.minipar.equality import few

Message = tuple[Tensor, ...]


def exchange(lines: list[tuple[list[Message], list[int]]]) -> None:
    """Two ranks send each other the same messages, both first sending all; on each line they arrive as they left.

    A line is its messages and the order in which they are asked for.
    """

    def on_rank() -> list[list[Message]]:
        axis = Mesh(pp=2).pp
        other, arrived = 1 - axis.rank, []
        for line, (messages, order) in enumerate(lines):
            outbox, inbox = Outbox(axis, other, line), Inbox(axis, other, line, len(messages))
            for micro_batch, message in enumerate(messages):
                outbox.send(micro_batch, message)
            arrived.append([inbox.receive(micro_batch) for micro_batch in order])
            outbox.flush()
        return arrived

    for arrived in minipar.run(on_rank, 2, timeout=20, device="cpu"):
        for (messages, order), received in zip(lines, arrived, strict=True):
            for micro_batch, message in zip(order, received, strict=True):
                assert_same(message, messages[micro_batch])


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
    exchange([([MIXED], [0])])


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
    exchange([(messages, list(range(len(messages))))])


def test_nothing_at_all_is_a_message_too() -> None:
    exchange([([(), ()], [1, 0]), ([(torch.empty(0, 5, requires_grad=True),)], [0])])


def test_a_message_that_is_taken_late_is_still_what_was_sent() -> None:
    first, second = (torch.ones(2).requires_grad_(), torch.arange(3)), (torch.zeros(5),)
    exchange([([first, second, first], [2, 1, 0])])


def test_both_sides_may_first_send_eight_megabytes() -> None:
    def on_rank() -> bool:
        axis = Mesh(pp=2).pp
        outbox, inbox = Outbox(axis, 1 - axis.rank, 0), Inbox(axis, 1 - axis.rank, 0, 2)
        large = torch.arange(1 << 20, dtype=torch.float64)
        for micro_batch in (0, 1):
            outbox.send(micro_batch, (large + micro_batch,))
        right = [torch.equal(inbox.receive(micro_batch)[0], large + micro_batch) for micro_batch in (0, 1)]
        outbox.flush()
        return all(right)

    assert minipar.run(on_rank, 2, timeout=20) == [True, True]


def test_what_arrives_is_a_leaf_without_the_senders_graph() -> None:
    def on_rank() -> tuple[bool, bool, list[float]]:
        axis = Mesh(pp=2).pp
        outbox, inbox = Outbox(axis, 1 - axis.rank, 0), Inbox(axis, 1 - axis.rank, 0, 1)
        weight = torch.ones(2, requires_grad=True)
        outbox.send(0, (weight * 3,))
        [x] = inbox.receive(0)
        (x * x).sum().backward()
        outbox.flush()
        return x.is_leaf, weight.grad is None, x.grad.tolist()

    assert minipar.run(on_rank, 2, timeout=20) == [(True, True, [6.0, 6.0])] * 2


def test_the_ledger_counts_the_tensors_of_each_message() -> None:
    def on_rank() -> list[tuple]:
        mesh = Mesh(pp=2)
        outbox, inbox = Outbox(mesh.pp, 1 - mesh.pp.rank, 0), Inbox(mesh.pp, 1 - mesh.pp.rank, 0, 2)
        outbox.send(0, (torch.zeros(3), torch.zeros(2, dtype=torch.int64)))
        outbox.send(1, ())
        assert len(inbox.receive(1) + inbox.receive(0)) == 2
        outbox.flush()
        return mesh.ledger.rows()

    assert minipar.run(on_rank, 2, timeout=20) == [[("send", "pp", 2, 2, 3 * 4 + 2 * 8)]] * 2


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
messages = st.lists(st.lists(kinds, max_size=4), min_size=1, max_size=6)
line = messages.flatmap(lambda drawn: st.tuples(st.just(drawn), st.permutations(range(len(drawn)))))


@few
@given(st.lists(line, min_size=1, max_size=8))
def test_any_messages_in_any_order(lines: list[tuple[list[list[Kind]], list[int]]]) -> None:
    exchange([([tuple(kind.tensor() for kind in message) for message in line], order) for line, order in lines])
