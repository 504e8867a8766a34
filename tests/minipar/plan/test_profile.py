"""`minipar profile`: real layers timed and weighed, constants found again, a file that is checked, an order to hold."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
import torch
from typer.testing import CliRunner

import minipar
from minipar.bench.plan import LAYOUTS, Row, bench, in_order
from minipar.cli import app
from minipar.commands.train import PRESETS
from minipar.mesh import Mesh
from minipar.model import GPT, GPTConfig
from minipar.plan import Bench, Hardware, Link, Numbers, Software, model_by_name, predict, step_time
from minipar.plan.activations import kept
from minipar.plan.layers import kept_bytes, layers_on_rank, pieces
from minipar.plan.machine import THIS_MACHINE, Layer, Machine, Steps, load, save
from minipar.plan.own import MINIPAR, model_of
from minipar.plan.profile import calibrate, predicted, profile

SLOW = Link(3e-4, 1e-9)
MADE_UP = Hardware(THIS_MACHINE, 5e10, 2**33, 1e10, 2, SLOW, SLOW, "made up")
TRUTH = replace(
    MINIPAR,
    ahead=False,
    matmul=0.4,
    passes=3.0,
    logits=20.0,
    launch=8e-4,
    ends=6e-4,
    rest=4e-3,
    latency=2e-4,
    update=40.0,
)
TINY = GPTConfig(hidden=16, heads=2, layers=1, sequence=8, vocabulary=32)


def made_by(software: Software) -> tuple[list[Layer], list[Steps]]:
    """The times that known constants predict."""
    truth, layers, steps = Bench(MADE_UP, software), [], []
    for hidden in (64, 128):
        model = model_of(GPTConfig(hidden=hidden))
        for tp in (1, 2):
            for size in (1, 4, 16):
                for name in ("block", "ends"):
                    blank = Layer(name, model, tp, size, 1.0, 1.0, 1.0, 1.0, 1.0)
                    forward, backward = predicted(blank, truth)
                    layers.append(blank._replace(forward=forward, backward=backward))
            for parts in (1, 8):
                layout = Numbers(dp=2 // tp, tp=tp, micro_batch=2, micro_batches=parts)
                steps.append(Steps(model, layout, step_time(model, layout, truth).total))
    return layers, steps


@pytest.fixture(scope="module")
def machine() -> Machine:
    return calibrate(MADE_UP, False, TRUTH.update / MADE_UP.bandwidth, *made_by(TRUTH))


def test_constants_that_made_the_times_are_found_again(machine) -> None:
    assert machine.constants == {name: pytest.approx(getattr(TRUTH, name), rel=1e-3) for name in machine.constants}
    assert set(machine.constants) == {"matmul", "passes", "logits", "launch", "ends", "rest", "latency", "update"}
    for layout in LAYOUTS:
        model = model_by_name("demo")
        assert step_time(model, layout, machine.bench).total == pytest.approx(
            step_time(model, layout, Bench(MADE_UP, TRUTH)).total, rel=1e-3
        )


def test_one_disturbed_time_does_not_move_the_others(machine) -> None:
    disturbed = [one._replace(forward=20 * one.forward) if i == 5 else one for i, one in enumerate(machine.layers)]
    found = calibrate(MADE_UP, False, TRUTH.update / MADE_UP.bandwidth, disturbed, machine.steps)
    demo = model_by_name("demo")
    for layout in LAYOUTS:
        expected = step_time(demo, layout, machine.bench).total
        assert step_time(demo, layout, found.bench).total == pytest.approx(expected, rel=0.05)


def test_a_machine_without_tensor_ranks_is_calibrated_too(machine) -> None:
    layers = [one for one in machine.layers if one.tp == 1]
    steps = [one for one in machine.steps if one.layout.tp == 1]
    found = calibrate(MADE_UP, False, TRUTH.update / MADE_UP.bandwidth, layers, steps)
    assert "latency" not in found.constants
    assert found.calibrated.tp == (1, 1)


@pytest.mark.parametrize("launch", [5e-3, 1e-9])
def test_on_a_gpu_only_what_its_times_depend_on_is_fitted(launch: float) -> None:
    """The ends' host is hidden, and within a node no message waits; of a block's start the longest is seen."""
    on_gpu = replace(TRUTH, ahead=True, launch=launch)
    found = calibrate(MADE_UP, True, TRUTH.update / MADE_UP.bandwidth, *made_by(on_gpu))
    assert set(found.constants) >= {"matmul", "passes", "logits", "rest", "update"}
    assert not set(found.constants) & {"ends", "latency"}
    assert found.software.ahead
    for layout in LAYOUTS:
        expected = step_time(model_by_name("demo"), layout, Bench(MADE_UP, on_gpu)).total
        assert step_time(model_by_name("demo"), layout, found.bench).total == pytest.approx(expected, rel=0.02)


def test_before_a_profile_every_prediction_says_that_nothing_was_calibrated() -> None:
    warnings = predict(model_by_name("demo"), Numbers(), Bench(MADE_UP, MINIPAR)).warnings
    assert len(warnings) == 5


def test_a_gpu_hides_the_host_and_a_cpu_does_not() -> None:
    layout, model = Numbers(micro_batch=16), model_by_name("small")
    here, hidden = (Bench(MADE_UP, replace(TRUTH, ahead=ahead)) for ahead in (False, True))
    layer = Layer("block", model, 1, 16, 1.0, 1.0, 1.0, 1.0, 1.0)
    added = sum(predicted(layer, here)) - sum(predicted(layer, hidden))
    assert added == pytest.approx(TRUTH.launch)
    assert step_time(model, layout, here).total > step_time(model, layout, hidden).total


@pytest.mark.parametrize("tp", [1, 2])
def test_real_layers_are_timed_and_weighed_on_ranks(tp: int) -> None:
    found = minipar.run(layers_on_rank, 2, TINY, tp, (1, 2), 2, timeout=30, device="cpu")
    assert found[0] == found[1]  # the slowest rank's times, on every rank
    assert [(layer.name, layer.micro_batch) for layer in found[0]] == [
        ("block", 1),
        ("ends", 1),
        ("block", 2),
        ("ends", 2),
    ]
    for layer in found[0]:
        assert all(0 < seconds < 5 for seconds in layer[4:8])
        assert layer.tp == tp
    block, twice = found[0][0], found[0][2]
    assert twice.kept == 2 * block.kept
    expected = TINY.sequence * kept(MINIPAR.saved(block.model), Numbers(tp=tp), 0.0)
    assert block.kept == pytest.approx(expected, rel=0.05)


def test_kept_bytes_count_each_storage_once_and_no_weights() -> None:
    model = GPT(TINY, Mesh())
    block, _ = pieces(model, TINY, 2, Mesh())
    features = torch.randn(2, 8, 16)
    twice = block._replace(fn=lambda x: block.fn(x) + block.fn(x))
    one = kept_bytes(block, model, features)
    assert kept_bytes(twice, model, features) == 2 * one - features.untyped_storage().nbytes()


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"ranks": 1}, "ranks=1"),
        ({"sizes": ()}, r"sizes=\(\)"),
        ({"sizes": (2, 1)}, "ascending"),
        ({"sizes": (0, 1)}, "at least 1"),
        ({"rounds": 0}, "rounds=0"),
        ({"config": GPTConfig(hidden=10, heads=4)}, "heads"),
    ],
)
def test_what_cannot_be_measured_is_refused_before_a_rank_starts(options, says, monkeypatch) -> None:
    monkeypatch.setattr("minipar.plan.profile.run", lambda *_, **__: pytest.fail("a rank was started"))
    with pytest.raises(ValueError, match=says):
        profile(**({"config": TINY} | options))


def test_a_file_brings_back_the_same_machine(machine, tmp_path) -> None:
    save(machine, tmp_path / "new" / "here.json")
    assert load(tmp_path / "new" / "here.json") == machine
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["here.json"]


def _without(document: dict, key: str) -> dict:
    return {name: value for name, value in document.items() if name != key}


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda text: text[: len(text) // 2], "JSON"),
        (lambda text: "", "JSON"),
        (lambda text: "[]", "is not what"),
        (lambda text: text.replace('"flops":', '"flop":'), "flops"),
        (lambda text: text.replace('"flops":', '"flops": -1, "x":'), "flops"),
        (lambda text: text.replace('"matmul":', '"matmull":'), "matmull"),
        (lambda text: text.replace('"matmul":', '"matmul": "fast", "x":'), "matmul"),
        (lambda text: text.replace('"matmul":', '"matmul": -0.5, "rest":'), "matmul"),
        (lambda text: json.dumps(_without(json.loads(text), "calibrated")), "calibrated"),
        (lambda text: text + " " * (1 << 22), "larger"),
    ],
)
def test_a_damaged_file_is_refused_with_what_is_wrong(machine, tmp_path, change, says) -> None:
    path = tmp_path / "here.json"
    save(machine, path)
    path.write_text(change(path.read_text()))
    with pytest.raises(ValueError, match=r"(?i)" + says) as caught:
        load(path)
    assert "here.json" in str(caught.value)


def test_without_a_profile_plan_says_to_make_one(monkeypatch, tmp_path) -> None:
    monkeypatch.setattr("minipar.commands.sizes.usual_path", lambda: tmp_path / "this-machine.json")
    result = CliRunner().invoke(app, ["predict", "--model", "demo", "--hardware", "this-machine"])
    assert result.exit_code == 1
    assert "minipar profile" in result.output


def test_the_command_measures_writes_and_is_planned_with(tmp_path) -> None:
    path = tmp_path / "here.json"
    line = f"profile --hidden 16 --heads 2 --sequence 8 --largest 2 --out {path} --json"
    result = CliRunner().invoke(app, line.split())
    assert result.exit_code == 0, result.output
    facts = json.loads(result.stdout)
    assert len(facts["layers"]) == 2 * 2 * 2 * 2  # widths, degrees, sizes, layers
    assert len(facts["steps"]) == 2 * 2 * 4
    predict = f"predict --model demo --tp 2 --batch 4 --hardware {path} --json"
    found = json.loads(CliRunner().invoke(app, predict.split()).stdout)
    assert found["software"] == "minipar"
    assert found["hardware"] == "this-machine"
    assert any("hidden 64" in warning for warning in found["warnings"])  # it was calibrated on 16 and 32
    plan = f"plan --model demo --gpus 2 --batch 4 --hardware {path} --json"
    layouts = json.loads(CliRunner().invoke(app, plan.split()).stdout)["layouts"]
    assert all(layout["layout"]["zero"] <= 1 for layout in layouts)  # what `minipar train` can do
    rows = tmp_path / "rows.csv"
    rows.write_text("model,nodes,dp,pp,tp,zero,mbs,grad_acc\ndemo,1,2,1,1,1,2,4\ndemo,1,2,1,1,2,2,4\n")
    many = json.loads(CliRunner().invoke(app, f"predict --layouts {rows} --hardware {path} --json".split()).stdout)
    assert [row["fits"] for row in many] == [True, False]
    assert "ZeRO-1 at most" in many[1]["reason"]
    refused = CliRunner().invoke(app, [*predict.split(), "--software", "nanotron"])
    assert refused.exit_code == 1
    assert "its own software" in refused.output


@pytest.mark.parametrize("name", sorted(PRESETS))
def test_the_planner_knows_the_trainers_presets(name: str) -> None:
    assert model_by_name(name) == model_of(PRESETS[name])


def test_the_six_layouts_can_be_trained_and_are_compared_pair_by_pair() -> None:
    for layout in LAYOUTS:
        layout.layout().check(GPTConfig(), layout.batch)
        assert (layout.ranks, layout.batch) == (2, 16)
    rows = [Row(LAYOUTS[0], 1.0, 1.0), Row(LAYOUTS[1], 0.9, 1.1), Row(LAYOUTS[2], 2.0, 3.0), Row(LAYOUTS[3], 3.0, 2.0)]
    assert in_order(rows) == (4, 5)  # 1.0 and 1.1 are not apart; 3.0 and 2.0 are the wrong way round


def test_the_benchmark_profiles_predicts_and_runs() -> None:
    config = replace(TINY, layers=2, vocabulary=256)
    rows = bench(config, rounds=1, layouts=LAYOUTS[::2])
    assert [row.layout for row in rows] == list(LAYOUTS[::2])
    assert all(row.predicted > 0 and row.measured > 0 for row in rows)
