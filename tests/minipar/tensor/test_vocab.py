"""The split vocabulary gives what PyTorch's own embedding, linear and cross-entropy give on the whole."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

import minipar
from minipar import Mesh
from minipar.manifest import gather, manifest
from minipar.mesh import Axis
from minipar.tensor import VocabParallelEmbedding, VocabParallelHead, vocab_parallel_cross_entropy
from tests.minipar.equality import assert_close, few

SIZES = [3, 13, 16, 256]
HIDDEN = 4


def drawn(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def through(vocabulary: int, tokens: Tensor, options: dict[str, Any], axis: Axis | None = None) -> list[Tensor]:
    """Embedding, head and loss: the loss and the unsplit gradients of both weights; unsplit with PyTorch's own."""
    table, rows = drawn(vocabulary, HIDDEN), drawn(vocabulary, HIDDEN, seed=1)
    targets = tokens.flip(1)
    if axis is None:
        table.requires_grad_()
        rows.requires_grad_()
        logits = F.linear(F.embedding(tokens, table), rows)
        loss = F.cross_entropy(logits.flatten(0, 1), targets.flatten(), **options)
        loss.backward()
        return [loss.detach(), table.grad, rows.grad]
    embedding, head = VocabParallelEmbedding(table, axis), VocabParallelHead(rows, axis)
    loss = vocab_parallel_cross_entropy(head(embedding(tokens)), targets, axis, vocabulary, **options)
    loss.backward()
    both = torch.nn.ModuleDict({"table": embedding, "rows": head})
    named = ((name, p.grad) for name, p in both.named_parameters())
    return [loss.detach(), *gather(named, manifest(both), axis).values()]


@pytest.mark.parametrize("tp", [1, 2, 4])
def test_every_vocabulary_equals_the_whole_one_in_loss_and_gradients(tp: int) -> None:
    options = [{}, {"ignore_index": 2}, {"label_smoothing": 0.1}, {"ignore_index": 1, "label_smoothing": 0.3}]
    cases = [(v, torch.arange(12).reshape(3, 4) % v, o) for v in SIZES for o in options]
    on_rank = lambda: [through(*case, Mesh(tp=tp).tp) for case in cases]  # noqa: E731
    for results in minipar.run(on_rank, tp, timeout=30, device="cpu"):
        for ours, case in zip(results, cases, strict=True):
            assert_close(ours, through(*case))


@few
@given(st.integers(2, 40), st.lists(st.integers(0, 10**6), min_size=1, max_size=9), st.floats(0, 0.9))
def test_any_vocabulary_tokens_and_smoothing(vocabulary: int, numbers: list[int], smoothing: float) -> None:
    case = vocabulary, torch.tensor([numbers]) % vocabulary, {"label_smoothing": smoothing}
    for ours in minipar.run(lambda: through(*case, Mesh(tp=4).tp), 4, timeout=30, device="cpu"):
        assert_close(ours, through(*case))


def loss_of(logits: Tensor, targets: Tensor, tp: int, **options: Any) -> list[Tensor]:
    """The loss on each rank of whole logits that are cut there, padded with what must not matter."""

    def on_rank() -> Tensor:
        axis = Mesh(tp=tp).tp
        run = -(-logits.shape[-1] // tp)
        padded = F.pad(logits, (0, run * tp - logits.shape[-1]), value=1e9)
        mine = padded[..., axis.rank * run : (axis.rank + 1) * run]
        return vocab_parallel_cross_entropy(mine, targets, axis, logits.shape[-1], **options)

    return minipar.run(on_rank, tp, timeout=20, device="cpu")


def test_token_weights_give_the_weighted_mean() -> None:
    logits, targets, weights = drawn(5, 13), torch.tensor([1, 2, 3, 12, 0]), torch.tensor([1.0, 0, 2, 3, 0.5]).double()
    expected = (F.cross_entropy(logits, targets, reduction="none") * weights).sum() / weights.sum()
    assert_close(loss_of(logits, targets, 4, weights=weights), [expected] * 4)


def test_huge_logits_stay_finite_and_padding_never_counts() -> None:
    logits, targets = 1e4 * drawn(5, 13), torch.tensor([1, 2, 3, 12, 0])
    assert_close(loss_of(logits, targets, 4), [F.cross_entropy(logits, targets)] * 4)


def test_where_every_token_is_ignored_the_mean_of_nothing_is_not_a_number() -> None:
    targets = torch.full((5,), -100)
    assert F.cross_entropy(drawn(5, 13), targets).isnan()
    assert all(loss.isnan() for loss in loss_of(drawn(5, 13), targets, 2))


@pytest.mark.parametrize("columns", [13, 16, 3])
def test_logits_that_are_not_one_ranks_run_are_refused_before_anything_is_sent(columns: int) -> None:
    """Megatron-LM#7452: gathered logits make the loss larger by log(tp)."""

    def on_rank() -> tuple[str, int]:
        mesh = Mesh(tp=4)
        with pytest.raises(ValueError, match="Are they gathered already") as error:
            vocab_parallel_cross_entropy(drawn(2, columns), torch.zeros(2, dtype=torch.long), mesh.tp, 13)
        return str(error.value), len(mesh.ledger.rows())

    for said, rows in minipar.run(on_rank, 4, timeout=20, device="cpu"):
        assert f"logits have {columns} columns" in said
        assert rows == 0


@pytest.mark.parametrize("token", [-1, 13, 15])
def test_a_token_outside_the_vocabulary_is_refused(token: int) -> None:
    def on_rank() -> None:
        embedding = VocabParallelEmbedding(drawn(13, HIDDEN), Mesh(tp=4).tp)
        with pytest.raises(IndexError, match="outside the vocabulary of 13"):
            embedding(torch.tensor([[0, token]]))

    minipar.run(on_rank, 4, timeout=20, device="cpu")


def test_padding_is_zero_gets_no_gradient_and_is_not_in_the_whole() -> None:
    def on_rank() -> tuple[Tensor, Tensor, dict[str, Tensor]]:
        axis = Mesh(tp=4).tp
        head = VocabParallelHead(drawn(13, HIDDEN), axis)
        targets = torch.tensor([[1, 5, 12]])
        vocab_parallel_cross_entropy(head(drawn(1, 3, HIDDEN)), targets, axis, 13).backward()
        return head.weight.detach(), head.weight.grad, gather(head.named_parameters(), manifest(head), axis)

    weight, gradient, whole = minipar.run(on_rank, 4, timeout=20, device="cpu")[3]
    assert weight.shape == (4, HIDDEN)
    assert not weight[1:].any()
    assert not gradient[1:].any()
    assert gradient[0].any()
    assert torch.equal(whole["weight"], drawn(13, HIDDEN))
