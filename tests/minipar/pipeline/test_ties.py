"""Weights that several stages share: one sum of gradients, bitwise one weight, and the training of the dense model."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import cloudpickle
import pytest
import torch
from torch import Tensor, nn

import minipar
from minipar import Mesh
from minipar.ledger import Traffic
from minipar.manifest import gather, manifest
from minipar.model import GPT, GPTConfig, ties, token_loss
from minipar.pipeline import Schedule, by_name, even_cuts, gpipe, run
from minipar.train import Buckets
from tests.minipar.equality import assert_close_by_name
from tests.minipar.model.test_cuts import batch_of as text
from tests.minipar.model.test_cuts import dense as dense_gpt
from tests.minipar.model.test_gpt import ADAM
from tests.minipar.pipeline.models import batch_of, held, layers, published, through
from tests.minipar.pipeline.stages import squared

cloudpickle.register_pickle_by_value(sys.modules[__name__])  # so that no rank imports this file, and pytest with it

WEIGHT = "0.weight"


def tied_layers(stage: int, stages: int) -> nn.Module:
    """Stages that all start with the same first weight."""
    model = layers(stage, stages)
    model.load_state_dict({**model.state_dict(), WEIGHT: layers(100, stages).get_parameter(WEIGHT).detach()})
    return model


def trained(schedule: Schedule, tied: Sequence[int], mesh: Mesh, steps: int = 3, times: int = 1) -> dict[str, Tensor]:
    """This rank's weights, and the last gradients, after so many steps of `times` equal batches each."""
    stages = held(schedule, mesh, tied_layers)
    optimizer = torch.optim.AdamW([p for stage in stages.values() for p in stage.parameters()], **ADAM)
    for step in range(steps):
        optimizer.zero_grad()
        for _ in range(times):
            run(schedule, stages, batch_of(4, seed=step), squared, mesh, ties=[dict.fromkeys(tied, WEIGHT)])
        optimizer.step()
    return state(stages)


def dense(stages: int, tied: Sequence[int], steps: int = 3, times: int = 1) -> dict[str, Tensor]:
    model = nn.ModuleList([tied_layers(stage, stages) for stage in range(stages)])
    for stage in tied:
        model[stage][0].weight = model[tied[0]][0].weight
    optimizer = torch.optim.AdamW(model.parameters(), **ADAM)
    for step in range(steps):
        optimizer.zero_grad()
        x, target = batch_of(4, seed=step)
        for _ in range(times):
            squared(through(list(model), x), target).backward()
        optimizer.step()
    return state(dict(enumerate(model)))


def state(stages: dict[int, nn.Module]) -> dict[str, Tensor]:
    named = [(f"{s}.{name}", p) for s, stage in stages.items() for name, p in stage.named_parameters()]
    return {name: p.detach() for name, p in named} | {f"gradient of {name}": p.grad for name, p in named}


def train_as_dense(schedules: Sequence[Schedule], tied: Sequence[Sequence[int]]) -> None:
    cases = [(schedule, which) for schedule in schedules for which in tied if max(which) < schedule.stages]
    ranks = schedules[0].ranks

    def on_rank() -> list[dict[str, Tensor]]:
        mesh = Mesh(pp=ranks)
        return [trained(schedule, which, mesh) for schedule, which in cases]

    for (schedule, which), results in zip(
        cases, zip(*minipar.run(on_rank, ranks, timeout=30, device="cpu"), strict=True), strict=True
    ):
        ours = {name: tensor for mine in results for name, tensor in mine.items()}
        assert_close_by_name(ours, dense(schedule.stages, which))
        for prefix in ("", "gradient of "):
            copies = [ours[f"{prefix}{stage}.{WEIGHT}"] for stage in which]
            assert all(torch.equal(copy, copies[0]) for copy in copies), "bitwise equal"


