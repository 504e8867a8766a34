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
    """Megatron-LM#1754, vllm#440."""
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


def loss_of(logits: Tensor, targets: Tensor, tp: int, options: list[dict[str, Any]]) -> list[tuple[Tensor, Tensor]]:
    """Loss and gradient, with each of the options, of whole logits cut over ranks, padded with what must not matter."""
    run = -(-logits.shape[-1] // tp)
    padding = run * tp - logits.shape[-1]

    def on_rank() -> list[tuple[Tensor, Tensor]]:
        axis, results = Mesh(tp=tp).tp, []
        padded = F.pad(logits, (0, padding), value=1e9)
        for option in options:
            mine = padded.chunk(tp, -1)[axis.rank].clone().requires_grad_()
            loss = vocab_parallel_cross_entropy(mine, targets, axis, logits.shape[-1], **option)
            loss.backward()
            results.append((loss.detach(), mine.grad))
        return results

    everyone, together = minipar.run(on_rank, tp, timeout=20, device="cpu"), []
    for i in range(len(options)):
        losses, gradients = zip(*(rank[i] for rank in everyone), strict=True)
        assert all(torch.equal(losses[0].nan_to_num(), loss.nan_to_num()) for loss in losses)
        whole, beyond = torch.cat(gradients, -1).split([logits.shape[-1], padding], -1)
        assert not beyond.any()
        together.append((losses[0], whole))
    return together


def plain(logits: Tensor, targets: Tensor, weights: Tensor | None = None, **options: Any) -> tuple[Tensor, Tensor]:
    """Loss and gradient of PyTorch's own."""
    leaf = logits.clone().requires_grad_()
    losses = F.cross_entropy(leaf, targets, **options, reduction="mean" if weights is None else "none")
    if weights is not None:
        weights = weights * (targets != options.get("ignore_index", -100))
        losses = (losses * weights).sum() / weights.sum()
    losses.backward()
    return losses.detach(), leaf.grad


TARGETS = torch.tensor([1, 2, 3, 12, 0])


def test_token_weights_give_the_weighted_mean() -> None:
    weights = torch.tensor([1.0, 0, 2, 3, 0.5]).double()
    options = [{"weights": weights}, {"weights": weights, "ignore_index": 3}]
    options += [{**option, "label_smoothing": 0.2} for option in options]
    logits = drawn(5, 13)
    for ours, option in zip(loss_of(logits, TARGETS, 4, options), options, strict=True):
        assert_close(ours, plain(logits, TARGETS, **option))


def test_huge_logits_stay_finite_and_padding_never_counts() -> None:
    logits = 1e4 * drawn(5, 13)
    for ours in loss_of(logits, TARGETS, 4, [{}]):
        assert_close(ours, plain(logits, TARGETS))
        assert all(t.isfinite().all() for t in ours)


@pytest.mark.parametrize("tp", [1, 2])
def test_where_every_token_is_ignored_the_mean_is_not_a_number_and_nothing_gets_a_gradient(tp: int) -> None:
    logits, targets, options = drawn(5, 13), torch.full((5,), -100), [{}, {"label_smoothing": 0.1}]
    for (loss, gradient), option in zip(loss_of(logits, targets, tp, options), options, strict=True):
        expected, of_expected = plain(logits, targets, **option)
        assert loss.isnan()
        assert expected.isnan()
        assert torch.equal(gradient, of_expected)


@pytest.mark.parametrize("target", [-1, 13, 16])
def test_a_target_outside_the_vocabulary_is_refused_before_anything_is_sent(target: int) -> None:
    def on_rank() -> int:
        mesh = Mesh(tp=4)
        with pytest.raises(IndexError, match="outside the vocabulary of 13"):
            vocab_parallel_cross_entropy(drawn(2, 4), torch.tensor([0, target]), mesh.tp, 13)
        with pytest.raises(ValueError, match=r"logits are for tokens \(2,\), targets for \(3,\)"):
            vocab_parallel_cross_entropy(drawn(2, 4), torch.tensor([0, 1, 2]), mesh.tp, 13)
        vocab_parallel_cross_entropy(drawn(2, 4), torch.tensor([0, target]), mesh.tp, 13, ignore_index=target)
        return mesh.ledger.rows()[0].calls

    assert minipar.run(on_rank, 4, timeout=20, device="cpu") == [2] * 4


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


@pytest.mark.parametrize("sequence_parallel", [False, True])
def test_a_tied_head_is_the_embeddings_own_parameter_and_gets_the_gradients_of_both(sequence_parallel: bool) -> None:
    """torchtitan#2252."""
    table, tokens = drawn(13, HIDDEN), torch.arange(8).reshape(2, 4)

    def on_rank() -> tuple[bool, int, Tensor, Tensor]:
        axis = Mesh(tp=4).tp
        embedding = VocabParallelEmbedding(table, axis, sequence_parallel)
        head = VocabParallelHead(embedding, axis, sequence_parallel)
        loss = vocab_parallel_cross_entropy(head(embedding(tokens)), tokens, axis, 13)
        loss.backward()
        both = torch.nn.ModuleDict({"embedding": embedding, "head": head})
        (gradient,) = gather(((n, p.grad) for n, p in both.named_parameters()), manifest(both), axis).values()
        same = head.weight is embedding.weight
        torch.optim.SGD(both.parameters(), 1.0).step()
        weight = gather(head.named_parameters(), manifest(head), axis)["weight"]
        return same, len(list(both.parameters())), gradient, weight

    leaf = table.clone().requires_grad_()
    F.cross_entropy(F.linear(F.embedding(tokens, leaf), leaf).flatten(0, 1), tokens.flatten()).backward()
    for same, count, gradient, weight in minipar.run(on_rank, 4, timeout=20, device="cpu"):
        assert (same, count) == (True, 1)
        assert_close([gradient, weight], [leaf.grad, table - leaf.grad])
