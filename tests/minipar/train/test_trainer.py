"""The trainer: what is resumed was never stopped, whatever the mesh; samples keep together; the model learns."""

from __future__ import annotations

import math
import shutil
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import cloudpickle
import pytest
import torch
from torch import Tensor

import minipar
from minipar import Mesh
from minipar.layout import Layout
from minipar.model import GPT, GPTConfig, Recompute, token_loss
from minipar.pipeline import by_name, naive
from minipar.train import ByteText, CheckpointError, Precision, Recipe, Trainer
from minipar.train.sample import sample
from tests.minipar.train.bigram import bigram_bits

cloudpickle.register_pickle_by_value(sys.modules[__name__])

CONFIG = GPTConfig(sequence=8, hidden=16, layers=8, heads=4, tied=True, dropout=0.2)
RECIPE = Recipe(steps=8, batch=8, warm_up=2, precision=Precision.FLOAT64)
TRAIN, HELD_OUT = ByteText().split(0.1)

LAYOUTS = {
    "2×2×2 ZeRO": Layout(by_name("1f1b", 2, 2), 2, 2, sequence_parallel=True, zero=True),
    "1×2×2 interleaved": Layout(by_name("interleaved", 2, 4), 1, 2, recompute=Recompute.FULL),
    "2×2×1 zero-bubble": Layout(by_name("zb-v", 2, 4), 2),
    "1×1×1": Layout(naive(1)),
}
HALF = {"1×2×2 interleaved": Precision.BF16, "2×2×1 zero-bubble": Precision.FP16}


def trainer_of(layout: Layout, recipe: Recipe = RECIPE, config: GPTConfig = CONFIG) -> Trainer:
    return Trainer(config, layout, TRAIN, recipe, HELD_OUT)


@pytest.mark.parametrize(
    ("name", "precision"), [*((name, Precision.FLOAT64) for name in LAYOUTS), *HALF.items()], ids=str
)
def test_resumed_is_never_stopped_to_the_bit(name: str, precision: Precision, tmp_path: Path) -> None:
    layout = LAYOUTS[name]
    recipe = replace(RECIPE, precision=precision)

    def on_rank(stops: Sequence[int]) -> tuple[list[float], dict[str, Tensor], float]:
        losses: list[float] = []
        for stop in stops:
            trainer = trainer_of(layout, recipe)
            trainer.resume(tmp_path)
            assert trainer.step == len(losses)
            while trainer.step < stop:
                losses.append(trainer.train_step().loss)
            if len(stops) > 1:
                trainer.save(tmp_path)
        weights = {f"{s}.{n}": p.detach().clone() for s, m in trainer.stages.items() for n, p in m.named_parameters()}
        return losses, weights, trainer.evaluate(2)

    resumed = minipar.run(on_rank, layout.ranks, [2, 3, 5], timeout=30, device="cpu")
    shutil.rmtree(tmp_path)
    whole = minipar.run(on_rank, layout.ranks, [5], timeout=30, device="cpu")
    for ours, theirs in zip(resumed, whole, strict=True):
        assert ours[0] == theirs[0]
        assert ours[2] == theirs[2]
        assert all(torch.equal(ours[1][name], theirs[1][name]) for name in theirs[1])


def test_a_checkpoint_goes_on_with_the_same_loss_on_every_other_mesh(tmp_path: Path) -> None:
    config = replace(CONFIG, dropout=0.0)

    def on_rank(layout: Layout, write: bool) -> tuple[float, float]:
        trainer = trainer_of(layout, RECIPE, config)
        assert (trainer.resume(tmp_path) is None) == write
        for _ in range(3 if write else 0):
            trainer.train_step()
        if write:
            trainer.save(tmp_path)
        return trainer.evaluate(2), trainer.train_step().loss

    written = minipar.run(on_rank, 4, LAYOUTS["1×2×2 interleaved"], True, timeout=30, device="cpu")
    assert len(set(written)) == 1
    others = [
        Layout(naive(1)),
        Layout(by_name("1f1b", 1, 2), dp=4, tp=2, zero=True),
        Layout(by_name("zb-h1", 4, 2), tp=2, sequence_parallel=True),
        Layout(by_name("1f1b", 2, 2), tp=4),
        Layout(by_name("zb-v", 4, 4), dp=2),
    ]
    for layout in others:
        for got in minipar.run(on_rank, layout.ranks, layout, False, timeout=30, device="cpu"):
            assert got == pytest.approx(written[0], rel=1e-12, abs=0), layout


