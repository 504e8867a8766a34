"""Lesson 06: its predictions are the library's, its counter counts, and its runs are real."""

from __future__ import annotations

from functools import partial
from xml.etree import ElementTree

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from course.figures import lesson06 as figures
from minipar.draw.curve import Point, curve_svg
from minipar.pipeline import DeferredBatchNorm, LayerTime, gpipe, simulate

SVG = "{http://www.w3.org/2000/svg}"


def truth(prediction: object) -> float:
    return float(prediction._truth)  # type: ignore[attr-defined]


def rows(page: str) -> list[str]:
    return [text.text or "" for text in ElementTree.fromstring(page).iter(f"{SVG}text")]


def test_a_finer_cut_saves_no_memory_without_recompute() -> None:
    assert truth(figures.predict_memory(4, 32)) == 100
    assert truth(figures.predict_memory(1, 16)) == 100


def test_the_loss_is_weighed_by_tokens() -> None:
    values = [2.0] * 900 + [6.0] * 100
    assert truth(figures.predict_loss()) == pytest.approx(sum(values) / 1000)


def test_a_running_mean_moves_as_torchs_does() -> None:
    norm = nn.BatchNorm1d(1).double()
    piece = torch.tensor([[0.5], [1.5]], dtype=torch.float64)  # of mean 1
    for _piece in range(4):
        norm(piece)
    assert norm.running_mean is not None
    assert truth(figures.predict_norm(4)) == pytest.approx(100 * norm.running_mean.item(), abs=0.051)


def test_a_single_sample_takes_what_the_host_needs() -> None:
    assert truth(figures.predict_small(1, 16)) > 3
    assert truth(figures.predict_small(8, 16)) < 1.1


def test_kept_counts_each_storage_once_and_no_parameter() -> None:
    layer = nn.Linear(8, 8, bias=False)
    x = torch.randn(4, 8, requires_grad=True)
    with figures.Kept(layer) as kept:
        once = layer(x)
        assert kept.now == x.nbytes
        twice = layer(x)
        assert kept.now == x.nbytes
        once.sum().backward()
        assert kept.now == x.nbytes
        twice.sum().backward()
        assert kept.now == 0
    assert kept.most == x.nbytes


def test_what_a_stage_keeps_follows_the_rule_of_the_lesson() -> None:
    blocks, samples = 3, 8
    stage = figures.stage_of(blocks, hidden=16, tokens=8)
    batch = torch.randn(samples, 8, 16)
    edge = batch[0].nbytes
    again = partial(checkpoint, stage, use_reentrant=True)
    everything = {m: figures.gpipe_on_a_stage(stage, batch, m, stage) for m in (1, 4, 8)}
    assert len(set(everything.values())) == 1, "the cut changes nothing"
    inside = everything[1] / samples - edge
    for m in (1, 2, 4, 8):
        expected = samples * edge + samples / m * inside
        assert figures.gpipe_on_a_stage(stage, batch, m, again) == pytest.approx(expected, rel=0.02)


def test_bars_of_what_is_kept_and_of_small_pieces_name_their_sizes() -> None:
    page = rows(figures.kept_chart({"all": {1: 2**20, 4: 2**20}, "less": {4: 2**18}}).data)
    assert {"all, 1 micro-batch", "less, 4 micro-batches", "256 KiB"} <= set(page)
    page = rows(figures.small_pieces([LayerTime(0.001, 0.002), LayerTime(0.002, 0.002)], (1, 2)).data)
    assert {"1 sample", "3 ms", "2 samples", "2 ms"} <= set(page)


def test_the_bubble_is_measured_on_real_ranks_and_drawn_over_its_curve() -> None:
    measured = figures.measured_bubbles((1, 2))
    assert all(timeline.emulated and timeline.ranks == figures.STAGES for timeline in measured.values())
    assert all(len(timeline.spans) == 2 * figures.STAGES * m for m, timeline in measured.items())
    assert all(t.bubble_of_total >= simulate(gpipe(4, m)).bubble_of_total - 0.05 for m, t in measured.items())
    circles = list(ElementTree.fromstring(figures.bubble_curve(measured).data).iter(f"{SVG}circle"))
    assert len(circles) == 1 + len(measured)  # one is the legend's


def test_published_speeds_stand_beside_predicted_ones() -> None:
    assert figures.speedup_table({(4, 4): 3.2}) == "4 stages,  4 micro-batches: predicted 2.3, published 3.2"


def test_blocks_are_timed_by_size() -> None:
    times = figures.block_times((1, 3))
    assert len(times) == 2
    assert all(time.total > 0 for time in times)


def test_a_deferred_norm_is_not_what_the_whole_batch_gives() -> None:
    x = torch.arange(8.0, dtype=torch.float64).view(8, 1)
    norm = DeferredBatchNorm(nn.BatchNorm1d(1).double())
    cut = torch.cat([norm(piece) for piece in x.chunk(2)])
    norm.commit()
    whole = nn.BatchNorm1d(1).double()
    want = whole(x)
    assert norm.running_mean is not None
    assert whole.running_mean is not None
    assert figures.relative(norm.running_mean, whole.running_mean) < 1e-12
    assert figures.relative(cut, want) > 0.1


def test_a_curve_refuses_what_has_no_place() -> None:
    line = [("a", [Point(1, 0.5), Point(4, 0.1)])]
    page = ElementTree.fromstring(curve_svg("title", line, ("dots", [Point(2, 0.25)]), "axis"))
    assert page.get("aria-label") == "title; dots: 2: 25 %"
    with pytest.raises(ValueError, match="no place"):
        curve_svg("title", line, ("dots", [Point(0, 0.5)]), "axis")
    with pytest.raises(ValueError, match="no place"):
        curve_svg("title", line, ("dots", [Point(2, 1.5)]), "axis")
    with pytest.raises(ValueError, match="no curve"):
        curve_svg("title", [], ("dots", []), "axis")
