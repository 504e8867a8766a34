"""Kinds of fault that others had in pipelines, each named by its public report."""

from __future__ import annotations

import importlib
import sys
import time
from typing import Any

import cloudpickle
import pytest
import torch
from torch import Tensor, nn

import minipar
from minipar import Mesh, RankFailed
from minipar.pipeline import (
    Costs,
    DeferredBatchNorm,
    Schedule,
    by_name,
    commit_batch_norms,
    defer_batch_norms,
    evaluate,
    run,
    simulate,
)
from minipar.pipeline.names import LOOPED, NAMES
from minipar.pipeline.run import split_batch
from minipar.store import WeightStore
from tests.minipar.equality import assert_close, assert_close_by_name
from tests.minipar.pipeline.models import (
    WIDTH,
    Batch,
    Case,
    Make,
    Skips,
    assert_equal_to_dense,
    batch_of,
    held,
    layers,
    published,
    seeded,
    through,
)
from tests.minipar.pipeline.stages import gradients, squared

cloudpickle.register_pickle_by_value(sys.modules[__name__])  # so that no rank imports this file, and pytest with it

SPLIT = ("zb-h1", "zb-h2", "zb-v", "v-half", "v-min", "dualpipe-v")


def test_accumulation_over_two_batches_is_one_step_of_both() -> None:
    """pytorch PR#144352, torchtitan#1733."""
    batches = batch_of(5, seed=1), batch_of(4, seed=2)
    cases = [Case(schedule, batches, whole=9) for schedule in published(2, 4)]
    assert_equal_to_dense(cases)
    both = tuple(torch.cat(tensors) for tensors in zip(*batches, strict=True))
    shares, summed = cases[0].dense()
    [loss], whole = Case(cases[0].schedule, (both,)).dense()  # type: ignore[arg-type]
    assert sum(shares) == pytest.approx(loss, rel=1e-12)
    assert_close_by_name(summed, whole)


def test_ragged_micro_batches_count_by_their_samples() -> None:
    """pytorch#126600, PiPPy PR#192."""
    sizes = ((8, 3), (5, 4))
    assert_equal_to_dense([Case(s, (batch_of(b),)) for b, m in sizes for s in published(2, m)])


def test_there_are_as_many_micro_batches_as_were_asked_for() -> None:
    """PiPPy PR#192."""
    for samples in range(1, 21):
        batch = torch.arange(samples), torch.arange(samples)
        for m in range(1, samples + 1):
            parts = split_batch(batch, m)
            sizes = [len(x) for x, _ in parts]
            assert len(parts) == m
            assert 0 < min(sizes) >= max(sizes) - 1
            assert torch.equal(torch.cat([x for x, _ in parts]), batch[0])
            assert all(torch.equal(x, y) for x, y in parts)
        with pytest.raises(ValueError, match=f"a batch of {samples} samples cannot be cut into {samples + 1}"):
            split_batch(batch, samples + 1)


def test_more_micro_batches_than_samples_are_refused_before_anything_is_sent() -> None:
    """pytorch#126600."""

    def on_rank() -> tuple[list[str], int]:
        mesh, said = Mesh(pp=2), []
        for schedule in published(2, 4) if mesh.pp.rank == 1 else []:  # alone: a message would wait here for ever
            for call in (run, evaluate):
                try:
                    call(schedule, held(schedule, mesh, layers), batch_of(3), squared, mesh)
                except ValueError as error:
                    said.append(str(error))
        return said, len(mesh.ledger.rows())

    _, (said, rows) = minipar.run(on_rank, 2, timeout=20, device="cpu")
    assert said == ["4 micro-batches need at least as many samples; the batch has 3"] * (2 * len(NAMES))
    assert rows == 0