def test_another_model_or_seed_is_refused_with_what_differs(tmp_path: Path) -> None:
    trainer = trainer_of(LAYOUTS["1×1×1"])
    trainer.save(tmp_path)
    with pytest.raises(CheckpointError, match=r"is of another model: hidden=16 \(here 32\), heads=4 \(here 8\)"):
        trainer_of(LAYOUTS["1×1×1"], config=replace(CONFIG, hidden=32, heads=8)).resume(tmp_path)
    with pytest.raises(CheckpointError, match="was trained with seed 0, not 1"):
        trainer_of(LAYOUTS["1×1×1"], replace(RECIPE, seed=1)).resume(tmp_path)


class Numbered:
    """Sample i is the token i % 200 all along, as input and as target."""

    def batch(self, first: int, count: int, sequence: int, seed: int = 0) -> tuple[Tensor, Tensor]:
        tokens = (torch.arange(first, first + count) % 200).unsqueeze(1).expand(count, sequence)
        return tokens, tokens


def test_inputs_and_labels_of_a_sample_keep_together_through_the_whole_mesh() -> None:
    """DeepSpeed#5729: each sample is seen once in a step, and the last stage compares it with its own labels."""
    layout = Layout(by_name("interleaved", 2, 2), 2, 2)

    def on_rank() -> tuple[int, list[list[int]], list[list[int]]]:
        trainer = Trainer(CONFIG, layout, Numbered(), RECIPE)
        embedded, compared = [], []
        for stage in trainer.stages.values():
            if stage.embedding is not None:
                stage.embedding.register_forward_hook(lambda m, args, out: embedded.append(args[0][:, 0].tolist()))
        loss = trainer._loss
        trainer._loss = lambda logits, targets: (compared.append(targets[:, 0].tolist()), loss(logits, targets))[1]
        trainer.train_step()
        trainer.train_step()
        return trainer.mesh.dp.rank, embedded, compared

    results = minipar.run(on_rank, 8, timeout=30, device="cpu")
    for replica in (0, 1):
        seen = {str(samples) for dp, embedded, _ in results if dp == replica for samples in [embedded] if samples}
        labelled = {str(samples) for dp, _, compared in results if dp == replica for samples in [compared] if samples}
        assert seen == labelled
        assert len(seen) == 1
    parts = [embedded for _, embedded, _ in results if embedded]
    everything = sorted(i for part in (parts[0], parts[2]) for samples in part for i in samples)
    assert everything == list(range(2 * RECIPE.batch))


class Masked:
    """Real text, of which more and more targets do not count: the last sample has none that does."""

    def batch(self, first: int, count: int, sequence: int, seed: int = 0) -> tuple[Tensor, Tensor]:
        inputs, targets = TRAIN.batch(first, count, sequence, seed)
        number = torch.arange(first, first + count).unsqueeze(1) % 8
        return inputs, targets.masked_fill(torch.arange(sequence) >= sequence - (number + 1) * sequence // 8, -100)


@pytest.mark.parametrize("micro_batches", [1, 2, 4])
def test_the_loss_is_a_mean_over_all_tokens_that_count_not_a_mean_of_means(micro_batches: int) -> None:
    config = replace(CONFIG, dropout=0.0)
    layout = Layout(by_name("1f1b", 2, micro_batches), dp=2)

    def on_rank() -> tuple[float, float, float]:
        trainer = Trainer(config, layout, Masked(), RECIPE, Masked())
        held_out = trainer.evaluate(2)
        loss, _ = trainer.backward()
        return loss, trainer.optimizer.norm(), held_out

    model = GPT(config, Mesh(), dtype=torch.float64)
    inputs, targets = Masked().batch(0, 8, config.sequence)
    loss = token_loss(config, Mesh())(model(inputs), targets)
    loss.backward()
    norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1e9).item()
    expected = pytest.approx((loss.item(), norm), rel=1e-12, abs=0)
    inputs, targets = Masked().batch(0, 16, config.sequence)
    of_all = token_loss(config, Mesh())(model(inputs), targets).item()
    results = minipar.run(on_rank, 4, timeout=30, device="cpu")
    for ours, ours_norm, held_out in results:
        assert (ours, ours_norm) == expected
        assert held_out == pytest.approx(of_all, rel=1e-12, abs=0)
    assert len(set(results)) == 1, "every rank knows the loss of the step"


