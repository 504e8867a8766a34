import pytest

import minipar
from minipar.bench.train import DDP, LAYOUTS, Replicas, bench, over_ddp
from minipar.layout import Layout
from minipar.model import GPTConfig
from minipar.pipeline import gpipe
from minipar.train import ByteText, Recipe, Trainer

TINY = GPTConfig(sequence=8, hidden=16, layers=2)


def test_every_layout_is_timed_beside_one_rank_and_ddp() -> None:
    rows = bench(repeats=2, sizes={"tiny": TINY})
    assert [row.layout for row in rows] == ["1×1×1", *LAYOUTS, DDP]
    one = rows[0]
    for row in rows:
        assert row.over_one_rank == one.seconds / row.seconds
        assert row.tokens_per_second * row.seconds == pytest.approx(16 * 8)
    seconds = {row.layout: row.seconds for row in rows}
    assert over_ddp(rows) == {"tiny": seconds["2×1×1"] / seconds[DDP]}


def test_the_rival_trains_the_same_model() -> None:
    def on_rank() -> float:
        recipe = Recipe(batch=16, steps=40)
        rival, trainer = (
            Replicas(TINY, ByteText(), recipe),
            Trainer(TINY, Layout(gpipe(1, 1), dp=2), ByteText(), recipe),
        )
        for group in rival.optimizer.param_groups:
            group["lr"] = recipe.rate / recipe.warm_up  # that of our first step
        rival.train_step()
        trainer.train_step()
        ours = dict(trainer.stages[0].named_parameters())
        theirs = rival.model.module.named_parameters()
        return max((ours[name] - p).abs().max().item() for name, p in theirs)

    assert max(minipar.run(on_rank, 2, timeout=30, device="cpu")) < 1e-5
