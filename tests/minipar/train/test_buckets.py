"""Buckets: gradients summed in float32, and on their way as soon as they are complete."""

from __future__ import annotations

import sys
from typing import Any

import cloudpickle
import pytest
import torch
from torch import Tensor, nn

import minipar
from minipar import Mesh, comm
from minipar.pipeline import Action, by_name, gpipe, one_f_one_b, run
from minipar.train import Buckets
from tests.minipar.equality import assert_close_by_name
from tests.minipar.pipeline.models import batch_of, held, layers
from tests.minipar.pipeline.stages import squared

cloudpickle.register_pickle_by_value(sys.modules[__name__])


def buckets_of(model: nn.Module, **options: Any) -> Buckets:
    return Buckets({0: model}, gpipe(1, 1), Mesh().dp, torch.float32, **options)


def add(model: nn.Linear, *gradients: float) -> None:
    """Backward passes whose gradient of the weight is each of these numbers."""
    for gradient in gradients:
        model(torch.full((1, 1), gradient, dtype=model.weight.dtype)).sum().backward()


def test_small_gradients_are_not_lost_beside_large_ones() -> None:
    """ISEEKYAN/Megatron-LM#149: 256 + 1 is 256 in bfloat16."""
    plain, summed = (nn.Linear(1, 1, bias=False, dtype=torch.bfloat16) for _ in range(2))
    buckets_of(summed).zero()
    for model in (plain, summed):
        add(model, 256, 1)
    assert plain.weight.grad.item() == 256
    assert summed.weight.main_grad.dtype == torch.float32
    assert summed.weight.main_grad.item() == 257
    assert summed.weight.grad is None


def test_a_thousand_micro_batches_sum_exactly_and_a_new_step_begins_at_0() -> None:
    model = nn.Linear(1, 1, bias=False, dtype=torch.bfloat16)
    buckets = buckets_of(model)
    buckets.zero()
    add(model, *[1] * 1000)
    assert model.weight.main_grad.item() == 1000
    buckets.zero()
    add(model, 3)
    assert model.weight.main_grad.item() == 3


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_weight_used_twice_counts_once_a_backward_and_a_frozen_one_has_no_slot(dtype: torch.dtype) -> None:
    frozen = nn.Linear(1, 1, dtype=dtype).requires_grad_(False)
    model = nn.ModuleDict({"one": nn.Linear(1, 1, bias=False, dtype=dtype), "frozen": frozen})
    model["other"] = model["one"]
    buckets = buckets_of(model)
    buckets.zero()
    x = torch.ones(1, 1, dtype=dtype)
    (model["one"](x) + 2 * model["other"](x) + model["frozen"](x)).sum().backward()
    assert [slot.name for _, slot in buckets.slots] == ["one.weight"]
    assert model["one"].weight.main_grad.item() == 3


def test_parameters_keep_their_values_and_live_in_buckets_of_the_size_asked_for() -> None:
    model = nn.Sequential(*(nn.Linear(8, 8) for _ in range(6)))
    before = {name: p.detach().clone() for name, p in model.named_parameters()}
    buckets = buckets_of(model, size=(2 * 64 + 2 * 8) * 4)
    assert all(torch.equal(p, before[name]) for name, p in model.named_parameters())
    assert [[slot.name for slot in bucket.slots] for bucket in buckets.buckets] == [
        ["5.weight", "4.weight", "5.bias", "4.bias"],
        ["3.weight", "2.weight", "3.bias", "2.bias"],
        ["1.weight", "0.weight", "1.bias", "0.bias"],
    ]
    for bucket, slot in buckets.slots:
        assert slot.parameter.untyped_storage().data_ptr() == bucket.model.untyped_storage().data_ptr()