def test_two_copies_train_as_one_weight_on_every_schedule() -> None:
    """Megatron-LM#844."""
    train_as_dense([s for s in published(2, 3) if s.stages == 2], [(0, 1)])
    # Stages 0 and 3 are on one rank in a V, 0 and 2 in a loop.
    train_as_dense([s for s in published(2, 3) if s.stages == 4], [(0, 3), (0, 2)])


def test_three_and_four_copies_train_as_one_weight() -> None:
    train_as_dense(published(3, 2), [(0, 1, 2), (2, 0), (0, 2, 3, 5)])


def test_gradients_of_two_batches_add_up_to_twice_the_gradient() -> None:
    schedules = [by_name(name, 2, 2) for name in ("1f1b", "zb-h1", "zb-v", "interleaved")]

    def on_rank() -> list[list[dict[str, Tensor]]]:
        mesh = Mesh(pp=2)
        return [
            [trained(schedule, (0, schedule.stages - 1), mesh, 1, times) for times in (1, 2)] for schedule in schedules
        ]

    for results in minipar.run(on_rank, 2, timeout=20, device="cpu"):
        for once, twice in results:
            gradients = {name: tensor for name, tensor in once.items() if name.startswith("gradient")}
            assert_close_by_name({name: twice[name] for name in gradients}, {n: 2 * g for n, g in gradients.items()})


def test_one_parameter_in_two_stages_of_a_rank_counts_once_in_each() -> None:
    # Stages 0 and 3 are one rank's in a V; there they hold the same parameter, and stage 1 on the other a copy.
    schedule, which = by_name("zb-v", 2, 3), (0, 1, 3)

    def on_rank() -> dict[str, Tensor]:
        mesh = Mesh(pp=2)
        stages = held(schedule, mesh, tied_layers)
        if 0 in stages:
            stages[3][0].weight = stages[0][0].weight  # type: ignore[index]
        parameters = dict.fromkeys(p for stage in stages.values() for p in stage.parameters())
        optimizer = torch.optim.AdamW(list(parameters), **ADAM)
        for step in range(3):
            optimizer.zero_grad()
            run(schedule, stages, batch_of(4, seed=step), squared, mesh, ties=[dict.fromkeys(which, WEIGHT)])
            optimizer.step()
        return state(stages)

    first, second = minipar.run(on_rank, 2, timeout=20, device="cpu")
    assert_close_by_name(first | second, dense(4, which))
    assert torch.equal(first[f"3.{WEIGHT}"], second[f"1.{WEIGHT}"])


def test_several_ties_are_each_a_weight_of_their_own() -> None:
    tied = [{0: WEIGHT, 2: WEIGHT}, {0: "2.bias", 1: "2.bias"}]

    def on_rank() -> dict[str, Tensor]:
        mesh = Mesh(pp=3)
        stages = held(gpipe(3, 2), mesh, tied_layers)
        run(gpipe(3, 2), stages, batch_of(4), squared, mesh, ties=tied)
        return state(stages)

    ours = {name: tensor for mine in minipar.run(on_rank, 3, timeout=20, device="cpu") for name, tensor in mine.items()}
    model = [tied_layers(stage, 3) for stage in range(3)]
    model[2][0].weight = model[0][0].weight  # type: ignore[index]
    x, target = batch_of(4)
    squared(through(model, x), target).backward()
    expected = state(dict(enumerate(model)))
    biases = [f"gradient of {stage}.2.bias" for stage in (0, 1)]
    total = sum(expected[name] for name in biases)
    assert_close_by_name(ours, expected | dict.fromkeys(biases, total))


