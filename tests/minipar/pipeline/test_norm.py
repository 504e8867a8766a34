from __future__ import annotations

import copy
from collections.abc import Callable, Sequence

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from minipar.pipeline.norm import DeferredBatchNorm, commit_batch_norms, defer_batch_norms
from tests.minipar.equality import assert_close, assert_close_by_name, relative_error

KINDS = {2: nn.BatchNorm1d, 3: nn.BatchNorm1d, 4: nn.BatchNorm2d, 5: nn.BatchNorm3d}
CHANNELS = 3


def batch(samples: int, dimensions: int = 2, seed: int = 0, dtype: torch.dtype = torch.float64) -> Tensor:
    """Far from zero, and spread differently in each channel."""
    stream = torch.Generator().manual_seed(seed)
    shape = (samples, CHANNELS, *(2, 4, 3)[: dimensions - 2])
    spread = torch.arange(1, CHANNELS + 1).view(CHANNELS, *[1] * (dimensions - 2))
    return (torch.randn(shape, generator=stream, dtype=torch.float64) * spread + 10 * spread).to(dtype)


def norm_and_deferred(dimensions: int = 2, **options: float | bool | None) -> tuple[nn.Module, DeferredBatchNorm]:
    norm = KINDS[dimensions](CHANNELS, **options).double()
    if norm.affine:
        with torch.no_grad():
            norm.weight.copy_(torch.tensor([0.5, 1.0, -2.0]))
            norm.bias.copy_(torch.tensor([0.0, 3.0, -1.0]))
    return norm, DeferredBatchNorm(copy.deepcopy(norm))


def passed(norm: nn.Module, micro_batches: Sequence[Tensor]) -> None:
    for x in micro_batches:
        norm(x)


@pytest.mark.parametrize("dimensions", [2, 3, 4, 5])
@pytest.mark.parametrize("momentum", [0.1, 1.0, 0.0, None])
def test_ragged_micro_batches_update_the_running_statistics_as_the_whole_batch_does(
    dimensions: int, momentum: float | None
) -> None:
    norm, deferred = norm_and_deferred(dimensions, momentum=momentum)
    for step in range(3):
        whole = batch(7, dimensions, seed=step)
        norm(whole)
        passed(deferred, whole.tensor_split(3))
        before = copy.deepcopy(deferred.state_dict())
        assert before["num_batches_tracked"] == step
        deferred.commit()
        assert_close_by_name(deferred.state_dict(), norm.state_dict())
        assert deferred.state_dict()["num_batches_tracked"] == step + 1


@settings(max_examples=20, deadline=None)
@given(st.lists(st.integers(2, 9), min_size=1, max_size=6), st.integers(0, 100))
def test_however_the_batch_is_cut(sizes: list[int], seed: int) -> None:
    norm, deferred = norm_and_deferred()
    whole = batch(sum(sizes), seed=seed)
    norm(whole)
    passed(deferred, whole.split(sizes))
    deferred.commit()
    assert_close_by_name(deferred.state_dict(), norm.state_dict())


def test_a_mean_far_larger_than_the_spread_cancels_no_digits() -> None:
    norm, deferred = norm_and_deferred(momentum=1.0)
    whole = batch(8) + 1e8
    norm(whole)
    passed(deferred, whole.tensor_split(3))
    deferred.commit()
    # A float64 of 1e8 is good to 1e-8; sums of its square would leave no digit of the variance.
    assert relative_error(deferred.running_var, norm.running_var) < 1e-8


def test_half_precision_is_counted_in_single_precision() -> None:
    norm, deferred = nn.BatchNorm2d(CHANNELS, momentum=1.0), DeferredBatchNorm(nn.BatchNorm2d(CHANNELS, momentum=1.0))
    whole = batch(7, 4, dtype=torch.bfloat16)
    norm(whole.float())
    passed(deferred, whole.tensor_split(3))
    deferred.commit()
    assert_close_by_name(deferred.state_dict(), norm.state_dict(), within=1e-6)


