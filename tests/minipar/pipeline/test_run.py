from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
import torch
from torch import Tensor

import minipar
from minipar import Mesh
from minipar.ledger import Traffic
from minipar.pipeline import (
    Action,
    Costs,
    Schedule,
    StepResult,
    Timeline,
    difference,
    gpipe,
    naive,
    parse,
    run,
    simulate,
)
from minipar.pipeline.names import LOOPED, NAMES, by_name
from tests.minipar.equality import assert_close_by_name
from tests.minipar.pipeline.stages import WIDTHS, Stage, batch_of, gradients, squared, unsplit


def steps(schedules: Sequence[Schedule], samples: Sequence[int], ranks: int) -> None:
    """Run each schedule twice on new stages, with batches of so many samples, and compare with unsplit."""

    def on_rank() -> list[tuple[list[float], dict[str, Tensor]]]:
        mesh, results = Mesh(pp=ranks), []
        for schedule, size in zip(schedules, samples, strict=True):
            stages = {s: Stage(s, schedule.stages) for s, rank in enumerate(schedule.holder) if rank == mesh.pp.rank}
            batches = batch_of(size, schedule.stages), batch_of(size + 1, schedule.stages, sequence=5)
            losses = [run(schedule, stages, batch, squared, mesh).loss for batch in batches]
            results.append((losses, gradients(stages)))
        return results

    everyone = minipar.run(on_rank, ranks, timeout=30, device="cpu")
    for i, (schedule, size) in enumerate(zip(schedules, samples, strict=True)):
        p = schedule.stages
        losses, whole = unsplit(p, batch_of(size, p), batch_of(size + 1, p, sequence=5))
        assert len(whole) == 3 * p, "the unused parameters have no gradient"
        ours: dict[str, Tensor] = {}
        for ours_losses, held in (results[i] for results in everyone):
            assert ours_losses == pytest.approx(losses, rel=1e-12, abs=0), schedule.name
            assert ours_losses == everyone[0][i][0], "the loss is the same on every rank"
            ours |= held
        assert_close_by_name(ours, whole)


@pytest.mark.parametrize("p", [1, 2, 3, 4])
@pytest.mark.parametrize("name", NAMES)
def test_published_schedules_equal_unsplit_for_ragged_batches_and_few_micro_batches(name: str, p: int) -> None:
    degrees = (2, 3) if name in LOOPED else (None,)  # every degree and number: tests/minipar/model/test_pipelines.py
    sizes = [(by_name(name, p, m, v), samples) for m, samples in ((1, 1), (3, 5), (4, 9), (8, 9)) for v in degrees]
    steps(*zip(*sizes, strict=True), ranks=p)


LEARNERS = [
    ["F0 F1 F2 B0 F3 B1 B2 B3", "F0 F1 B0 F2 B1 F3 B2 B3", "F0 B0 F1 B1 F2 B2 F3 B3"],  # 1F1B
    ["F0 F1 F2 B2 B1 B0", "F0 F1 F2 B1 B2 B0", "F2 F0 B0 F1 B1 B2"],  # each rank in another order
    ["F1 F0 B0 B1", "F0 F1 B1 B0", "F0 B0 F1 B1"],
]


def test_learners_own_schedules_equal_unsplit() -> None:
    steps([parse(rows) for rows in LEARNERS], [7, 4, 5], ranks=3)


def laid_out(holder: tuple[int, ...], rows: Sequence[str]) -> Schedule:
    """A schedule from words of kind, stage and micro-batch, such as F20."""
    actions = tuple(tuple(Action(w[0], int(w[1]), int(w[2])) for w in row.split()) for row in rows)
    return Schedule(str(holder), actions, holder)


