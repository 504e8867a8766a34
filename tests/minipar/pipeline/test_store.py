"""The weight-gradient store: what a split backward computes at once, what it leaves, and that nothing is lost."""

from __future__ import annotations

import sys
import weakref
from collections.abc import Callable
from typing import Any

import cloudpickle
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.nn.utils import parametrize
from torch.utils.checkpoint import checkpoint

import minipar
from minipar import Mesh, store
from minipar.pipeline import Action, gpipe, run
from minipar.pipeline.step import Step
from minipar.store import WeightStore, linear
from minipar.tensor import ColumnParallelLinear, RowParallelLinear, VocabParallelHead
from minipar.train import Buckets
from tests.minipar.equality import assert_close, assert_close_by_name
from tests.minipar.pipeline.models import batch_of, held, layers, published, seeded
from tests.minipar.pipeline.stages import squared

cloudpickle.register_pickle_by_value(sys.modules[__name__])  # so that no rank imports this file, and pytest with it

Module = Callable[..., Any]


def randoms(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def whole(module: Module, x: Tensor) -> dict[str, Tensor]:
    """The output and the gradients of an ordinary backward."""
    return backward(module, x, lambda loss: loss.backward())


def split(module: nn.Module, x: Tensor) -> dict[str, Tensor]:
    """The same in two halves."""
    waiting = WeightStore()

    def halves(loss: Tensor) -> None:
        with waiting.opened("key"):
            loss.backward()
        waiting.finish("key")

    with waiting.lent_to(module):
        return backward(module, x, halves)


def backward(module: Module, x: Tensor, do: Callable[[Tensor], None]) -> dict[str, Tensor]:
    x = x.clone().requires_grad_()
    parameters = dict(module.named_parameters()) if isinstance(module, nn.Module) else {}
    for parameter in parameters.values():
        parameter.grad = None
    y = module(x)
    do((torch.sin(y) * torch.arange(1, y.numel() + 1).view_as(y)).sum())
    found = {"y": y.detach(), "x": x.grad, **{name: p.grad for name, p in parameters.items()}}
    return {name: tensor for name, tensor in found.items() if tensor is not None}


def both_halves_equal_the_whole(module: nn.Module, x: Tensor) -> None:
    assert_close_by_name(split(module, x), whole(module, x))


def test_the_first_half_computes_the_inputs_gradient_and_the_second_the_weights(monkeypatch: Any) -> None:
    computed: list[str] = []
    gradients = store.weight_gradients
    monkeypatch.setattr(store, "weight_gradients", lambda *args: computed.append("weights") or gradients(*args))
    model, waiting, x = seeded(0, nn.Linear, 4, 3), WeightStore(), randoms(2, 4).requires_grad_()
    with waiting.lent_to(model):
        loss = model(x).sum()
        with waiting.opened((1, 2)):
            loss.backward()
    assert (computed, len(waiting)) == ([], 1)
    assert_close([x.grad], [model.weight.sum(0).expand(2, 4)])
    assert model.weight.grad is model.bias.grad is None
    input_gradient = x.grad.clone()
    waiting.finish((1, 2))
    assert (computed, len(waiting)) == (["weights"], 0)
    assert torch.equal(x.grad, input_gradient)
    assert_close([model.weight.grad, model.bias.grad], [x.sum(0).expand(3, 4), torch.full((3,), 2.0).double()])


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.integers(0, 3), max_size=3),
    st.integers(1, 4),
    st.integers(1, 4),
    st.booleans(),
    st.sets(st.sampled_from(["x", "weight", "bias"])),
)
def test_a_linear_layer_in_halves_is_the_layer_whatever_the_leading_dimensions(
    leading: list[int], inputs: int, outputs: int, bias: bool, frozen: set[str]
) -> None:
    model = nn.Linear(inputs, outputs, bias=bias).double()
    for name, parameter in model.named_parameters():
        parameter.requires_grad_(name not in frozen)
    results = []
    for waiting in (None, WeightStore()):
        x = randoms(*leading, inputs).requires_grad_("x" not in frozen)
        model.zero_grad()
        y = linear(x, model.weight, model.bias, waiting)
        expected = F.linear(x, model.weight, model.bias)
        assert torch.equal(y, expected)
        assert y.requires_grad == expected.requires_grad
        if y.requires_grad and waiting is not None:
            with waiting.opened(0):
                (y**2).sum().backward()
            assert all(p.grad is None for p in model.parameters())
            waiting.finish(0)
        elif y.requires_grad:
            (y**2).sum().backward()
        named = {"x": x.grad, **{name: p.grad for name, p in model.named_parameters()}}
        results.append({name: gradient for name, gradient in named.items() if gradient is not None})
    assert_close_by_name(results[1], results[0])


