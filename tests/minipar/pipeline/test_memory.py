"""What a rank keeps during a step, and that it keeps nothing afterwards."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

import cloudpickle
import torch
from torch import Tensor, nn
from torch.multiprocessing.reductions import StorageWeakRef

import minipar
from minipar import Mesh
from minipar.pipeline import Action, Schedule, evaluate, gpipe, one_f_one_b, run
from minipar.pipeline.step import Step
from minipar.wire import Line
from tests.minipar.pipeline.models import batch_of, held, layers, published
from tests.minipar.pipeline.stages import squared

cloudpickle.register_pickle_by_value(sys.modules[__name__])  # so that no rank imports this file, and pytest with it


def watched(before: Any = None, after: Any = None) -> list[Step]:
    """From now on call these around each action of a step; the list is of all steps that there are."""
    steps: list[Step] = []
    original = Step.do

    def do(self: Step, action: Action, arrived: Mapping[int, Any]) -> None:
        if self not in steps:
            steps.append(self)
        if before is not None:
            before(self, action)
        original(self, action, arrived)
        if after is not None:
            after(self, action)

    Step.do = do  # type: ignore[method-assign]
    Step.__eq__ = object.__eq__  # type: ignore[assignment,method-assign]
    return steps


def live(step: Step) -> tuple[int, int]:
    """Of how many micro-batches, stage by stage, activations are kept, and of how many only what W needs."""
    return len(step.live), 0 if step.store is None else len(step.store)


def test_as_many_micro_batches_are_live_as_the_schedule_says() -> None:
    ranks = 3
    schedules = [s for m in (2, 7) for s in published(ranks, m)]

    def on_rank() -> list[tuple[list[tuple[int, int]], list[int]]]:
        mesh, results = Mesh(pp=ranks), []
        counts: list[tuple[int, int]] = []
        steps = watched(after=lambda step, _: counts.append(live(step)))
        for schedule in schedules:
            run(schedule, held(schedule, mesh, layers), batch_of(7), squared, mesh)
            step = steps.pop()
            left = [*live(step), len(step.mail), sum(map(len, step.due.values())), len(steps)]
            results.append((counts.copy(), left))
            counts.clear()
        return results

    for rank, results in enumerate(minipar.run(on_rank, ranks, timeout=30, device="cpu")):
        for schedule, (counts, left) in zip(schedules, results, strict=True):
            peaks = schedule.peak_live[rank], schedule.peak_backlog[rank], schedule.peak_held[rank]
            assert (*map(max, zip(*counts, strict=True)), max(map(sum, counts))) == peaks, (schedule.name, rank)
            assert left == [0] * 5


class Watch:
    """The data of every stage's inputs and outputs, and whether it is still there."""

    def __init__(self, stages: Mapping[int, nn.Module]) -> None:
        self.inputs: dict[tuple[int, int], StorageWeakRef] = {}
        self.outputs: dict[tuple[int, int], StorageWeakRef] = {}
        for number, stage in stages.items():
            stage.register_forward_hook(self.hook(number))

    def hook(self, number: int) -> Any:
        def note(_: nn.Module, inputs: tuple[Tensor], output: Tensor) -> None:
            i = sum(stage == number for stage, _ in self.outputs)
            self.inputs[number, i] = StorageWeakRef(inputs[0].untyped_storage())
            self.outputs[number, i] = StorageWeakRef(output.untyped_storage())

        return note


def there(kept: Mapping[tuple[int, int], StorageWeakRef]) -> set[tuple[int, int]]:
    return {key for key, reference in kept.items() if not reference.expired()}


def in_order_of_micro_batches(schedule: Schedule) -> bool:
    """Whether each stage's forwards are done in the order of the micro-batches."""
    forwards = [a for row in schedule.actions for a in row if a.kind == "F"]
    return all([a.micro_batch for a in forwards if a.stage == s] == list(range(3)) for s in range(schedule.stages))