def test_what_cannot_be_tied_is_refused_before_anything_is_sent() -> None:
    wrong: list[dict[int, str]] = [{0: WEIGHT, 2: WEIGHT}, {-1: WEIGHT}, {0: "1.weight"}, {0: "nothing"}]

    def on_rank() -> tuple[list[str], bool]:
        mesh, said, schedule = Mesh(pp=2), [], gpipe(2, 2)
        stages = held(schedule, mesh, tied_layers)
        for parameter in (p for stage in stages.values() for p in stage.parameters()):
            parameter.grad = torch.ones_like(parameter)
        for tie in wrong if mesh.pp.rank == 0 else []:  # alone: a message would wait here for ever
            try:
                run(schedule, stages, batch_of(2), squared, mesh, ties=[{0: WEIGHT, 1: WEIGHT}, tie])
            except ValueError as error:
                said.append(str(error))
        assert mesh.ledger.rows() == []
        kept = [bool((p.grad == 1).all()) for stage in stages.values() for p in stage.parameters()]  # type: ignore[union-attr]
        return said, all(kept)

    said, kept = minipar.run(on_rank, 2, timeout=20, device="cpu")[0]
    names = "0.weight, 0.bias, 2.weight, 2.bias"
    assert said == [
        "tie {0: '0.weight', 2: '0.weight'} names stage 2, but there are 2 stages",
        "tie {-1: '0.weight'} names stage -1, but there are 2 stages",
        f"stage 0 has no parameter '1.weight' to tie; it has {names}",
        f"stage 0 has no parameter 'nothing' to tie; it has {names}",
    ]
    assert kept, "the gradients that were there are there still"


def test_a_tie_is_a_message_each_way_and_none_on_one_rank() -> None:
    vee, plain = by_name("zb-v", 2, 2), gpipe(2, 2)

    def on_rank() -> list[int]:
        mesh, sizes = Mesh(pp=2), []
        for schedule, last in ((vee, 3), (plain, 1)):
            for tied in ([], [{0: WEIGHT, last: WEIGHT}]):
                stages = held(schedule, mesh, tied_layers)
                [row] = run(schedule, stages, batch_of(2), squared, mesh, ties=tied).traffic
                assert type(row) is Traffic
                sizes.append((row.calls, row.bytes))
        return sizes  # type: ignore[return-value]

    for alone, together, without, tied in minipar.run(on_rank, 2, timeout=20, device="cpu"):
        assert alone == together
        assert tied == (without[0] + 1, without[1] + 5 * 4 * 8)


CONFIG = GPTConfig(vocabulary=13, sequence=8, hidden=16, layers=3, heads=4, kv_heads=2, gated=True, tied=True)


@pytest.mark.parametrize(
    ("name", "pp", "tp"), [("1f1b", 2, 1), ("zb-h1", 3, 1), ("zb-h2", 2, 2), ("v-half", 2, 1), ("gpipe", 1, 2)]
)
def test_a_gpt_with_tied_embeddings_trains_as_the_dense_one(name: str, pp: int, tp: int) -> None:
    """Megatron-LM#844, torchtitan#2252."""
    schedule, samples = by_name(name, pp, 3), 4
    config = GPTConfig(**{**vars(CONFIG), "layers": max(3, schedule.stages)})

    def on_rank() -> tuple[list[float], list[dict[str, Tensor]], list[Tensor]]:
        mesh = Mesh(pp=pp, tp=tp)
        cuts, tied = even_cuts(config.layers, schedule.stages), ties(config, schedule.stages)
        stages: dict[int, Any] = held(schedule, mesh, lambda s, _: GPT(config, mesh, cuts[s], dtype=torch.float64))
        optimizer = torch.optim.AdamW([p for stage in stages.values() for p in stage.parameters()], **ADAM)
        losses, weights = [], []
        for step in range(3):
            optimizer.zero_grad()
            batch, loss = text(config, step, samples, 8), token_loss(config, mesh)
            losses.append(run(schedule, stages, batch, loss, mesh, ties=tied).loss)
            optimizer.step()
            whole: dict[str, Tensor] = {}
            for stage in stages.values():
                whole |= gather(stage.named_parameters(), manifest(stage), mesh.tp)
            weights.append(whole)
        copies = [stages[s].get_parameter(n).detach() for tie in tied for s, n in tie.items() if s in stages]
        return losses, weights, [mesh.tp.rank, *copies]  # type: ignore[list-item]

    everyone = minipar.run(on_rank, pp * tp, timeout=30, device="cpu")
    expected = dense_gpt(config, samples, 8)
    for losses, _, _ in everyone:
        assert losses == pytest.approx([step.loss for step in expected], rel=1e-12, abs=0)
    for step, theirs in enumerate(expected):
        assert_close_by_name({n: t for _, w, _ in everyone for n, t in w[step].items()}, theirs.weights)
    for rank in range(tp):
        copies = [copy for _, _, (at, *held_here) in everyone for copy in held_here if at == rank]
        assert len(copies) == (0 if schedule.stages == 1 else 2)
        assert all(torch.equal(copy, copies[0]) for copy in copies)