class Residual(nn.Module):
    """The gradient of a layer's output is also that of its input, in which autograd likes to add."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.two = seeded(1, nn.Linear, 4, 4), seeded(2, nn.Linear, 4, 4)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.one(x)
        return x + self.two(x) + self.one(x)


class Recomputed(Residual):
    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = checkpoint(super().forward, x, use_reentrant=False)
        return checkpoint(self.two, y, use_reentrant=False)  # type: ignore[no-any-return]


class RecomputedReentrant(Residual):
    def forward(self, x: Tensor) -> Tensor:
        return checkpoint(super().forward, x, use_reentrant=True)  # type: ignore[no-any-return]


class Reused(nn.Module):
    """One weight in two layers, and in an operation that is no layer."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.two = seeded(1, nn.Linear, 4, 4), seeded(2, nn.Linear, 4, 4)
        self.two.weight = self.one.weight

    def forward(self, x: Tensor) -> Tensor:
        return self.two(torch.tanh(self.one(x))) @ self.one.weight


class Double(nn.Module):
    def forward(self, weight: Tensor) -> Tensor:
        return 2 * weight


def computed() -> nn.Module:
    """A layer whose weight is computed from another, and one whose bias alone is."""
    model = nn.Sequential(seeded(1, nn.Linear, 4, 4), seeded(2, nn.Linear, 4, 4))
    parametrize.register_parametrization(model[0], "weight", Double().double())
    with pytest.warns(FutureWarning):
        nn.utils.weight_norm(model[1])
    return model


@pytest.mark.parametrize("make", [Residual, Recomputed, RecomputedReentrant, Reused, computed])
def test_models_in_halves_equal_the_whole(make: Callable[[], nn.Module]) -> None:
    both_halves_equal_the_whole(make(), randoms(3, 2, 4))


def test_a_recomputed_layer_waits_too() -> None:
    model, waiting = Recomputed(), WeightStore()
    x = randoms(3, 4).requires_grad_()
    with waiting.lent_to(model):
        loss = model(x).sum()
        with waiting.opened(0):
            loss.backward()
    assert x.grad is not None
    assert all(p.grad is None for p in model.parameters())
    waiting.finish(0)
    assert all(p.grad is not None for p in model.parameters())


def test_a_weight_that_is_computed_from_others_goes_whole() -> None:
    one, two, waiting = randoms(3, 4).requires_grad_(), randoms(3, seed=1).requires_grad_(), WeightStore()
    for weight, bias in ((2 * one, two), (one, 2 * two)):
        one.grad = two.grad = None
        with waiting.opened(0):
            linear(randoms(2, 4), weight, bias, waiting).sum().backward()
        waiting.finish(0)
        factor = 2 if bias is two else 1
        assert_close([one.grad], [factor * randoms(2, 4).sum(0).expand(3, 4)])
        assert_close([two.grad], [torch.full((3,), 4.0 / factor).double()])