def test_each_micro_batch_has_its_own_loss_whose_gradient_goes_back_once() -> None:
    """DeepSpeed#3900."""
    schedules, batch = published(2, 4), batch_of(6)

    def on_rank() -> list[tuple[float, list[float], list[tuple[float, float]]]]:
        mesh, results = Mesh(pp=2), []
        for schedule in schedules:
            made: list[float] = []
            back: list[tuple[float, float]] = []

            def noted(output: Tensor, target: Tensor, made: Any = made, back: Any = back) -> Tensor:
                loss = squared(output, target)
                made.append(value := loss.item())
                loss.register_hook(lambda gradient: back.append((value, gradient.item())))
                return loss

            results.append((run(schedule, held(schedule, mesh, layers), batch, noted, mesh).loss, made, back))
        return results

    everyone = minipar.run(on_rank, 2, timeout=30, device="cpu")
    for i, schedule in enumerate(schedules):
        last = schedule.holder[-1]
        loss, made, back = everyone[last][i]
        assert everyone[1 - last][i] == (loss, [], [])
        model = [layers(s, schedule.stages) for s in range(schedule.stages)]
        wanted = [(squared(through(model, x), y).item(), len(x) / 6) for x, y in split_batch(batch, 4)]
        assert len(set(made)) == 4
        assert sorted(made) == pytest.approx(sorted(value for value, _ in wanted), rel=1e-12)
        assert sorted(back) == [pytest.approx(pair, rel=1e-12) for pair in sorted(wanted)]
        assert loss == pytest.approx(sum(value * share for value, share in wanted), rel=1e-12)


@pytest.mark.parametrize("p", [3, 4])
def test_fewer_micro_batches_than_stages_finish(p: int) -> None:
    """torchtitan#775, PiPPy#1064."""
    assert_equal_to_dense([Case(s, (batch_of(p + 1),)) for m in range(1, p + 1) for s in published(p, m)])


@pytest.mark.parametrize("name", LOOPED)
def test_a_loop_over_two_ranks_where_the_next_is_also_the_previous(name: str) -> None:
    """Megatron-LM#750, pytorch PR#129597."""
    assert_equal_to_dense([Case(by_name(name, 2, m, v), (batch_of(m + 1),)) for m in (2, 3, 5) for v in (2, 3)])


def test_large_messages_on_gloo_have_arrived_before_they_are_used() -> None:
    """pytorch#132644, PR#152938."""
    assert minipar.run(lambda: Mesh(pp=3).placement.transport, 3, device="cpu", timeout=20) == ["gloo"] * 3
    large = batch_of(4, sequence=5000)  # 160,000 bytes a sample: more than a socket takes at once
    assert_equal_to_dense([Case(schedule, (large,), mixed) for schedule in published(3, 3)])


class Trimmed(nn.Module):
    """Drops what is padding in all of a micro-batch, so that their lengths differ; the last stage puts it back."""

    def __init__(self, stage: int, stages: int) -> None:
        super().__init__()
        self.first, self.last, self.inner = stage == 0, stage + 1 == stages, layers(stage, stages)

    def forward(self, x: Tensor, *length: Tensor) -> Any:
        if self.first:
            length = (torch.tensor(x.shape[1]),)
            x = x[:, : int((x != 0).any(-1).sum(-1).max())]
        y = self.inner(x)
        if self.last:
            return nn.functional.pad(y, (0, 0, 0, int(length[0]) - y.shape[1]))
        return y, length[0]


def padded(samples: int, sequence: int) -> Batch:
    x, y = batch_of(samples, sequence)
    for i in range(samples):
        x[i, 1 + i % sequence :] = y[i, 1 + i % sequence :] = 0
    return x, y


def product(output: Tensor, target: Tensor) -> Tensor:
    return (output * target).sum((1, 2)).mean()


def test_shapes_change_between_steps_and_between_the_micro_batches_of_one() -> None:
    """DeepSpeed#4777, PR#5481."""
    lengths = tuple(batch_of(3, sequence) for sequence in (5, 9, 2, 9))
    cases = [Case(schedule, lengths) for schedule in published(2, 3)]
    cases += [Case(schedule, (padded(5, 5), padded(4, 9)), Trimmed, loss=product) for schedule in published(2, 4)]
    assert_equal_to_dense(cases)


