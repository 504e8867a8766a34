"""Lesson 05: its predictions are the library's, its runs are real, and its comparison finds an error."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest
import torch

from course.figures import lesson05 as figures
from minipar import Mesh
from minipar.model import GPT, GPTConfig
from minipar.pipeline import LayerTime, balanced_cuts, even_cuts, gpipe, simulate

SVG = "{http://www.w3.org/2000/svg}"


def truth(prediction: object) -> float:
    return float(prediction._truth)  # type: ignore[attr-defined]


def rows(page: str) -> list[str]:
    return [text.text or "" for text in ElementTree.fromstring(page).iter(f"{SVG}text")]


@pytest.mark.parametrize(("stages", "milliseconds"), [(1, 60), (2, 62), (4, 66), (8, 74)])
def test_one_sample_takes_all_layers_and_the_messages(stages: int, milliseconds: float) -> None:
    assert truth(figures.predict_one_sample(stages)) == pytest.approx(milliseconds)


def test_the_head_is_counted_in_blocks() -> None:
    hidden, wide, tokens, sequence = 4096, 14336, 128256, 8192
    block = hidden * (2 * hidden + 2 * 1024) + 3 * hidden * wide + 2 * hidden * sequence
    assert truth(figures.predict_head()) == pytest.approx(hidden * tokens / block, abs=0.051)


def test_unequal_stages_are_idle_by_the_rule_of_the_lesson() -> None:
    stages, m = [20, 20, 20, 45], 8
    line = sum(stages) + (m - 1) * max(stages)
    assert truth(figures.predict_unequal()) == pytest.approx(100 * (1 - m * sum(stages) / (4 * line)), abs=0.051)


def test_many_samples_come_out_a_stage_apart() -> None:
    line = simulate(figures.forwards(4, 12))
    assert line.duration == pytest.approx(4 + 11)
    assert "3.1 times" in figures.many_samples(4, 12).data


def test_the_naive_pipeline_runs_as_predicted() -> None:
    page = rows(figures.naive_on_real_ranks(stages=2, micro_batches=1).data)
    assert sum(row.startswith("predicted: idle 50 %") for row in page) == 1
    assert sum(row.startswith("measured on real processes (emulated pace): idle") for row in page) == 1


def test_a_cut_by_time_is_run_beside_one_by_count() -> None:
    cuts = {"count": even_cuts(8, 2), "time": balanced_cuts([figures.BLOCK] * 8, 2, last=figures.HEAD)}
    page = rows(figures.stages_on_real_ranks(cuts, micro_batches=2).data)
    for name, cut in cuts.items():
        idle = simulate(gpipe(2, 2), figures.stage_costs(cut)).bubble_of_total
        assert f"{name}, predicted: idle {100 * idle:.0f} % of the time" in page
        assert any(row.startswith(f"{name}, measured (emulated pace): idle") for row in page)


def test_a_chain_is_the_model_in_layers() -> None:
    config = GPTConfig(vocabulary=11, sequence=5, hidden=8, layers=3, heads=2)
    model = GPT(config, Mesh())
    tokens = figures.tokens(2, 5, 11)
    x = tokens
    for layer in figures.chain(model):
        x = layer(x)
    assert torch.equal(x, model(tokens))


def test_the_comparison_finds_what_differs_and_what_is_missing() -> None:
    whole = {"a": torch.tensor([1.0, -2.0]), "b": torch.tensor([4.0])}
    assert figures.largest_error([{"a": whole["a"]}, {"b": whole["b"]}], whole) == 0
    assert figures.largest_error([{"a": whole["a"]}, {"b": whole["b"] + 1}], whole) == pytest.approx(0.25)
    with pytest.raises(AssertionError, match="do not make up"):
        figures.largest_error([{"a": whole["a"]}], whole)


def test_measured_times_are_shown_and_summed_by_stage() -> None:
    times = [LayerTime(0.001, 0.002), LayerTime(0.01, 0.02), LayerTime(0.03, 0.05)]
    page = rows(figures.layer_times(times).data)
    assert {"embedding", "block 0", "head", "80 ms"} <= set(page)
    assert figures.measured_cut(times, [range(2), range(2, 3)]).splitlines() == [
        "stage 0: 2 layers, 33 ms",
        "stage 1: 1 layer, 80 ms",
    ]
