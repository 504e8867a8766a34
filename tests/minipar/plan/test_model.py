"""Sizes of models beside those that were published, and of what the trainer trains."""

from __future__ import annotations

from dataclasses import replace

import pytest

from minipar import Mesh
from minipar.layout import Layout
from minipar.model import GPT, GPTConfig
from minipar.pipeline import one_f_one_b, zb_v
from minipar.plan import MODELS, Model, Numbers, model_by_name
from minipar.recompute import Recompute


@pytest.mark.parametrize(
    ("name", "billions", "off"),
    [
        ("gpt-1.7b", 1.7, 0.03),
        ("gpt-7.5b", 7.5, 0.02),
        ("gpt-39b", 39.1, 0.01),
        ("gpt-145b", 145.6, 0.01),
        ("gpt3-175b", 174.6, 0.01),
        ("gpt-530b", 529.6, 0.01),
        ("llama3-8b", 8.03, 0.001),
        ("llama3-70b", 70.55, 0.001),
        ("llama3-405b", 405.85, 0.001),
    ],
)
def test_weights_are_the_published_ones(name, billions, off):
    assert model_by_name(name).weights / 1e9 == pytest.approx(billions, rel=off)


def test_weights_are_those_of_the_gpt_that_minipar_trains():
    demo = MODELS["demo"]
    config = GPTConfig(demo.vocabulary, demo.sequence, demo.hidden, demo.layers, demo.heads)
    assert demo.weights == sum(p.numel() for p in GPT(config, Mesh()).parameters())
    gated = replace(demo, gated=True, tied=True, kv_heads=2)
    config = GPTConfig(demo.vocabulary, demo.sequence, demo.hidden, demo.layers, demo.heads, 2, gated=True, tied=True)
    assert gated.weights == sum(p.numel() for p in GPT(config, Mesh()).parameters())


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("tp", [2, 4])
def test_the_parts_of_tensor_ranks_are_the_whole(name, tp):
    model = MODELS[name]
    whole = sum(wide * out for wide, out in model.matrices())
    assert sum(wide * out for wide, out in model.matrices(tp)) * tp == whole
    assert model.block_weights(tp) * tp >= model.block_weights()


def test_operations_are_those_of_the_paper():
    model = model_by_name("gpt3-175b")
    layers, h, s, v = model.layers, model.hidden, model.sequence, model.vocabulary
    formula = 72 * layers * h**2 * (1 + s / (6 * h) + v / (12 * layers * h))  # Narayanan et al. 2021, Eq. 3, over 4/3
    assert model.training_flops == pytest.approx(formula, rel=1e-12)


@pytest.mark.parametrize(
    ("sizes", "says"),
    [
        ({"layers": 0}, "layers=0; it must be at least 1"),
        ({"heads": 5}, "hidden=64 is not divisible by heads=5"),
        ({"kv_heads": 3}, "heads=4 is not divisible by kv_heads=3"),
    ],
)
def test_a_model_that_cannot_be_is_refused(sizes, says):
    with pytest.raises(ValueError, match=says):
        Model(**{"layers": 2, "hidden": 64, "heads": 4, "vocabulary": 100, "sequence": 32, **sizes})


def test_a_layout_of_the_planner_is_one_of_the_trainer():
    numbers = Numbers(2, 4, 2, 3, 8, "1f1b", sequence_parallel=True, recompute=Recompute.FULL, zero=1)
    assert numbers.layout() == Layout(one_f_one_b(4, 8), 2, 2, True, Recompute.FULL, True)
    assert numbers.ranks == numbers.layout().ranks
    assert Numbers(pp=2, micro_batches=4, schedule="zb-v").layout() == Layout(zb_v(2, 4))
    with pytest.raises(ValueError, match="shards optimizer states only"):
        numbers._replace(zero=3).layout()