def test_hooks_see_the_gradients_of_the_second_half_and_may_change_them() -> None:
    model, waiting, seen = seeded(0, nn.Linear, 4, 3), WeightStore(), list[str]()
    model.weight.register_hook(lambda gradient: seen.append("weight") or 2 * gradient)
    model.bias.register_post_accumulate_grad_hook(lambda _: seen.append("bias"))
    x = randoms(2, 4)
    with waiting.lent_to(model):
        y = model(x) + model(x)
        with waiting.opened(0):
            y.sum().backward()
    assert seen == []
    waiting.finish(0)
    assert sorted(seen) == ["bias", "weight"], "once each, though the layer was used twice"
    assert_close([model.weight.grad], [4 * x.sum(0).expand(3, 4)])
    assert_close([model.bias.grad], [torch.full((3,), 4.0).double()])


def test_main_gradients_are_summed_from_halves() -> None:
    model = seeded(0, nn.Linear, 4, 3).bfloat16()
    waiting = WeightStore()
    Buckets({0: model}, gpipe(1, 1), Mesh().dp, torch.float32).zero()
    for value in (256.0, 1.0):
        with waiting.lent_to(model):
            y = model(torch.full((1, 4), value, dtype=torch.bfloat16))
            with waiting.opened(0):
                y.sum().backward()
            waiting.finish(0)
    assert model.weight.grad is None
    assert model.weight.main_grad.tolist() == [[257.0] * 4] * 3
    assert model.bias.main_grad.tolist() == [2.0] * 3


class Own(nn.Linear):
    def forward(self, x: Tensor) -> Tensor:
        return 3 * super().forward(x)


def test_a_layer_with_its_own_forward_is_left_alone() -> None:
    derived, patched, waiting = seeded(0, Own, 4, 4), seeded(1, nn.Linear, 4, 4), WeightStore()
    patched.forward = lambda x: x + patched.bias  # type: ignore[method-assign]
    model = nn.Sequential(derived, patched)
    both_halves_equal_the_whole(model, randoms(2, 4))
    with waiting.lent_to(model):
        assert "forward" not in vars(derived)
        with waiting.opened(0):
            model(randoms(2, 4)).sum().backward()
    assert derived.weight.grad is not None, "in the first half"
    assert "forward" in vars(patched)


@pytest.mark.parametrize("error", [None, ZeroDivisionError])
def test_layers_are_given_back_as_they_were_also_after_an_error(error: Any) -> None:
    shared = nn.Linear(4, 4)
    column = ColumnParallelLinear(torch.ones(4, 4), None, Mesh().tp)
    model = nn.ModuleList([nn.Sequential(shared, shared), nn.Linear(4, 2), column])
    before = [dict(vars(module)) for module in model.modules()]
    waiting = WeightStore()
    try:
        with waiting.lent_to(model), waiting.lent_to(model[0]):
            assert column.weight_store is waiting
            assert "forward" in vars(shared)
            if error:
                raise error
    except ZeroDivisionError:
        assert error
    assert [dict(vars(module)) for module in model.modules()] == before
    assert column.weight_store is None


def test_without_gradients_nothing_waits() -> None:
    model, waiting = nn.Linear(4, 3), WeightStore()
    with waiting.lent_to(model), torch.no_grad(), waiting.opened(0):
        assert not model(torch.ones(2, 4)).requires_grad
    waiting.finish(0)
    assert len(waiting) == 0
    with waiting.lent_to(model.requires_grad_(False)):
        assert not model(torch.ones(2, 4)).requires_grad


def test_keys_wait_apart_from_each_other() -> None:
    model, waiting = seeded(0, nn.Linear, 4, 3), WeightStore()
    with waiting.lent_to(model):
        for key in (0, 1, 2):
            with waiting.opened(key):
                (model(randoms(2, 4, seed=key)).sum() * (key + 1)).backward()
    assert len(waiting) == 3
    total = torch.zeros(3, 4).double()
    for left, key in ((2, 1), (1, 2), (0, 0)):
        waiting.finish(key)
        total += (key + 1) * randoms(2, 4, seed=key).sum(0)
        assert len(waiting) == left
        assert_close([model.weight.grad], [total])