@pytest.mark.parametrize("options", [{}, {"affine": False}, {"eps": 0.1}, {"track_running_stats": False}])
def test_outputs_and_gradients_are_those_of_a_batch_norm_of_each_micro_batch(options: dict[str, float | bool]) -> None:
    norm, deferred = norm_and_deferred(4, **options)
    results: list[list[Tensor]] = []
    for module in (norm, deferred):
        whole = batch(7, 4).requires_grad_()
        outputs = [module(x) for x in whole.tensor_split(3)]
        sum(y.pow(3).sum() for y in outputs).backward()
        results.append([*outputs, whole.grad, *(p.grad for p in module.parameters())])
    assert_close(results[1], results[0])


def test_nothing_pending_changes_nothing() -> None:
    norm, deferred = norm_and_deferred()
    deferred.commit()
    assert_close_by_name(deferred.state_dict(), norm.state_dict(), within=0)
    passed(deferred, batch(7).tensor_split(3))
    deferred.commit()
    once = copy.deepcopy(deferred.state_dict())
    deferred.commit()
    assert_close_by_name(deferred.state_dict(), once, within=0)


def test_evaluation_uses_the_running_statistics_and_counts_nothing() -> None:
    norm, deferred = norm_and_deferred()
    norm(batch(7))
    passed(deferred, batch(7).tensor_split(3))
    deferred.commit()
    x = batch(2, seed=1)
    assert_close([deferred.eval()(x)], [norm.eval()(x)])
    assert deferred.pending is None


def test_an_evaluation_between_two_micro_batches_leaves_what_is_pending() -> None:
    norm, deferred = norm_and_deferred()
    whole = batch(8)
    norm(whole)
    deferred(whole[:3])
    deferred.eval()(batch(5, seed=1))
    deferred.train()(whole[3:])
    deferred.commit()
    assert_close_by_name(deferred.state_dict(), norm.state_dict())


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_a_training_forward_without_gradients_counts_too(mode: Callable[[], torch.no_grad]) -> None:
    norm, deferred = norm_and_deferred()
    whole = batch(7)
    norm(whole)
    with mode():
        deferred(whole[:3])
    deferred(whole[3:])
    deferred.commit()
    assert_close_by_name(deferred.state_dict(), norm.state_dict())


def test_what_is_pending_keeps_no_graph() -> None:
    _, deferred = norm_and_deferred()
    deferred(batch(3).requires_grad_())
    assert deferred.pending is not None
    assert not deferred.pending.mean.requires_grad
    assert not deferred.pending.deviations.requires_grad


@pytest.mark.parametrize("reentrant", [False, True])
@pytest.mark.parametrize("nested", [False, True])
def test_a_recomputed_forward_counts_once(reentrant: bool, nested: bool) -> None:
    norm, deferred = norm_and_deferred()
    chain = nn.Sequential(nn.Linear(CHANNELS, CHANNELS).double(), deferred, nn.Tanh())
    calls: list[int] = []
    deferred.register_forward_hook(lambda *_: calls.append(1))
    inner = (lambda x: checkpoint(chain, x, use_reentrant=reentrant)) if nested else chain
    micro_batches = batch(7).requires_grad_().tensor_split(3)
    with torch.no_grad():
        norm(chain[0](torch.cat(micro_batches)))
    # All forwards first, then all backwards, and then one that begins between two others' backwards.
    outputs = [checkpoint(inner, x, use_reentrant=reentrant) for x in micro_batches[:2]]
    outputs[0].sum().backward(retain_graph=True)
    outputs.append(checkpoint(inner, micro_batches[2], use_reentrant=reentrant))
    sum(y.sum() for y in outputs[1:]).backward()
    assert len(calls) >= 6, "the forwards were run again"
    deferred.commit()
    assert_close_by_name(deferred.state_dict(), norm.state_dict())