def test_outputs_are_freed_when_they_are_sent_and_inputs_when_their_backward_is_done() -> None:
    schedules = published(2, 3)
    assert all(map(in_order_of_micro_batches, schedules))

    def on_rank() -> list[tuple[list[Any], list[Any], int]]:
        mesh, results = Mesh(pp=2), []
        seen: list[Any] = []
        sent: list[Any] = []
        state: dict[str, Any] = {}

        def before(step: Step, action: Action) -> None:
            holder, watch, done = step.schedule.holder, state["watch"], state["done"]
            away = {key for key in watch.outputs if key[0] + 1 == len(holder) or holder[key[0] + 1] != mesh.pp.rank}
            sent.extend((action, key) for key in there(watch.outputs) & away)
            # The first stage's inputs are the caller's.
            seen.extend((action, key) for key in there(watch.inputs) & done if key[0] > 0)
            if action.kind in "BW":
                done.add(action[1:])

        steps = watched(before)
        for schedule in schedules:
            stages = held(schedule, mesh, layers)
            state.update(watch=Watch(stages), done=set())
            run(schedule, stages, batch_of(4), squared, mesh)
            steps.clear()
            kept = {key for key in there(state["watch"].inputs) if key[0] > 0} | there(state["watch"].outputs)
            results.append((list(sent), list(seen), len(kept)))
            assert len(state["done"]) == 3 * len(stages)
            sent.clear()
            seen.clear()
        return results

    for results in minipar.run(on_rank, 2, timeout=30, device="cpu"):
        for schedule, (sent, seen, kept) in zip(schedules, results, strict=True):
            assert sent == [], f"{schedule.name}: outputs that were sent are there still"
            assert seen == [], f"{schedule.name}: inputs are there after their backward"
            assert kept == 0, f"{schedule.name}: after the step"


def test_an_evaluation_keeps_no_activations() -> None:
    schedules = published(2, 3)

    def on_rank() -> list[list[int]]:
        mesh, results = Mesh(pp=2), []
        counts: list[int] = []
        state: dict[str, Any] = {}

        def before(step: Step, action: Action) -> None:
            counts.append(len(there(state["watch"].outputs)) + sum(live(step)))

        steps = watched(before)
        for schedule in schedules:
            stages = held(schedule, mesh, layers)
            state["watch"] = Watch(stages)
            evaluate(schedule, stages, batch_of(4), squared, mesh)
            steps.clear()
            counts.append(len(there(state["watch"].outputs)))
            results.append([max(counts), counts[-1], max(schedule.peak_live)])
            counts.clear()
        return results

    for results in minipar.run(on_rank, 2, timeout=30, device="cpu"):
        for schedule, (most, at_the_end, _) in zip(schedules, results, strict=True):
            # Results for a stage of the same rank wait for it, a micro-batch at a time or all of a turn.
            assert most <= (3 if schedule.stages == 4 else 0), schedule.name
            assert at_the_end == 0


def test_copies_of_what_was_sent_are_freed_while_the_step_goes_on() -> None:
    m = 16

    def on_rank() -> list[int]:
        mesh, waiting = Mesh(pp=2), []
        send = Line.send

        def counted(self: Line, *message: Any) -> None:
            send(self, *message)
            waiting.append(self.waiting)

        Line.send = counted  # type: ignore[method-assign]
        most = []
        for schedule in (one_f_one_b(2, m), gpipe(2, m)):
            run(schedule, held(schedule, mesh, layers), batch_of(m), squared, mesh)
            most.append(max(waiting))
            waiting.clear()
        return most

    for most, _ in minipar.run(on_rank, 2, timeout=20, device="cpu"):
        assert most <= 6  # of 16, and of what describes them


def test_gradients_are_all_that_a_step_leaves() -> None:
    schedule = gpipe(1, 3)
    stages, batch = {0: layers(0, 1)}, batch_of(3)
    watch = Watch(stages)
    result = run(schedule, stages, batch, squared, Mesh())
    assert type(result.loss) is float
    assert there(watch.outputs) == set()
    assert all(p.grad is not None and p.grad.grad_fn is None for p in stages[0].parameters())
    assert torch.is_grad_enabled()