class Mixed(nn.Module):
    """Between stages: hidden (not contiguous), a bool mask, int positions, a float and a number without gradient."""

    def __init__(self, stage: int, stages: int) -> None:
        super().__init__()
        self.first, self.last, self.inner = stage == 0, stage + 1 == stages, layers(stage, stages)

    def forward(self, x: Tensor, *others: Tensor) -> Any:
        if self.first:
            positions = torch.arange(x.shape[1]).expand(x.shape[:2])
            others = x[..., 0] > 0, positions, x[..., 1].abs(), torch.tensor(2.0), x[:, :0]
        mask, positions, scale, number, nothing = others
        assert [t.dtype for t in others] == [torch.bool, torch.int64, torch.float64, torch.float32, torch.float64]
        assert not any(t.requires_grad for t in others)
        assert self.first or x.requires_grad == torch.is_grad_enabled()
        assert number.shape == ()
        assert nothing.shape == (len(x), 0, WIDTH)
        y = (self.inner(x) * (scale * number)[..., None] + positions[..., None]).masked_fill(mask[..., None], 0.5)
        return y if self.last else (y.mT.contiguous().mT, ~mask, positions + 1, scale / 2, number + 1, nothing)


def mixed(stage: int, stages: int) -> nn.Module:
    return Mixed(stage, stages)


def test_every_kind_of_tensor_goes_between_stages() -> None:
    """DeepSpeed#969, pytorch#153484, torchtitan#3584."""
    assert_equal_to_dense([Case(schedule, (batch_of(4), batch_of(5)), mixed) for schedule in published(3, 3)])


class Noisy(nn.Module):
    """A dropout in training, and one that is frozen in evaluation mode."""

    def __init__(self, stage: int, stages: int) -> None:
        super().__init__()
        self.inner, self.drop, self.frozen = layers(stage, stages), nn.Dropout(0.5), nn.Dropout(0.5).eval()

    def forward(self, x: Tensor) -> Tensor:
        return self.frozen(self.drop(self.inner(x)))


def test_evaluation_before_and_after_training_leaves_no_trace() -> None:
    """pytorch#162822, DeepSpeed PR#3316."""
    schedules, batch = published(2, 3), batch_of(5)

    def on_rank() -> list[tuple[list[float], bool, dict[str, Tensor]]]:
        mesh, results = Mesh(pp=2), []
        for schedule in schedules:
            stages = held(schedule, mesh, lambda s, n: Noisy(s, n))
            modules = [module for stage in stages.values() for module in stage.modules()]
            modes, state = [module.training for module in modules], torch.get_rng_state()
            losses = [evaluate(schedule, stages, batch, squared, mesh)]
            clean = not gradients(stages) and torch.equal(torch.get_rng_state(), state)
            losses.append(run(schedule, stages, batch, squared, mesh).loss)
            trained, state = {name: g.clone() for name, g in gradients(stages).items()}, torch.get_rng_state()
            losses.append(evaluate(schedule, stages, batch, squared, mesh))
            clean &= all(torch.equal(g, trained[name]) for name, g in gradients(stages).items())
            clean &= torch.equal(torch.get_rng_state(), state) and modes == [m.training for m in modules]
            losses.append(run(schedule, stages, batch, squared, mesh).loss)
            results.append((losses, clean, trained))
        return results

    everyone = minipar.run(on_rank, 2, timeout=30, device="cpu")
    for i, schedule in enumerate(schedules):
        assert everyone[0][i][0] == everyone[1][i][0], "the same losses on all ranks"
        model = [Noisy(s, schedule.stages).eval() for s in range(schedule.stages)]
        before, noisy, after, other = everyone[0][i][0]
        assert before == after == pytest.approx(squared(through(model, batch[0]), batch[1]).item(), rel=1e-12)
        assert len({before, noisy, other}) == 3, "the trainings have dropout, each its own"
        assert all(clean and trained for _, clean, trained in (results[i] for results in everyone))