def test_several_stages_on_a_rank_equal_unsplit() -> None:
    loop = ["F00 F01 F20 F21 B20 B21 B00 B01", "F10 F11 F30 B30 F31 B31 B10 B11"]
    vee = ["F00 F01 F30 B30 F31 B31 B00 B01", "F10 F20 F11 F21 B20 B10 B21 B11"]
    same = ["F00 F10 B10 B00 F01 F11 B11 B01", "F20 B20 F21 B21"]
    schedules = [laid_out((0, 1, 0, 1), loop), laid_out((0, 1, 1, 0), vee), laid_out((0, 0, 1), same)]
    steps(schedules, [5, 4, 2], ranks=2)


def test_what_does_not_fit_is_refused_before_anything_is_sent() -> None:
    def on_rank() -> list[str]:
        mesh, messages = Mesh(pp=2), []
        one, two = {0: Stage(0, 2)}, {0: Stage(0, 2), 1: Stage(1, 2)}
        wrong = [
            (gpipe(2, 5), one),
            (gpipe(2, 2), two),
            (gpipe(2, 2), {}),
            (gpipe(3, 2), one),
            (parse(["B0", "F0"]), one),
        ]
        for schedule, stages in wrong if mesh.pp.rank == 0 else []:  # alone: a message would wait here for ever
            try:
                run(schedule, stages, batch_of(4, 2), squared, mesh)
            except ValueError as error:
                messages.append(str(error))
        assert mesh.ledger.rows() == []
        return messages

    assert minipar.run(on_rank, 2, timeout=15)[0] == [
        "5 micro-batches need at least as many samples; the batch has 4",
        "pipeline rank 0 holds stages [0], but was given [0, 1]",
        "pipeline rank 0 holds stages [0], but was given []",
        "schedule 'GPipe' is for pp=3, but the mesh has pp=2",
        "F0 of stage 0 is missing on rank 0 (2 missing in all)",
    ]


@pytest.mark.parametrize("make", [gpipe, naive])
def test_every_micro_batch_has_its_own_loss_that_is_sent_back_once(make: Any) -> None:
    def on_rank() -> tuple[float, list[float], list[tuple[float, float]]]:
        mesh, made, sent_back = Mesh(pp=2), [], []

        def noted(output: Tensor, target: Tensor) -> Tensor:
            loss = squared(output, target)
            made.append(value := loss.item())
            loss.register_hook(lambda gradient: sent_back.append((value, gradient.item())))
            return loss

        result = run(make(2, 4), {mesh.pp.rank: Stage(mesh.pp.rank, 2)}, batch_of(6, 2), noted, mesh)
        return result.loss, made, sent_back

    (_, nothing, _), (loss, made, sent_back) = minipar.run(on_rank, 2, timeout=20)
    assert nothing == []
    assert len(set(made)) == 4
    assert sent_back == [(value, pytest.approx(share / 6)) for value, share in zip(made, (2, 2, 1, 1), strict=True)]
    assert loss == pytest.approx(sum(value * share / 6 for value, share in zip(made, (2, 2, 1, 1), strict=True)))


