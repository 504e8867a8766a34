"""Kinds of fault that others had in tensor-parallel models, each named by its public report."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import Tensor

import minipar
from minipar import Mesh
from minipar.manifest import gather, manifest
from minipar.model import GPT, GPTConfig, token_loss
from minipar.pipeline import even_cuts
from minipar.train import ByteText
from tests.minipar.equality import relative_error

CONFIG = GPTConfig(vocabulary=13, sequence=8, hidden=16, layers=2, heads=4, kv_heads=2, gated=True)


def test_a_sequence_that_does_not_divide_is_refused_before_anything_is_sent() -> None:
    """verl#3296."""

    def on_rank() -> tuple[str, int]:
        mesh = Mesh(tp=2)
        model = GPT(CONFIG, mesh, sequence_parallel=True)
        try:
            model(torch.zeros(2, 7, dtype=torch.long))
        except ValueError as error:
            return str(error), len(mesh.ledger.rows())
        return "accepted", 0

    for said, rows in minipar.run(on_rank, 2, timeout=20):
        assert "is 7, which tp=2 does not divide" in said
        assert rows == 0


def test_one_seed_gives_bitwise_one_model_whatever_the_mesh_and_no_padding_is_in_it() -> None:
    """Megatron-Bridge#5840, torchtitan#1750; Megatron-LM#1754, vllm#440."""
    unsplit = {name: p.detach() for name, p in GPT(CONFIG, Mesh(), seed=7).named_parameters()}
    assert unsplit["embedding.token.weight"].shape == (13, 16)
    for pp, tp in ((1, 2), (1, 4), (2, 1), (2, 2), (2, 4)):

        def on_rank(pp: int = pp, tp: int = tp) -> dict[str, Tensor]:
            mesh = Mesh(pp=pp, tp=tp)
            model = GPT(CONFIG, mesh, even_cuts(CONFIG.layers, pp)[mesh.pp.rank], seed=7)
            return gather(model.named_parameters(), manifest(model), mesh.tp)

        whole = {n: t for rank in minipar.run(on_rank, pp * tp, timeout=30, device="cpu") for n, t in rank.items()}
        assert whole.keys() == unsplit.keys()
        assert all(torch.equal(whole[name], unsplit[name]) for name in unsplit)


@pytest.mark.parametrize("tp", [1, 2])
def test_tied_embeddings_are_one_storage_and_one_entry_in_the_optimizer(tp: int) -> None:
    """torchtitan#2252."""

    def on_rank() -> tuple[bool, list[str], set[str]]:
        model = GPT(replace(CONFIG, tied=True), Mesh(tp=tp))
        assert model.embedding is not None
        assert model.head is not None
        same = model.embedding.token.weight.data_ptr() == model.head.logits.weight.data_ptr()
        names = [name for name, _ in model.named_parameters() if name.endswith(("token.weight", "logits.weight"))]
        return same, names, set(manifest(model)) ^ {name for name, _ in model.named_parameters()}

    assert minipar.run(on_rank, tp, timeout=20) == [(True, ["embedding.token.weight"], set())] * tp


def test_a_tied_head_without_its_embedding_is_a_copy_and_says_so() -> None:
    first, last = (GPT(replace(CONFIG, tied=True), Mesh(), layers) for layers in (range(1), range(1, CONFIG.layers)))
    assert manifest(last)["head.logits.weight"].copy_of == "embedding.token.weight"
    assert torch.equal(last.get_parameter("head.logits.weight"), first.get_parameter("embedding.token.weight"))


def test_a_sequence_longer_than_the_positions_is_refused() -> None:
    with pytest.raises(ValueError, match="a sequence of 9 tokens; the model has positions for 8"):
        GPT(CONFIG, Mesh())(torch.zeros(1, 9, dtype=torch.long))


TOLERANCES = {torch.float64: (1e-14, 1e-13), torch.float32: (1e-6, 1e-5), torch.bfloat16: (1e-2, 0.1)}


@pytest.mark.parametrize("dtype", TOLERANCES, ids=str)
def test_losses_and_gradients_differ_over_tp_only_as_the_type_rounds(dtype: torch.dtype) -> None:
    """The page in minipar.tensor says what was measured; five times of that is allowed."""
    config = GPTConfig()

    def on_rank(tp: int) -> tuple[float, dict[str, Tensor]]:
        mesh = Mesh(tp=tp)
        model = GPT(config, mesh, dtype=dtype)
        inputs, targets = ByteText().batch(0, 8, config.sequence)
        loss = token_loss(config, mesh)(model(inputs), targets)
        loss.backward()
        named = ((name, p.grad) for name, p in model.named_parameters())
        return loss.item(), gather(named, manifest(model), mesh.tp)

    loss, gradients = minipar.run(on_rank, 1, 1, timeout=30, device="cpu")[0]
    of_loss, of_gradients = TOLERANCES[dtype]
    for tp in (2, 4):
        for ours, whole in minipar.run(on_rank, tp, tp, timeout=30, device="cpu"):
            assert ours == pytest.approx(loss, rel=of_loss, abs=0)
            assert max(relative_error(whole[name], gradients[name]) for name in gradients) < of_gradients
