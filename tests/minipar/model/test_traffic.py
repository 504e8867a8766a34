"""The ledger of a GPT's forward and backward is what the papers' formulas say."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

import minipar
from minipar import Mesh
from minipar.manifest import Section
from minipar.model import GPT, GPTConfig, Recompute, token_loss
from minipar.tensor import (
    ColumnParallelLinear,
    RegionNorm,
    RowParallelLinear,
    VocabParallelEmbedding,
    VocabParallelHead,
    vocab_parallel_cross_entropy,
)

B, S, H, LAYERS = 3, 8, 16, 2
CONFIG = GPTConfig(vocabulary=16, sequence=S, hidden=H, layers=LAYERS, heads=4)
ITEM = 8  # bytes of a float64
FEATURES = B * S * H * ITEM
TOKENS = torch.arange(B * S).reshape(B, S) % 16


def sent(tp: int, sequence_parallel: bool, recompute: Recompute = Recompute.NONE) -> tuple[Counter, Counter]:
    """The bytes and the calls by operation of one forward and backward, on every rank the same."""

    def on_rank() -> tuple[Counter, Counter]:
        mesh = Mesh(tp=tp)
        model = GPT(CONFIG, mesh, None, 0, torch.float64, sequence_parallel, recompute)
        with mesh.ledger.page() as page:
            token_loss(CONFIG, mesh)(model(TOKENS), TOKENS).backward()
        rows = page.rows()
        assert {row.axis for row in rows} <= {"tp"}
        return Counter({r.operation: r.bytes for r in rows}), Counter({r.operation: r.calls for r in rows})

    first, *others = minipar.run(on_rank, tp, timeout=20, device="cpu")
    assert all(other == first for other in others)
    return first


# The loss: the largest logit, then the sum of exponentials and the target's logit, a number a token each.
LOSS_CALLS, LOSS_BYTES = 2, 3 * B * S * ITEM


@pytest.mark.parametrize("tp", [2, 4])
def test_a_block_sends_two_all_reduces_forward_and_two_backward(tp: int) -> None:
    """Shoeybi et al. 2019, §3; and one forward for the embedding, one backward for the logits."""
    features = 4 * LAYERS + 2
    assert sent(tp, sequence_parallel=False) == (
        Counter({"all-reduce": features * FEATURES + LOSS_BYTES}),
        Counter({"all-reduce": features + LOSS_CALLS}),
    )


@pytest.mark.parametrize("tp", [2, 4])
def test_sequence_parallelism_sends_the_same_in_two_halves_and_gathers_the_kept_slices_again(tp: int) -> None:
    """Korthikanti et al. 2022, §4.2.2: an all-reduce becomes a reduce-scatter and an all-gather.

    A block gathers 2 times forward, 2 times backward for the row-split halves, and 2 times for the weight
    gradients of the column-split ones, of which only the slice was kept; it reduce-scatters 2 times each way.
    """
    norms = (2 * LAYERS + 1) * 2 * H * ITEM  # weight and bias, backward
    biases = 2 * LAYERS * H * ITEM  # of the row-split halves, backward
    position = S * H * ITEM  # gathered backward, as it was scattered
    gathers, scatters = 6 * LAYERS + 1 + 1 + 1, 4 * LAYERS + 1 + 1  # and: embedding, logits forward and again
    assert sent(tp, sequence_parallel=True) == (
        Counter(
            {
                "all-gather": gathers * FEATURES + position,
                "reduce-scatter": scatters * FEATURES,
                "all-reduce": norms + biases + LOSS_BYTES,
            }
        ),
        Counter(
            {
                "all-gather": gathers + 1,
                "reduce-scatter": scatters,
                "all-reduce": (2 * LAYERS + 1) * 2 + 2 * LAYERS + LOSS_CALLS,
            }
        ),
    )


def test_a_full_recompute_repeats_a_blocks_forward_but_for_its_last_all_reduce() -> None:
    features = 4 * LAYERS + 2 + LAYERS
    expected = Counter({"all-reduce": features * FEATURES + LOSS_BYTES})
    assert sent(2, False, Recompute.FULL)[0] == expected


def test_a_selective_recompute_sends_nothing_more() -> None:
    assert sent(2, False, Recompute.SELECTIVE) == sent(2, False)


def test_one_rank_sends_nothing() -> None:
    assert sent(1, sequence_parallel=True) == (Counter(), Counter())


def by_layer(mesh: Mesh, sequence_parallel: bool) -> dict[str, list[tuple[str, int, int]]]:
    """What the forward and backward of each layer alone sends: operation, calls, bytes."""
    axis, sequence = mesh.tp, sequence_parallel
    weight, bias, table = torch.ones(2 * H, H).double(), torch.ones(2 * H).double(), torch.ones(13, H).double()
    whole, part = torch.ones(B, S, H).double(), torch.ones(B, S, 2 * H // axis.size).double()
    features = whole.chunk(axis.size, 1)[axis.rank] if sequence else whole
    shared = (Section(H), Section(4, most=1))
    head = VocabParallelHead(table, axis, sequence)
    layers: dict[str, tuple[Callable[[Tensor], Tensor], Tensor]] = {
        "column": (ColumnParallelLinear(weight, bias, axis, sequence_parallel=sequence), features),
        "shared": (ColumnParallelLinear(weight[: H + 4], None, axis, shared, sequence_parallel=sequence), features),
        "row": (RowParallelLinear(weight.T, bias[:H], axis, sequence), part),
        "norm": (RegionNorm(H, axis, sequence, torch.float64), features),
        "embedding": (VocabParallelEmbedding(table, axis, sequence), TOKENS % 13),
        "head": (head, features),
        "loss": (lambda logits: vocab_parallel_cross_entropy(logits, TOKENS % 13, axis, 13), head(features).detach()),
    }
    sent = {}
    for name, (layer, x) in layers.items():
        with mesh.ledger.page() as page:
            layer(x.clone().requires_grad_(x.is_floating_point())).sum().backward()
        sent[name] = sorted((row.operation, row.calls, row.bytes) for row in page.rows())
    return sent


@pytest.mark.parametrize("tp", [2, 4])
def test_each_layer_alone_sends_what_its_docstring_says(tp: int) -> None:
    reduced, kv = ("all-reduce", 1, FEATURES), ("all-gather", 1, tp * 4 * H * ITEM)
    expected = {
        "column": [reduced],
        "shared": [kv, reduced],  # the weight gradients of the part that all ranks share
        "row": [reduced],
        "norm": [],
        "embedding": [reduced],
        "head": [reduced],
        "loss": [("all-reduce", LOSS_CALLS, LOSS_BYTES)],
    }
    assert minipar.run(lambda: by_layer(Mesh(tp=tp), False), tp, timeout=20, device="cpu") == [expected] * tp


@pytest.mark.parametrize("tp", [2, 4])
def test_each_layer_alone_sends_what_its_docstring_says_under_sequence_parallelism(tp: int) -> None:
    scattered, gathered_twice = ("reduce-scatter", 1, FEATURES), ("all-gather", 2, 2 * FEATURES)
    gathered = ("all-gather", 1, FEATURES)
    expected = {
        "column": [gathered_twice, scattered],
        "shared": [("all-gather", 3, 2 * FEATURES + tp * 4 * H * ITEM), scattered],
        "row": [gathered, ("all-reduce", 1, H * ITEM), scattered],  # the bias gradient
        "norm": [("all-reduce", 2, 2 * H * ITEM)],
        "embedding": [gathered, scattered],
        "head": [gathered_twice, scattered],
        "loss": [("all-reduce", LOSS_CALLS, LOSS_BYTES)],
    }
    assert minipar.run(lambda: by_layer(Mesh(tp=tp), True), tp, timeout=20, device="cpu") == [expected] * tp