def test_in_a_step_i_computes_no_gradients_of_weights_and_w_does() -> None:
    schedules = [s for s in published(2, 3) if any(a.kind == "W" for row in s.actions for a in row)]
    assert len(schedules) == 6

    def on_rank() -> list[list[tuple[Action, bool]]]:
        mesh, results, original = Mesh(pp=2), [], Step.do
        changes: list[tuple[Action, bool]] = []

        def do(self: Step, action: Action, arrived: Any) -> None:
            parameters = list(self.stages[action.stage].parameters())
            before = [None if p.grad is None else p.grad.clone() for p in parameters]
            original(self, action, arrived)
            pairs = [(p.grad, b) for p, b in zip(parameters, before, strict=True)]
            changed = [g is not None and (b is None or not torch.equal(g, b)) for g, b in pairs]
            assert all(changed) == any(changed)
            changes.append((action, all(changed)))

        Step.do = do  # type: ignore[method-assign]
        for schedule in schedules:
            run(schedule, held(schedule, mesh, layers), batch_of(4), squared, mesh)
            results.append(changes.copy())
            changes.clear()
        return results

    for rank, results in enumerate(minipar.run(on_rank, 2, timeout=30, device="cpu")):
        for schedule, changes in zip(schedules, results, strict=True):
            assert changes == [(action, action.kind in "BW") for action in schedule.actions[rank]], schedule.name


@pytest.mark.parametrize("sequence_parallel", [False, True])
def test_split_layers_in_halves_equal_the_whole(sequence_parallel: bool) -> None:
    def on_rank() -> list[tuple[dict[str, Tensor], dict[str, Tensor], list[str]]]:
        axis, results = Mesh(tp=2).tp, []
        rows, bias = randoms(4, 6), randoms(4, seed=1)
        options = {"sequence_parallel": sequence_parallel}
        for layer, features in (
            (ColumnParallelLinear(rows, bias, axis, **options), 6),
            (ColumnParallelLinear(rows, None, axis, gather_output=True, **options), 6),
            (RowParallelLinear(rows, bias, axis, **options), 3),
            (VocabParallelHead(randoms(5, 6), axis, **options), 6),
        ):
            varies = sequence_parallel or features == 3  # slices, of the sequence or of the features
            x = randoms(2, 2, features, seed=axis.rank * varies)
            waiting = WeightStore()
            with waiting.lent_to(layer), waiting.opened(0):
                layer(x.clone().requires_grad_()).sum().backward()
            at_once = [name for name, p in layer.named_parameters() if p.grad is not None]
            waiting.finish(0)
            results.append((split(layer, x), whole(layer, x), at_once))
        return results

    for results in minipar.run(on_rank, 2, timeout=30, device="cpu"):
        for ours, expected, _ in results:
            assert_close_by_name(ours, expected)
        # The bias that a row-split layer adds after its sum is no part of its multiplication.
        assert [at_once for _, _, at_once in results] == [[], [], ["bias"], []]


def test_what_waits_for_its_weights_does_not_hold_the_graph_that_it_came_from() -> None:
    """Until W a stage's input and its gradient would stay, two activations for each micro-batch that waits."""

    def on_rank() -> list[bool]:
        axis, gone = Mesh(tp=2).tp, []
        whole = torch.randn(8, 4)
        for layer in (nn.Linear(4, 8), ColumnParallelLinear(whole, torch.zeros(8), axis)):
            store, features = WeightStore(), torch.randn(2, 3, 4, requires_grad=True)
            with store.lent_to(nn.ModuleList([layer])):
                result = layer(2 * features)
            with store.opened("first"):
                torch.autograd.backward(result, torch.ones_like(result))
            alive = weakref.ref(features)
            del features, result
            gone.append(alive() is None and len(store) == 1)
            store.finish("first")
        return gone

    assert minipar.run(on_rank, 2, timeout=30, device="cpu") == [[True, True]] * 2