def alone(*weights: nn.Parameter, ties: Sequence[dict[int, str]]) -> None:
    """A step on one rank, whose stages are linear layers with these weights."""
    stages = {s: nn.Linear(4, 4, bias=False).double() for s in range(len(weights))}
    for stage, weight in zip(stages.values(), weights, strict=True):
        stage.weight = weight
    row = [("F", s, 0) for s in stages] + [("B", s, 0) for s in reversed(stages)]
    schedule = Schedule("alone", (tuple(minipar.pipeline.Action(*action) for action in row),), (0,) * len(stages))  # type: ignore[arg-type]
    x, target = batch_of(2)
    run(schedule, stages, (x, target), squared, Mesh(), ties=ties)


def random(seed: int, *shape: int) -> nn.Parameter:
    return nn.Parameter(
        torch.randn(*(shape or (4, 4)), dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
    )


def test_a_frozen_weight_that_is_tied_gets_no_gradient() -> None:
    one, two = random(0).requires_grad_(False), random(0).requires_grad_(False)
    alone(one, random(1), two, ties=[{0: "weight", 2: "weight"}])
    assert one.grad is two.grad is None


def test_two_ties_of_one_weight_are_refused_or_are_one_tie() -> None:
    weights = [random(0) for _ in range(3)]
    try:
        alone(*weights, ties=[{0: "weight", 1: "weight"}, {1: "weight", 2: "weight"}])
    except ValueError:
        return
    expected = [random(0) for _ in range(3)]
    alone(*expected, ties=[{0: "weight", 1: "weight", 2: "weight"}])
    assert all(torch.allclose(a.grad, b.grad) for a, b in zip(weights, expected, strict=True))  # type: ignore[arg-type]


def test_weights_of_different_shapes_are_refused_by_their_shapes() -> None:
    with pytest.raises(ValueError, match=r"\[4, 4\].*\[4, 5\]|\(4, 4\).*\(4, 5\)"):
        alone(random(0), random(1, 5, 4), random(2, 4, 5), ties=[{0: "weight", 2: "weight"}])


@pytest.mark.parametrize("times", [1, 2])
def test_main_gradients_of_tied_weights_are_one_sum(times: int) -> None:
    tie = [{0: "weight", 2: "weight"}]
    plain = [random(0), random(1), random(0)]
    alone(*plain, ties=tie)
    weights = [random(0), random(1), random(0)]
    models = {stage: nn.Module() for stage in range(3)}
    for model, weight in zip(models.values(), weights, strict=True):
        model.weight = weight
    Buckets(models, gpipe(1, 1), Mesh().dp, torch.float64, frozenset(tie[0].items())).zero()
    for _ in range(times):  # what was summed before counts once
        alone(*weights, ties=tie)
    assert torch.equal(weights[0].main_grad, weights[2].main_grad)
    for weight, expected in zip(weights, plain, strict=True):
        assert torch.allclose(weight.main_grad, times * expected.grad, rtol=1e-13, atol=0)