@pytest.mark.parametrize("options", [{}, {"affine": False}, {"track_running_stats": False}])
def test_each_loads_the_state_of_the_other(options: dict[str, bool]) -> None:
    norm, deferred = norm_and_deferred(**options)
    passed(deferred, batch(7).tensor_split(3))
    deferred.commit()
    fresh, fresh_deferred = norm_and_deferred(**options)
    fresh.load_state_dict(deferred.state_dict())
    assert_close_by_name(fresh.state_dict(), deferred.state_dict(), within=0)
    fresh_deferred.load_state_dict(fresh.state_dict())
    assert_close_by_name(fresh_deferred.state_dict(), deferred.state_dict(), within=0)
    assert list(deferred.state_dict()) == list(norm.state_dict())
    assert [name for name, _ in deferred.named_parameters()] == [name for name, _ in norm.named_parameters()]


def network() -> nn.Sequential:
    torch.manual_seed(0)
    inner = nn.Sequential(nn.Conv2d(4, CHANNELS, 1), nn.BatchNorm2d(CHANNELS))
    return nn.Sequential(nn.Conv2d(CHANNELS, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(), inner).double()


def test_a_network_is_converted_in_place_with_its_own_parameters() -> None:
    model = network().eval()
    parameters = list(model.parameters())
    names = list(model.state_dict())
    assert defer_batch_norms(model) is model
    assert all(new is old for new, old in zip(model.parameters(), parameters, strict=True))
    assert list(model.state_dict()) == names
    assert isinstance(model[1], DeferredBatchNorm)
    assert isinstance(model[3][1], DeferredBatchNorm)
    assert not model[1].training
    assert defer_batch_norms(model)[1] is model[1], "a second time changes nothing"


def test_a_network_commits_all_its_norms() -> None:
    # Only the first norm sees what it would see of the whole batch; the later one sees other inputs.
    whole, model, expected = batch(7, 4), defer_batch_norms(network()), network()
    expected(whole)
    passed(model, whole.tensor_split(3))
    commit_batch_norms(model)
    assert_close_by_name(model[1].state_dict(), expected[1].state_dict())
    assert model[3][1].num_batches_tracked == 1
    assert model[3][1].pending is None


def test_a_root_that_is_a_norm_is_returned_as_a_new_one() -> None:
    norm = nn.BatchNorm1d(CHANNELS)
    deferred = defer_batch_norms(norm)
    assert isinstance(deferred, DeferredBatchNorm)
    assert deferred.weight is norm.weight
    assert defer_batch_norms(deferred) is deferred


def test_a_norm_in_several_places_stays_one() -> None:
    shared = nn.BatchNorm1d(CHANNELS)
    model = defer_batch_norms(nn.Sequential(shared, shared, nn.Sequential(shared)))
    assert isinstance(model[0], DeferredBatchNorm)
    assert model[0] is model[1]
    assert model[0] is model[2][0]


class Derived(nn.BatchNorm1d):
    pass


@pytest.mark.parametrize("refused", [nn.SyncBatchNorm(3), nn.LazyBatchNorm2d(), Derived(3)])
def test_a_norm_that_is_not_plain_is_refused_by_its_place_and_nothing_is_replaced(refused: nn.Module) -> None:
    model = nn.Sequential(nn.BatchNorm1d(3), nn.Sequential(refused))
    with pytest.raises(ValueError, match=rf"^1\.0 is a {type(refused).__name__}"):
        defer_batch_norms(model)
    assert type(model[0]) is nn.BatchNorm1d
    with pytest.raises(ValueError, match="the root is a"):
        defer_batch_norms(refused)
    with pytest.raises(ValueError, match="this is a"):
        DeferredBatchNorm(refused)


@pytest.mark.parametrize(("dimensions", "others"), [(2, 4), (4, 3), (5, 4)])
def test_an_input_of_other_dimensions_is_refused(dimensions: int, others: int) -> None:
    _, deferred = norm_and_deferred(dimensions)
    with pytest.raises(ValueError, match=f"an input of {others} dimensions"):
        deferred(batch(2, others))


def test_a_micro_batch_of_one_entry_a_channel_is_refused_and_not_counted() -> None:
    _, deferred = norm_and_deferred()
    with pytest.raises(ValueError, match="more than 1 value per channel"):
        deferred(batch(1))
    assert deferred.pending is None
