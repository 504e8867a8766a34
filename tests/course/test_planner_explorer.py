"""The explorer of lesson 09: every position is the planner's landscape."""

from __future__ import annotations

from dataclasses import replace
from xml.etree import ElementTree

from hypothesis import given, settings
from hypothesis import strategies as st

from course.widgets.planner import BATCHES, DEVICES, GPUS, MEMORY, MODELS, SPACE, cells, look, planner
from minipar.plan import Bench, hardware_by_name, landscape, model_by_name, predict
from minipar.plan.generations import usual_software

PLACES = [st.integers(0, len(options) - 1) for options in (MODELS, GPUS, BATCHES, DEVICES, MEMORY)]


@settings(max_examples=25, deadline=None)
@given(*PLACES)
def test_every_position_shows_the_planners_best_of_each_mesh(
    model: int, gpus: int, batch: int, device: int, memory: int
) -> None:
    view = look(model, gpus, batch, device, memory)
    assert ElementTree.fromstring(view.picture).tag.endswith("svg")
    facts = dict(view.facts)
    found = cells(model, gpus, batch, device, memory)
    assert all(mesh.ranks == GPUS[gpus] for mesh in found)
    hardware = replace(hardware_by_name(DEVICES[device]), memory=MEMORY[memory] * 2**30)
    bench, sizes = Bench(hardware, usual_software(hardware)), model_by_name(MODELS[model])
    possible = [one for one in found.values() if not isinstance(one, str)]
    for one in possible:
        again = predict(sizes, one.layout, bench)
        assert again.fits
        assert again.step_seconds == one.step_seconds
        assert one.layout.batch == BATCHES[batch]
    refused = len(found) - len(possible)
    assert any("refused" in name for name in facts) == (refused > 0)
    if possible:
        best = min(possible, key=lambda one: one.step_seconds)
        assert facts["fastest"] == str(best.layout)
        assert facts["MFU"] == f"{100 * best.mfu:.0f} %"
        assert facts["a GPU holds at most"] == f"{best.worst.total / 2**30:.0f} GiB"
        hours = BATCHES[batch] and best.step_seconds * GPUS[gpus] / (BATCHES[batch] * sizes.sequence) * 1e9 / 3600
        assert facts["a billion tokens cost"] == f"{hours:.0f} GPU-hours"
    else:
        assert facts["fastest"] == "no layout fits"


def test_what_is_kept_is_what_the_library_says() -> None:
    hardware = replace(hardware_by_name("h100"), memory=40 * 2**30)
    place = MODELS.index("gpt-7.5b"), 0, 0, DEVICES.index("h100"), MEMORY.index(40)
    want = landscape(model_by_name("gpt-7.5b"), Bench(hardware, usual_software(hardware)), 8, 64, SPACE)
    assert cells(*place) == want


def test_less_memory_never_makes_a_step_faster() -> None:
    for model in range(len(MODELS)):
        best = []
        for memory in range(len(MEMORY)):
            found = cells(model, 2, 1, 1, memory).values()
            best.append(min((one.step_seconds for one in found if not isinstance(one, str)), default=float("inf")))
        assert best == sorted(best, reverse=True)


def test_a_slower_network_never_makes_a_step_faster() -> None:
    fast, slow = (cells(3, 3, 2, device, 2) for device in (1, 2))
    for mesh, one in fast.items():
        other = slow[mesh]
        if not isinstance(one, str) and not isinstance(other, str):
            assert other.step_seconds >= one.step_seconds


def test_sliders_move_picture_and_facts() -> None:
    explorer = planner()
    before = explorer.picture
    explorer.values = {"model": 0, "gpus": 0, "batch": 0, "device": 0, "memory": 0}
    assert explorer.picture != before
    assert "gpt-7.5b on 8 GPUs of 24 GiB" in explorer.picture
    assert any("refused" in name for name, _value in explorer.facts)