def test_an_error_in_a_stage_reaches_the_caller() -> None:
    def on_rank() -> None:
        mesh = Mesh(pp=3)
        stage = Stage(mesh.pp.rank, 3)
        if mesh.pp.rank == 1:
            stage.register_full_backward_pre_hook(lambda *_: 1 // 0)
        run(gpipe(3, 2), {mesh.pp.rank: stage}, batch_of(4, 3), squared, mesh)

    with pytest.raises(minipar.RankFailed, match="rank 1 raised ZeroDivisionError") as error:
        minipar.run(on_rank, 3, timeout=20)
    assert error.value.rank == 1


def stepped(schedule: Schedule, batch: tuple[Tensor, Tensor]) -> list[StepResult]:
    """What one step gives each rank, on a mesh that has sent something before."""

    def on_rank() -> StepResult:
        mesh = Mesh(pp=schedule.ranks)
        minipar.comm.all_reduce(torch.ones(3), mesh.pp)
        return run(schedule, {mesh.pp.rank: Stage(mesh.pp.rank, schedule.ranks)}, batch, squared, mesh)

    return minipar.run(on_rank, schedule.ranks, timeout=30, device="cpu")


def test_the_timeline_has_every_action_in_order_and_one_at_a_time() -> None:
    schedule = parse(LEARNERS[0])
    first, *others = (result.timeline for result in stepped(schedule, batch_of(4, 3)))
    assert all(other == first for other in others)
    assert first.ranks == 3
    for rank, actions in enumerate(schedule.actions):
        spans = [span for span in first.spans if span.rank == rank]
        assert tuple(span.action for span in spans) == actions
        times = [time for span in spans for time in (span.start, span.end)]
        assert times == sorted(times)
        assert times[0] >= 0


@pytest.mark.parametrize("name", NAMES)
def test_a_paced_step_has_the_bubble_that_was_simulated(name: str) -> None:
    schedule = by_name(name, 4, 8)
    pace = 0.06 if schedule.virtual == 1 else 0.07  # a hand-over takes 1 or 2 ms, and there are twice as many
    costs = Costs(pace, input=pace, weight=pace)
    predicted = simulate(schedule, costs)

    def on_rank() -> list[Timeline]:
        mesh, measured = Mesh(pp=4), []
        stages = {s: Stage(s, schedule.stages) for s, rank in enumerate(schedule.holder) if rank == mesh.pp.rank}
        batch = batch_of(8, schedule.stages)
        while len(measured) < 4 and not any(abs(off(timeline)) < 0.03 for timeline in measured):  # others work here too
            measured.append(run(schedule, stages, batch, squared, mesh, costs).timeline)
        return measured

    def off(timeline: Timeline) -> float:
        return timeline.bubble_of_total - predicted.bubble_of_total

    measured = minipar.run(on_rank, 4, timeout=30, device="cpu")[0]
    print(
        f"{name}: predicted {predicted.bubble_of_total:.3f}, measured minus that {[f'{off(m):+.3f}' for m in measured]}"
    )
    assert min(abs(off(timeline)) for timeline in measured) < 0.03
    for timeline in measured:
        assert timeline.emulated
        assert all(end - start >= costs.of(action) for _, action, start, end in timeline.spans)
        assert sum(difference(predicted, timeline)) == pytest.approx(timeline.duration - predicted.duration)


def test_the_traffic_is_a_message_for_each_micro_batch_and_border() -> None:
    p, m, samples, sequence = 3, 4, 6, 3
    tokens = samples * sequence
    for rank, result in enumerate(stepped(gpipe(p, m), batch_of(samples, p))):
        messages = size = 0
        if rank + 1 < p:  # hidden, mask, positions, scale and what nobody heeds go on
            messages, size = messages + m, size + tokens * (8 * WIDTHS[rank + 1] + 1 + 8 + 8 + 8)
        if rank > 0:  # the gradients of the first and the last of these come back
            messages, size = messages + m, size + tokens * (8 * WIDTHS[rank] + 8)
        assert result.traffic == [Traffic("send", "pp", p, messages, size)]


def test_alone_nothing_is_sent() -> None:
    assert stepped(gpipe(1, 3), batch_of(3, 1))[0].traffic == []


def test_pipelines_side_by_side_are_each_their_own() -> None:
    def on_rank() -> tuple[int, float, dict[str, Tensor]]:
        mesh = Mesh(dp=2, pp=2)
        stages = {mesh.pp.rank: Stage(mesh.pp.rank, 2)}
        result = run(gpipe(2, 3), stages, batch_of(5 + mesh.dp.rank, 2), squared, mesh)
        return mesh.dp.rank, result.loss, gradients(stages)

    results = minipar.run(on_rank, 4, timeout=20, device="cpu")
    for replica in (0, 1):
        [loss], whole = unsplit(2, batch_of(5 + replica, 2))
        mine = [(ours, held) for dp, ours, held in results if dp == replica]
        assert [ours for ours, _ in mine] == pytest.approx([loss] * 2, rel=1e-12, abs=0)
        assert_close_by_name(mine[0][1] | mine[1][1], whole)