class Twice(nn.Module):
    """One linear layer used twice, one whose weight is also used by itself, and a matrix without a layer."""

    def __init__(self, stage: int, stages: int) -> None:
        super().__init__()
        self.shared = seeded(2 * stage, nn.Linear, WIDTH, WIDTH)
        self.bare = seeded(2 * stage + 1, nn.Linear, WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.shared(torch.tanh(self.shared(x)))  # the residual's gradient is the first layer's too
        return self.bare(x) @ self.bare.weight + x * self.bare.bias


def test_a_weight_used_twice_counts_twice_and_nothing_is_left_in_the_store() -> None:
    """pytorch#180952, #144530; zero-bubble#72."""
    schedules = [by_name(name, 2, 3) for name in SPLIT]
    assert_equal_to_dense([Case(schedule, (batch_of(4), batch_of(5)), Twice) for schedule in schedules])

    def on_rank() -> list[tuple[int, int]]:
        mesh, results = Mesh(pp=2), []
        module: Any = importlib.import_module("minipar.pipeline.run")
        for schedule in schedules:
            made: list[WeightStore] = []
            waited: list[int] = []

            class Noted(WeightStore):
                def __init__(self, made: list[WeightStore] = made) -> None:
                    super().__init__()
                    made.append(self)

                def finish(self, key: Any, waited: list[int] = waited) -> None:
                    waited.append(len(self))
                    super().finish(key)

            module.WeightStore = Noted
            run(schedule, held(schedule, mesh, Twice), batch_of(4), squared, mesh)
            results.append((len(waited), sum(map(len, made))))
            assert min(waited, default=1) == 1
        return results

    for rank, results in enumerate(minipar.run(on_rank, 2, timeout=20, device="cpu")):
        kinds = [[action.kind for action in schedule.actions[rank]] for schedule in schedules]
        assert results == [(sum(k in "BW" for k in row) if "I" in row else 0, 0) for row in kinds]
        assert sum(count > 0 for count, _ in results) >= 5


def test_to_pop_what_is_not_in_the_store_is_an_error() -> None:
    """zero-bubble#72."""
    store = WeightStore()
    with pytest.raises(KeyError, match=r"no weight gradients of \(0, 1\) wait"):
        store.finish((0, 1))
    with store.opened((0, 1)):
        pass
    with pytest.raises(KeyError, match=r"\(0, 1\) wait already"), store.opened((0, 1)):
        pass
    store.finish((0, 1))
    with pytest.raises(KeyError, match="no weight gradients"):
        store.finish((0, 1))
    assert len(store) == 0


class Marked(nn.Module):
    """Passes on what it is given, times a weight of 1."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones((), dtype=torch.float64))

    def forward(self, x: Tensor) -> Tensor:
        return x * self.weight


@pytest.mark.parametrize("replicas", [1, 2])
def test_inputs_meet_the_labels_of_their_samples(replicas: int) -> None:
    """DeepSpeed#5729."""
    schedules, samples = published(2, 3), 7

    def on_rank() -> list[tuple[list[list[float]], list[list[float]]]]:
        mesh, results = Mesh(dp=replicas, pp=2), []
        index = torch.arange(samples * replicas).double().tensor_split(replicas)[mesh.dp.rank]
        for schedule in schedules:
            pairs: list[list[list[float]]] = [[], []]

            def noted(output: Tensor, target: Tensor, pairs: Any = pairs) -> Tensor:
                pairs[not torch.is_grad_enabled()].extend(torch.stack([output.detach(), target], 1).tolist())
                return squared(output, target)

            stages = held(schedule, mesh, lambda *_: Marked())
            run(schedule, stages, (index, index), noted, mesh)
            evaluate(schedule, stages, (index, index), noted, mesh)
            results.append((pairs[0], pairs[1]))
        return results

    everyone = minipar.run(on_rank, 2 * replicas, timeout=30, device="cpu")
    expected = [[float(i)] * 2 for i in range(samples * replicas)]
    for i in range(len(schedules)):
        for evaluating in (0, 1):
            assert sorted(pair for results in everyone for pair in results[i][evaluating]) == expected


def normed(stage: int, _: int) -> nn.Module:
    """A batch norm first, and a linear layer."""
    return seeded(stage, lambda: nn.Sequential(nn.BatchNorm1d(WIDTH), nn.Linear(WIDTH, WIDTH)))


def test_running_statistics_are_those_of_one_update_by_the_whole_batch() -> None:
    """torchgpipe#14, #35."""
    schedules, samples = published(2, 3), 8
    batches = [tuple(t[:, 0] for t in batch_of(samples, seed=seed)) for seed in (0, 1)]

    def on_rank() -> list[dict[str, Tensor]]:
        mesh, results = Mesh(pp=2), []
        for schedule in schedules:
            stages = held(schedule, mesh, lambda s, n: defer_batch_norms(normed(s, n)))
            for batch in batches:
                run(schedule, stages, batch, squared, mesh)  # type: ignore[arg-type]
                evaluate(schedule, stages, batch, squared, mesh)  # type: ignore[arg-type]
            results.append({f"{s}.{n}": t for s, stage in stages.items() for n, t in stage.state_dict().items()})
        return results

    everyone = minipar.run(on_rank, 2, timeout=30, device="cpu")
    for i, schedule in enumerate(schedules):
        expected: dict[str, Tensor] = {}
        model = [normed(s, schedule.stages) for s in range(schedule.stages)]
        parts = [list(batch[0].tensor_split(3)) for batch in batches]
        for s, stage in enumerate(model):
            whole = nn.BatchNorm1d(WIDTH).double()  # sees each whole batch, joined where it reaches this stage
            for micro_batches in parts:
                whole(torch.cat(micro_batches))
            parts = [[stage(x).detach() for x in micro_batches] for micro_batches in parts]
            stage[0].load_state_dict({**stage[0].state_dict(), **dict(whole.named_buffers())})
            assert whole.num_batches_tracked == 2
            expected |= {f"{s}.{name}": tensor for name, tensor in stage.state_dict().items()}
        assert_close_by_name(everyone[0][i] | everyone[1][i], expected)
        plain = nn.BatchNorm1d(WIDTH).double()
        for batch in batches:
            plain(batch[0])
        ours = everyone[schedule.holder[0]][i]
        assert_close([ours["0.0.running_mean"], ours["0.0.running_var"]], [plain.running_mean, plain.running_var])
    deferred = DeferredBatchNorm(nn.BatchNorm1d(WIDTH))
    commit_batch_norms(deferred)
    assert deferred.num_batches_tracked == 0


class Jumping(nn.Module):
    """Uses what skips bring, and gives one tensor for each skip that starts here."""

    def __init__(self, stage: int, stages: int, leaving: int) -> None:
        super().__init__()
        self.inner, self.leaving = layers(stage, stages), leaving

    def forward(self, x: Tensor, first: Tensor | None = None, second: Tensor | None = None) -> Any:
        y = self.inner(x)
        if first is not None:
            y = y * torch.sigmoid(first)
        if second is not None:
            y = y - second
        return (y, *(torch.tanh(y * (k + 2)) for k in range(self.leaving))) if self.leaving else y


def jumping(skips: Skips, tool: str = "") -> Make:
    """Stages for these skips: as they are, or traced with this tool."""

    def make(stage: int, stages: int) -> nn.Module:
        module = Jumping(stage, stages, sum(source == stage for source, _ in skips))
        arriving = sum(target == stage for _, target in skips)
        if tool == "jit":
            example = (torch.ones(2, 3, WIDTH, dtype=torch.float64),) * (1 + arriving)
            return torch.jit.trace(module, example, check_trace=False)  # type: ignore[no-any-return]
        if tool == "fx":
            return torch.fx.symbolic_trace(module, dict.fromkeys(("first", "second")[arriving:]))
        return module

    return make


def four_stages(micro_batches: int) -> list[Schedule]:
    """On two ranks, such that stages 0 and 2, or 0 and 3, are on one rank or on two."""
    return [s for s in published(2, micro_batches) if s.stages == 4]


SKIPS: list[Skips] = [((0, 2),), ((0, 3), (1, 3), (0, 2)), ((1, 3), (0, 2)), ((0, 2), (0, 3))]


def test_a_tensor_skips_stages_whether_or_not_these_are_on_its_rank() -> None:
    """pytorch#127964, torchgpipe#27."""
    assert_equal_to_dense([Case(s, (batch_of(4),), jumping(skips), skips) for skips in SKIPS for s in four_stages(3)])
    one, two = ((0, 2),), ((0, 5), (1, 4))
    cases = [Case(s, (batch_of(4),), jumping(one), one) for s in published(3, 3, 1, 2)]
    cases += [Case(s, (batch_of(5),), jumping(two), two) for s in published(3, 4) if s.stages == 6]
    assert_equal_to_dense(cases)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("tool", ["jit", "fx"])
def test_a_tensor_skips_stages_that_were_traced(tool: str) -> None:
    """pytorch#127964."""
    cases = [Case(s, (batch_of(6),), jumping(skips, tool), skips) for skips in SKIPS[:2] for s in four_stages(3)]
    assert_equal_to_dense(cases)


class Raising(nn.Module):
    """Raises where it is told to: in a forward, in a backward, or where a weight gets its gradient."""

    def __init__(self, stage: int, stages: int, where: str) -> None:
        super().__init__()
        self.inner, self.where = layers(stage, stages), where
        if where == "W":
            self.inner[0].weight.register_post_accumulate_grad_hook(self.fail)

    def fail(self, *tensors: Tensor) -> None:
        if self.where != "W" or tensors[0].grad is not None:
            raise ArithmeticError(f"in {self.where}")

    def forward(self, x: Tensor) -> Tensor:
        if self.where == "forward":
            self.fail()
        y = self.inner(x)
        if self.where == "backward":
            y.register_hook(self.fail)
        return y


@pytest.mark.usefixtures("nothing_left")
@pytest.mark.parametrize("where", ["forward", "backward", "W", "loss"])
def test_when_one_rank_raises_all_end_with_its_error(where: str) -> None:
    """torchgpipe 0.0.3."""
    schedule = by_name("zb-h1", 3, 4)

    def on_rank() -> None:
        mesh = Mesh(pp=3)

        def loss(output: Tensor, target: Tensor) -> Tensor:
            if where == "loss":
                raise ArithmeticError("in loss")
            return squared(output, target)

        stages = held(schedule, mesh, lambda s, n: Raising(s, n, where if s == 1 else ""))
        run(schedule, stages, batch_of(4), loss, mesh)

    began = time.monotonic()
    with pytest.raises(RankFailed) as error:
        minipar.run(on_rank, 3, timeout=60, device="cpu")
    assert time.monotonic() - began < 20
    failed = 2 if where == "loss" else 1
    assert error.value.message.startswith(f"rank {failed} raised ArithmeticError: in {where}\n")
    assert error.value.message.count("Traceback") == 1
    assert error.value.places.keys() == {0, 1, 2} - {failed}


def test_every_rank_knows_the_loss() -> None:
    """torchtitan#550, nanotron#405."""
    schedules, batch = [s for m in (1, 3) for s in published(3, m)], batch_of(5)

    def on_rank() -> list[list[float]]:
        mesh, losses = Mesh(pp=3), []
        for schedule in schedules:
            stages = held(schedule, mesh, layers)
            losses.append([run(schedule, stages, batch, squared, mesh).loss])
            losses[-1].append(evaluate(schedule, stages, batch, squared, mesh))
        return losses

    first, *others = minipar.run(on_rank, 3, timeout=30, device="cpu")
    assert others == [first, first]
    for schedule, losses in zip(schedules, first, strict=True):
        [expected], _ = Case(schedule, (batch,)).dense()
        assert losses == pytest.approx([expected] * 2, rel=1e-12)
        assert all(type(loss) is float for loss in losses)


def test_a_skipped_step_leaves_weights_moments_and_counters_bitwise_as_they_were() -> None:
    """zero-bubble PR#26, #16."""
    schedules = published(2, 3)

    def on_rank() -> list[bool]:
        mesh, same = Mesh(pp=2), []

        def trained(schedule: Schedule, skipping: bool) -> list[Tensor]:
            stages = held(schedule, mesh, layers)
            parameters = [p for stage in stages.values() for p in stage.parameters()]
            optimizer = torch.optim.AdamW(parameters, lr=0.1)
            state: list[Tensor] = []
            for step in (0, 1, 2):
                optimizer.zero_grad()
                run(schedule, stages, batch_of(4, seed=step), squared, mesh)
                optimizer.step()
                state = [*parameters, *(t for p in parameters for t in optimizer.state[p].values())]
                if skipping:
                    before = [t.detach().clone() for t in state]
                    optimizer.zero_grad()
                    x, y = batch_of(5)
                    run(schedule, stages, (x, y * torch.inf), squared, mesh)
                    same.append(all(map(torch.equal, state, before)))
                    same.append(not any(p.grad.isfinite().all() for p in parameters))  # type: ignore[union-attr]
            return [t.detach() for t in state]

        for schedule in schedules:
            same.append(all(map(torch.equal, trained(schedule, True), trained(schedule, False))))
        return same

    for same in minipar.run(on_rank, 2, timeout=30, device="cpu"):
        assert same == [True] * (7 * len(NAMES))


@pytest.mark.parametrize("name", NAMES)
def test_every_schedule_is_simulated_for_every_small_size(name: str) -> None:
    """V schedule viewer, micropp."""
    for p in range(1, 9):
        for m in range(1, 13):
            schedule = by_name(name, p, m)
            timeline = simulate(schedule, Costs(1.0, 2.0))
            assert len(timeline.spans) == sum(map(len, schedule.actions))
            work = 3.0 * m * schedule.stages
            assert sum(span.end - span.start for span in timeline.spans) == pytest.approx(work)
            ends = max(span.end for span in timeline.spans)
            assert max(work / p, 2.0 * schedule.stages) <= ends <= work
            assert timeline.bubble_of_total == pytest.approx(1 - work / p / ends)


def test_nothing_asks_for_a_gpu_where_there_is_none() -> None:
    """picotron."""
    schedules = published(2, 3)

    def on_rank() -> list[float]:
        def refuse(*_: Any, **__: Any) -> Any:
            raise AssertionError("CUDA was asked for")

        for name in ("synchronize", "Event", "Stream", "current_stream", "current_device", "set_device", "stream"):
            setattr(torch.cuda, name, refuse)
        mesh, losses = Mesh(pp=2), []
        for schedule in schedules:
            stages, tie = held(schedule, mesh, layers), {0: "0.weight", schedule.stages - 1: "0.weight"}
            result = run(schedule, stages, batch_of(4), squared, mesh, pace=Costs(1e-4, 1e-4), ties=[tie])
            losses += [result.loss, evaluate(schedule, stages, batch_of(4), squared, mesh)]
        return losses

    first, second = minipar.run(on_rank, 2, timeout=30, device="cpu")
    assert first == second
    assert first[::2] == pytest.approx(first[1::2], rel=1e-12)