def test_a_step_is_reported_as_it_was() -> None:
    layout = Layout(by_name("1f1b", 2, 4), 2, 2)

    def on_rank() -> list[dict]:
        trainer = trainer_of(layout)
        return [vars(trainer.train_step()) for _ in range(3)]

    everyone = minipar.run(on_rank, 8, timeout=30, device="cpu")
    for step, reports in enumerate(zip(*everyone, strict=True)):
        for report in reports:
            assert report["step"] == step
            assert (report["loss"], report["norm"]) == (reports[0]["loss"], reports[0]["norm"])
            assert 0 < report["bubble"] < 1
            assert report["tokens_per_second"] * report["seconds"] == pytest.approx(RECIPE.batch * CONFIG.sequence)
            assert report["mfu"] is None
            assert report["memory"] > 50e6
            assert all(report["sent"][axis] > 0 for axis in ("dp", "pp", "tp"))
    # Two replicas add their gradients: a ring all-reduce over two ranks sends as many bytes as there are (padded).
    assert everyone[0][0]["rate"] == RECIPE.rate / 2
    assert [r["rate"] for r in everyone[0]][1] == RECIPE.rate


def test_two_replicas_send_their_gradients_once() -> None:
    def on_rank(zero: bool) -> tuple[int, int]:
        trainer = trainer_of(Layout(naive(1), dp=2, zero=zero))
        return trainer.train_step().sent["dp"], sum(b.gradients.nbytes for b in trainer.buckets.buckets)

    for zero in (False, True):
        for sent, size in minipar.run(on_rank, 2, zero, timeout=30, device="cpu"):
            assert sent == size, "an all-reduce over two ranks, or a reduce-scatter and an all-gather"


def test_what_does_not_fit_is_refused_before_anything_is_sent() -> None:
    config = CONFIG
    cases = [
        (Layout(by_name("1f1b", 1, 4), dp=4), config, "a batch of 8 samples is too small for dp=4 replicas of 4 micro"),
        (Layout(by_name("1f1b", 1, 2), tp=3), config, "heads"),
        (Layout(by_name("interleaved", 8, 8)), config, "8 layers"),
        (Layout(naive(1), tp=4, sequence_parallel=True), replace(config, sequence=6), "a sequence of 6 tokens"),
    ]
    for layout, model, message in cases:
        with pytest.raises(ValueError, match=message):
            Trainer(model, layout, TRAIN, RECIPE)
    for wrong in ({"rate": 0}, {"clip": -1.0}, {"warm_up": 9}, {"steps": 0}, {"floor": 2}, {"decay": -1}, {"eps": 0}):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            Trainer(config, Layout(naive(1)), TRAIN, replace(RECIPE, **wrong))


def test_the_demo_model_beats_a_bigram_model_on_text_that_it_has_not_seen() -> None:
    def on_rank() -> float:
        trainer = Trainer(GPTConfig(), Layout(naive(1)), TRAIN, Recipe(steps=300), HELD_OUT)
        for _ in range(300):
            trainer.train_step()
        return trainer.evaluate(50) / math.log(2)

    bits = minipar.run(on_rank, 1, timeout=100, device="cpu")[0]
    assert bits < bigram_bits(TRAIN.bytes, HELD_OUT.bytes)


def test_sampling_is_the_same_on_every_mesh_and_follows_the_text() -> None:
    def on_rank(layout: Layout) -> tuple[str, str, str]:
        trainer = trainer_of(layout, config=replace(CONFIG, dropout=0.0))
        return (
            sample(trainer, "é The ", 12),
            sample(trainer, "x", 4, temperature=0),
            sample(trainer, "y" * 20, 3, temperature=0),
        )

    texts = {t for layout in LAYOUTS.values() for t in minipar.run(on_rank, layout.ranks, layout, timeout=30)}
    assert len(texts) == 1
    assert texts.pop()[0].startswith("é The ")


def test_sampling_takes_the_likeliest_byte_that_the_unsplit_model_gives() -> None:
    trainer = trainer_of(Layout(naive(1)), config=replace(CONFIG, dropout=0.0))
    model = trainer.stages[0].eval()
    text = list(b"abc")
    for _ in range(3):
        text.append(int(model(torch.tensor([text]))[0, -1, :256].argmax()))
    assert sample(trainer, "abc", 3, temperature=0) == bytes(text).decode(errors="replace")
    with pytest.raises(ValueError, match="the prompt is empty"):
        sample(trainer, "", 1)
    with pytest.raises(ValueError, match="temperature=-1"):
        sample(trainer, "a", 1, temperature=-1)
