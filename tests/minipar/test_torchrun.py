"""`minipar.run` under torchrun: it joins the ranks that torchrun started."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import psutil
import pytest

SCRIPT = """
import json, os, sys, minipar
from minipar.devices import place
import torch.distributed as dist

def fn(x, key):
    return [dist.get_rank(), dist.get_world_size(), x, key]

said = {"ranks": minipar.run(fn, 2, 7, key="seven", device="cpu"), "place": str(place())}
said["again"] = minipar.run(dist.get_rank, 2)
heard = []
minipar.run(lambda: minipar.report("here"), 2, on_report=lambda rank, value: heard.append([rank, value]))
said["heard"] = heard
for wrong in ({"ranks": 4}, {"ranks": 2, "device": "tpu"}):
    try:
        minipar.run(fn, **wrong)
    except ValueError as error:
        said[str(next(reversed(wrong.values())))] = str(error)
with open(os.path.join(sys.argv[1], os.environ["RANK"] + ".json"), "w") as file:
    json.dump(said, file)
dist.destroy_process_group()
"""


@pytest.fixture(scope="module")
def said(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """What each of the two ranks said."""
    folder = tmp_path_factory.mktemp("torchrun")
    script = folder / "script.py"
    script.write_text(SCRIPT)
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    environment = {name: value for name, value in os.environ.items() if name != "MINIPAR_DEVICE"}
    done = subprocess.run(
        [*torchrun, str(script), str(folder)], capture_output=True, text=True, timeout=90, env=environment
    )
    assert done.returncode == 0, done.stderr
    assert not [p for p in psutil.process_iter(["cmdline"]) if str(script) in (p.info["cmdline"] or [])]
    return [json.loads(Path(folder, f"{rank}.json").read_text()) for rank in range(2)]


def test_every_rank_gets_the_whole_list(said: list[dict[str, Any]]) -> None:
    for rank in said:
        assert rank["ranks"] == [[0, 2, 7, "seven"], [1, 2, 7, "seven"]]
        assert rank["again"] == [0, 1]


def test_the_device_asked_for_is_the_one_that_is_used(said: list[dict[str, Any]]) -> None:
    assert [rank["place"] for rank in said] == ["cpu with gloo (asked for)"] * 2


def test_reports_are_heard_in_the_rank_that_made_them(said: list[dict[str, Any]]) -> None:
    assert [rank["heard"] for rank in said] == [[[0, "here"]], [[1, "here"]]]


def test_another_number_of_ranks_is_an_error_that_names_both(said: list[dict[str, Any]]) -> None:
    for rank in said:
        assert "ranks=4" in rank["4"]
        assert "2 ranks were started" in rank["4"]


def test_an_unknown_device_is_an_error(said: list[dict[str, Any]]) -> None:
    assert all("device is 'tpu'" in rank["tpu"] for rank in said)
