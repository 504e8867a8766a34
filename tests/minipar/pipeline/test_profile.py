from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from minipar.pipeline.norm import DeferredBatchNorm
from minipar.pipeline.partition import balanced_cuts
from minipar.pipeline.profile import LayerTime, layer_seconds


class Matmuls(nn.Module):
    def __init__(self, times: int, width: int = 128) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.eye(width))
        self.times = times

    def forward(self, x: Tensor) -> Tensor:
        for _ in range(self.times):
            x = x @ self.weight
        return x


class Calls(nn.Module):
    """A layer that is only this function."""

    def __init__(self, fn: Callable[..., Any]) -> None:
        super().__init__()
        self.fn = fn

    def forward(self, *inputs: Tensor) -> Any:
        return self.fn(*inputs)


@pytest.mark.alone
def test_eight_times_the_work_takes_clearly_longer_both_ways() -> None:
    light, heavy, light_again = layer_seconds([Matmuls(2), Matmuls(16), Matmuls(2)], torch.randn(256, 128))
    for other in (light, light_again):
        assert heavy.forward > 2 * other.forward
        assert heavy.backward > 2 * other.backward


def test_the_total_is_both_ways() -> None:
    assert LayerTime(1.0, 2.5).total == 3.5


def test_blocks_are_cut_by_what_was_measured() -> None:
    blocks = [Matmuls(40), *(Matmuls(1) for _ in range(3))]
    times = layer_seconds(blocks, torch.randn(256, 128), repeats=3)
    assert balanced_cuts([t.total for t in times], 2) == (range(1), range(1, 4))


def model() -> list[nn.Module]:
    return [
        nn.Embedding(10, 4),
        nn.Dropout(0.5),
        nn.BatchNorm1d(3),
        DeferredBatchNorm(nn.BatchNorm1d(3)),
        nn.Linear(4, 1),
    ]


def test_tokens_go_through_a_chain_that_begins_with_an_embedding() -> None:
    times = layer_seconds(model(), torch.arange(6).view(2, 3), repeats=2)
    assert len(times) == 5
    assert all(0 < t.forward < math.inf and 0 < t.backward < math.inf for t in times)


def test_gradients_parameters_buffers_and_modes_are_left_as_they_were() -> None:
    layers, tokens = nn.ModuleList(model()), torch.arange(6).view(2, 3)
    layers[1].eval()
    for parameter in layers[4].parameters():
        parameter.grad = torch.ones_like(parameter)
    layers[3](torch.randn(2, 3, 4))
    pending, buffers = layers[3].pending, dict(layers.named_buffers())
    before = {name: t.clone() for name, t in layers.state_dict().items()}
    modes = [module.training for module in layers.modules()]
    layer_seconds(layers, tokens, repeats=2)
    assert all(torch.equal(layers.state_dict()[name], t) for name, t in before.items())
    assert all(layers.get_buffer(name) is buffer for name, buffer in buffers.items())
    assert layers[3].pending is pending
    assert [module.training for module in layers.modules()] == modes
    assert all(torch.equal(p.grad, torch.ones_like(p)) for p in layers[4].parameters())
    assert all(p.grad is None for layer in layers[:4] for p in layer.parameters())
    assert torch.equal(tokens, torch.arange(6).view(2, 3))


def test_the_random_stream_goes_on_as_if_nothing_had_been_measured() -> None:
    torch.manual_seed(3)
    expected = torch.rand(4)
    torch.manual_seed(3)
    layer_seconds([nn.Dropout(0.5)], torch.ones(8), repeats=1)
    assert torch.equal(torch.rand(4), expected)


def test_all_is_left_as_it_was_by_a_layer_that_fails_too() -> None:
    def fail(x: Tensor) -> Tensor:
        raise RuntimeError("this layer")

    norm, state = nn.BatchNorm1d(3), torch.get_rng_state()
    with pytest.raises(RuntimeError, match="this layer"):
        layer_seconds([nn.Dropout(0.5), norm, Calls(fail)], torch.ones(2, 3))
    assert norm.num_batches_tracked == 0
    assert torch.equal(torch.get_rng_state(), state)


def test_a_tuple_is_the_next_layers_arguments() -> None:
    chain = [
        Calls(lambda x: (x * 2, x > 0, x.detach())),
        Calls(lambda x, mask, other: (x.where(mask, other), mask)),
        Calls(lambda x, mask: x),
    ]
    times = layer_seconds(chain, torch.randn(4), repeats=1)
    assert len(times) == 3
    assert all(t.backward > 0 for t in times)


def test_a_layer_may_write_over_its_input() -> None:
    sample = torch.tensor([-1.0, 1.0])
    layer_seconds([nn.ReLU(inplace=True), nn.Linear(2, 2), nn.ReLU(inplace=True)], sample, repeats=2)
    assert sample.tolist() == [-1.0, 1.0]
    assert not sample.requires_grad


def test_it_measures_the_backward_without_gradients_around_it_and_with_frozen_parameters() -> None:
    layer = nn.Linear(2, 2).requires_grad_(False)
    gradients: list[bool] = []
    watched = Calls(lambda x: (gradients.append(x.requires_grad), layer(x))[1])
    with torch.no_grad():
        layer_seconds([watched], torch.randn(3, 2), repeats=1)
    assert gradients == [True, True]


def test_the_first_round_is_not_counted() -> None:
    calls: list[int] = []
    layer_seconds([Calls(lambda x: (calls.append(1), x + 1)[1])], torch.ones(1), repeats=4)
    assert len(calls) == 1 + 4


def test_no_layers_take_no_times() -> None:
    assert layer_seconds([], torch.ones(1)) == []


def test_no_repeats_are_refused() -> None:
    with pytest.raises(ValueError, match="repeats=0"):
        layer_seconds([nn.Linear(1, 1)], torch.ones(1, 1), repeats=0)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_on_a_gpu_it_waits_for_the_work_and_leaves_the_gpus_random_stream() -> None:
    layers = [Matmuls(1, 1024).cuda(), Matmuls(64, 1024).cuda(), nn.Dropout(0.5)]
    state = torch.cuda.get_rng_state()
    light, heavy, _ = layer_seconds(layers, torch.randn(4096, 1024, device="cuda"))
    assert heavy.forward > 4 * light.forward
    assert torch.equal(torch.cuda.get_rng_state(), state)
