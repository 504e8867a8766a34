"""`minipar plan` and `minipar predict` as their users call them."""

from __future__ import annotations

import csv
import io
import json
import subprocess
import sys

import pytest
from typer.testing import CliRunner, Result

from minipar.cli import app
from tests.minipar.plan.published import DATA

SIZES = "--layers 48 --hidden 6144 --heads 64 --vocab 51200 --seq 2048"


def run(line: str) -> Result:
    return CliRunner().invoke(app, line.split(), env={"COLUMNS": "200"})


def facts(line: str) -> dict:
    result = run(line + " --json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def test_a_prediction_adds_up_and_is_the_named_models():
    found = facts(f"predict {SIZES} --tp 8 --batch 4 --micro-batch 4 --recompute full --hardware a100-80gb")
    assert found == facts("predict --model gpt-22b --tp 8 --batch 4 --micro-batch 4 --recompute full")
    assert found["step_seconds"] == pytest.approx(sum(found["seconds"].values()))
    memory = found["memory_bytes"]
    assert memory["total"] == pytest.approx(sum(size for name, size in memory.items() if name != "total"))
    assert found["fits"]
    assert found["mfu"] == pytest.approx(found["tflops_per_gpu"] * 1e12 / 312e12)
    assert found["hardware_tflops_per_gpu"] > found["tflops_per_gpu"]


def test_every_option_of_predict_is_read():
    base = f"predict {SIZES} --dp 2 --pp 4 --tp 4 --batch 32 --micro-batch 1"
    plain = facts(base)
    options = [
        "--recompute selective",
        "--sequence-parallel",
        "--zero 1",
        "--zero 3",
        "--schedule interleaved --virtual 3",
        "--schedule zb-v",
        "--hardware h100",
        "--software megatron-2021",
        "--kv-heads 8",
        "--ffn 8192",
        "--llama",
    ]
    for option in options:
        changed = facts(f"{base} {option}")
        assert (changed["seconds"], changed["memory_bytes"]) != (plain["seconds"], plain["memory_bytes"]), option


def test_the_fastest_micro_batch_with_room_is_taken():
    line = f"predict {SIZES} --dp 2 --pp 4 --tp 8 --batch 32"
    chosen = facts(line)
    each = [facts(f"{line} --micro-batch {size}") for size in (1, 2, 4, 8, 16)]
    assert chosen["step_seconds"] == min(one["step_seconds"] for one in each if one["fits"])


def test_what_is_not_calibrated_and_what_does_not_fit_is_said():
    result = run(f"predict {SIZES} --tp 2 --batch 1")
    assert "It does not fit" in result.stdout
    assert "tp 2 (calibrated on 8 to 8)" in result.stdout


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("predict --layers 4 --hidden 64", "--heads missing: name a --model, or give its sizes"),
        ("predict --model gpt-9b", "model 'gpt-9b' is not one of"),
        (f"predict {SIZES} --hardware tpu", "hardware 'tpu' is not one of"),
        (f"predict {SIZES} --software x", "software 'x' is not one of"),
        (f"predict {SIZES} --tp 7", "heads=64 is not divisible by tp=7"),
        (f"predict {SIZES} --pp 49", "48 layers cannot fill 49 stages"),
        (f"predict {SIZES} --dp 3 --batch 4", "a batch of 4 samples is not divisible by dp=3"),
        (f"predict {SIZES} --batch 4 --micro-batch 3", "cannot be cut into micro-batches of 3"),
        (f"predict {SIZES} --zero 4", "zero=4; it can be 0, 1, 2 or 3"),
        (f"predict {SIZES} --schedule none", "schedule 'none' is not one of"),
        ("predict --layouts /nowhere.csv", "cannot be read"),
        (f"plan {SIZES} --gpus 0 --batch 8", "gpus=0; it must be at least 1"),
    ],
)
def test_bad_input_gets_a_sentence(line, sentence):
    result = run(line)
    assert result.exit_code == 1
    assert sentence in result.output
    assert "Traceback" not in result.output


def test_a_file_of_layouts(tmp_path):
    with (DATA / "ultrascale_grid_1B_8B.csv").open() as file:
        rows = [row for row in csv.DictReader(file) if row["nodes"] == "1"]
    path = tmp_path / "layouts.csv"
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(
            file, ["model", "nodes", "dp", "pp", "tp", "zero", "mbs", "grad_acc"], extrasaction="ignore"
        )
        writer.writeheader()
        writer.writerows(rows)
    result = run(f"predict --hardware h100 --layouts {path}")
    found = list(csv.DictReader(io.StringIO(result.stdout)))
    assert len(found) == len(rows)
    for row in found:
        assert float(row["tok_s_gpu"]) > 0
        assert (row["fits"] == "True") == (row["reason"] == "")
    path.write_text("model,nodes,dp,pp,tp,zero,mbs,grad_acc\n1B,1,2,1,1,0,1,1\n")
    assert "line 2: dp=2 · pp=1 · tp=1 is not the 8 GPUs of 1 nodes" in run(f"predict --layouts {path}").output
    path.write_text("model,nodes,dp,pp\n")
    assert "has no column tp, zero, mbs, grad_acc" in run(f"predict --layouts {path}").output


def test_a_plan_ranks_and_refuses():
    found = facts(f"plan {SIZES} --hardware a100-80gb --gpus 16 --batch 16 --top 3")
    seconds = [one["step_seconds"] for one in found["layouts"]]
    assert len(seconds) == 3
    assert seconds == sorted(seconds)
    assert all(one["fits"] for one in found["layouts"])
    assert found["searched"] > 1000
    assert all(one["reason"] for one in found["refused"])
    text = run(f"plan {SIZES} --gpus 12 --batch 16 --top 3").stdout
    assert "Refused, whatever the schedule and the options:" in text


@pytest.mark.parametrize("line", [f"plan {SIZES} --gpus 8 --batch 8", f"predict {SIZES} --tp 8"])
def test_planning_starts_without_torch(line):
    call = "app(sys.argv[1:], standalone_mode=False)"
    code = f"import sys; from minipar.cli import app; {call}; print('torch' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code, *line.split()], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.strip().endswith("False")


def test_pictures_are_written_and_are_of_what_was_asked_for(tmp_path):
    memory, seconds, land = (tmp_path / name for name in ("memory.svg", "seconds.svg", "land.svg"))
    line = f"predict {SIZES} --tp 8 --pp 2 --batch 4 --micro-batch 2 --memory-svg {memory} --seconds-svg {seconds}"
    assert run(line).exit_code == 0
    assert "rank 1" in memory.read_text()
    assert "bubble (idle)" in seconds.read_text()
    assert run(f"plan {SIZES} --gpus 8 --batch 8 --top 1 --landscape-svg {land}").exit_code == 0
    best = facts(f"plan {SIZES} --gpus 8 --batch 8 --top 1")["layouts"][0]["layout"]
    assert f"best is dp={best['dp']} × pp={best['pp']} × tp={best['tp']}" in land.read_text()
    missing = run(f"predict {SIZES} --tp 8 --memory-svg {tmp_path}/no/file.svg")
    assert missing.exit_code == 1
    assert "cannot be written" in missing.output