@pytest.mark.parametrize("shard", [False, True])
@pytest.mark.parametrize("name", ["1f1b", "interleaved", "zb-h1", "zb-v", "gpipe"])
def test_replicas_add_up_under_every_kind_of_schedule(name: str, shard: bool) -> None:
    schedule = by_name(name, 2, 3)
    batch = batch_of(6)

    def on_rank() -> dict[str, Tensor]:
        mesh = Mesh(dp=2, pp=2)
        stages = held(schedule, mesh, layers)
        buckets = Buckets(stages, schedule, mesh.dp, torch.float64, shard=shard, size=200)
        for _ in range(2):  # the second step must not see the first one's sums
            buckets.zero()
            part = tuple(t.tensor_split(2)[mesh.dp.rank] for t in batch)
            run(schedule, stages, part, squared, mesh, before=buckets.before, after=buckets.after, whole=6)
            buckets.finish()
        if shard:
            for bucket in buckets.buckets:
                comm.all_gather_in_place(bucket.gradients, mesh.dp)
        return {f"{s}.{n}": p.main_grad.clone() for s, stage in stages.items() for n, p in stage.named_parameters()}

    whole, mesh = gpipe(1, 1), Mesh()
    dense = nn.Sequential(*(layers(stage, schedule.stages) for stage in range(schedule.stages)))
    run(whole, {0: dense}, batch, squared, mesh)
    expected = {n: torch.zeros_like(p) if p.grad is None else p.grad for n, p in dense.named_parameters()}
    results = minipar.run(on_rank, 4, timeout=20, device="cpu")
    for rank in (0, 1):  # the two replicas of each pipeline rank
        ours = results[rank] | results[2 + rank]
        assert_close_by_name(ours, expected)


@pytest.mark.parametrize(("name", "last"), [("1f1b", "B"), ("zb-h1", "W")])
def test_reductions_start_within_the_last_backward_or_behind_the_last_weight_gradients(name: str, last: str) -> None:
    schedule = by_name(name, 1, 3)

    def on_rank() -> list[str]:
        mesh, events = Mesh(dp=2), []
        stages = held(schedule, mesh, layers)
        buckets = Buckets(stages, schedule, mesh.dp, torch.float64, size=8)
        started = comm.start_all_reduce_in_place

        def noted(*arguments: Any) -> comm.Pending:
            events.append("reduce")
            return started(*arguments)

        def after(action: Action) -> None:
            events.append(f"{action.kind}{action.micro_batch}")
            buckets.after(action)

        comm.start_all_reduce_in_place = noted
        buckets.zero()
        run(schedule, stages, batch_of(3), squared, mesh, before=buckets.before, after=after)
        events.append("end")
        buckets.finish()
        return events

    for events in minipar.run(on_rank, 2, timeout=20, device="cpu"):
        first, end = events.index("reduce"), events.index(f"{last}2")
        assert "reduce" in events[:end] if last == "B" else first > end
        assert first > events.index(f"{last}1"), "before the last micro-batch nothing is complete"
        assert "reduce" not in events[events.index("end") :]


def test_tied_weights_wait_until_their_copies_are_added_up() -> None:
    """Megatron-LM#844: reduced over the replicas first, the copies' gradients differ."""
    schedule = one_f_one_b(2, 2)

    def on_rank() -> tuple[list[Tensor], list[str]]:
        mesh, events = Mesh(dp=2, pp=2), []
        stages = held(schedule, mesh, layers)
        tie = {0: "0.weight", 1: "0.weight"}
        tied = frozenset(tie.items())
        buckets = Buckets(stages, schedule, mesh.dp, torch.float64, tied)
        waiting = [bucket for bucket in buckets.buckets if any(slot.name == "0.weight" for slot in bucket.slots)]
        buckets.zero()
        part = tuple(t.tensor_split(2)[mesh.dp.rank] for t in batch_of(4))
        run(schedule, stages, part, squared, mesh, before=buckets.before, after=buckets.after, ties=[tie], whole=4)
        events += ["early" for bucket in waiting if bucket.pending]
        buckets.finish()
        return [stage.get_parameter("0.weight").main_grad.clone() for stage in stages.values()], events

    results = minipar.run(on_rank, 4, timeout=20, device="cpu")
    copies = [gradient for gradients, _ in results for gradient in gradients]
    assert len(copies) == 4
    assert all(torch.equal(copy, copies[0]) for copy in copies)
    assert copies[0].abs().max() > 0
    assert not any(events for _, events in results)
