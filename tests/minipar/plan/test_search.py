"""The search beside brute force, its bounds beside what they bound, and its refusals."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from minipar.pipeline.names import NAMES
from minipar.plan import Bench, Model, Numbers, Space, hardware_by_name, landscape, model_by_name, predict, search
from minipar.plan.bounds import SPLIT, balanced, filled
from minipar.plan.generations import MEGATRON_2022, MEGATRON_CORE, NANOTRON
from minipar.plan.search import meshes
from minipar.recompute import Recompute

ON_CPU = replace(MEGATRON_2022, name="on a CPU", ahead=False, launch=2e-3, ends=1e-3, latency=1e-4, most_zero=1)
SOFTWARE = st.sampled_from([MEGATRON_2022, MEGATRON_CORE, NANOTRON, ON_CPU])
MODELS = st.builds(
    Model,
    layers=st.integers(1, 9),
    hidden=st.sampled_from([512, 1024]),
    heads=st.sampled_from([4, 8]),
    vocabulary=st.sampled_from([5000, 50000]),
    sequence=st.sampled_from([512, 2048]),
)


def everything(model: Model, bench: Bench, gpus: int, batch: int, space: Space) -> list[Numbers]:
    """Every layout that can be, written out by hand from what `Space` says."""
    found = []
    for mesh in meshes(gpus):
        if batch % mesh.dp:
            continue
        plans = [
            (name, virtual)
            for name in space.schedules
            for virtual in (space.virtual if name in ("interleaved", "breadth-first") else (1,))
        ]
        for size in range(1, space.micro_batch + 1):
            for name, virtual in plans if mesh.pp > 1 else [("1f1b", 1)]:
                for parallel in space.sequence_parallel:
                    for recompute in space.recompute:
                        for zero in space.zero:
                            if zero > bench.software.most_zero:
                                continue
                            if (batch // mesh.dp) % size or (parallel and mesh.tp == 1) or (zero and mesh.dp == 1):
                                continue
                            layout = mesh._replace(
                                micro_batch=size,
                                micro_batches=batch // mesh.dp // size,
                                schedule=name,
                                virtual=virtual,
                                sequence_parallel=parallel,
                                recompute=recompute,
                                zero=zero,
                            )
                            if layout.refused(model) is None:
                                found.append(layout)
    return found


@settings(max_examples=25, deadline=None)
@given(
    model=MODELS,
    software=SOFTWARE,
    gpus=st.sampled_from([1, 2, 4, 6, 8, 16]),
    batch=st.sampled_from([1, 6, 8, 16]),
    memory=st.sampled_from([0.05, 0.3, 1.0, 80.0]),
    top=st.integers(1, 6),
    data=st.data(),
)
def test_the_search_finds_what_brute_force_finds(model, software, gpus, batch, memory, top, data):
    names = data.draw(st.lists(st.sampled_from(NAMES), min_size=1, max_size=4, unique=True))
    space = Space(tuple(names), virtual=(2, 3), micro_batch=4, zero=(0, 1, 3))
    bench = Bench(
        replace(hardware_by_name("a100-80gb"), memory=memory * 2**30 + software.reserve, per_node=4), software
    )
    found = search(model, bench, gpus, batch, space, top)
    all_layouts = everything(model, bench, gpus, batch, space)
    possible = [predict(model, layout, bench) for layout in all_layouts]
    best = sorted(one.step_seconds for one in possible if one.fits)[:top]
    assert [one.step_seconds for one in found.layouts] == pytest.approx(best, rel=1e-12)
    assert all(one.fits for one in found.layouts)
    refused = {one.mesh for one in found.refused if one.layout is None}
    left = [layout for layout in all_layouts if Numbers(layout.dp, layout.pp, layout.tp) not in refused]
    assert found.searched == len(left)
    assert not any(one.fits and Numbers(one.layout.dp, one.layout.pp, one.layout.tp) in refused for one in possible)


@settings(max_examples=60, deadline=None)
@given(
    model=MODELS,
    software=SOFTWARE,
    pp=st.integers(1, 4),
    m=st.integers(1, 12),
    name=st.sampled_from(NAMES),
    recompute=st.sampled_from(list(Recompute)),
)
def test_no_layout_is_faster_than_its_bounds(model, software, pp, m, name, recompute):
    virtual = 2 if name in ("interleaved", "breadth-first") and pp > 1 else 1
    layout = Numbers(2, pp, 2, 1, m, name if pp > 1 else "1f1b", virtual, True, recompute, 1)
    if layout.refused(model):
        return
    bench = Bench(hardware_by_name("h100"), software)
    seconds = predict(model, layout, bench).step_seconds
    assert balanced(model, [layout], bench) <= seconds * (1 + 1e-9)
    assert filled(model, [layout], bench) <= seconds * (1 + 1e-9)
    assert (name in SPLIT) == any(a.kind in "IW" for row in layout_actions(name) for a in row)


def layout_actions(name: str):
    from minipar.pipeline.names import by_name

    return by_name(name, 2, 4).actions


def test_a_mesh_is_refused_for_its_own_reason():
    bench = Bench(hardware_by_name("a100-80gb"), MEGATRON_2022)
    model = model_by_name("gpt-22b")
    reasons = {one.mesh: one.reason for one in search(model, bench, 24, 16).refused if one.layout is None}
    assert reasons[Numbers(24, 1, 1)] == "a batch of 16 samples is not divisible by dp=24"
    assert reasons[Numbers(8, 1, 3)] == "heads=64 is not divisible by tp=3"
    alone = search(model, bench, 1, 16)
    assert not alone.layouts
    assert alone.refused[0].reason == "weights, gradients and optimizer alone need 365 GiB of the 75 there are"


def test_uneven_stages_are_cut_so_that_none_is_left_with_most():
    model = replace(model_by_name("gpt-22b"), layers=47)
    bench = Bench(hardware_by_name("a100-80gb"), MEGATRON_2022)
    found = search(model, bench, 64, 64, Space(schedules=("1f1b",)), top=50)
    assert any(model.layers % one.layout.stages for one in found.layouts)


def test_the_landscape_has_every_mesh_and_its_best_is_the_best():
    bench = Bench(hardware_by_name("h100"), MEGATRON_CORE)
    model = model_by_name("playbook-8b")
    space = Space(schedules=("1f1b", "interleaved"), micro_batch=4)
    cells = landscape(model, bench, 32, 64, space)
    assert set(cells) == set(meshes(32))
    predictions = [cell for cell in cells.values() if not isinstance(cell, str)]
    best = search(model, bench, 32, 64, space, top=1).layouts[0]
    assert min(one.step_seconds for one in predictions) == best.step_seconds


@pytest.mark.parametrize("wrong", [{"gpus": 0}, {"batch": 0}, {"top": 0}])
def test_nothing_is_searched_for_nothing(wrong):
    bench = Bench(hardware_by_name("h100"), MEGATRON_CORE)
    asked = {"gpus": 8, "batch": 8, "top": 1, **wrong}
    with pytest.raises(ValueError, match="it must be at least 1"):
        search(model_by_name("gpt-1.7b"), bench, **asked)


def test_what_a_software_does_not_do_is_neither_searched_nor_refused():
    model, hardware = model_by_name("gpt-1.7b"), hardware_by_name("h100")
    found = search(model, Bench(hardware, ON_CPU), 8, 8, top=1000)
    assert found.layouts
    assert {one.layout.zero for one in found.layouts} == {0, 1}
    assert not [one for one in found.refused if "ZeRO" in one.reason]
    less = search(model, Bench(hardware, ON_CPU), 8, 8, Space(zero=(0, 1)), top=1000)
    assert less.searched == found.searched
    with pytest.raises(ValueError, match=r"zero=\(2, 3\)"):
        search(model, Bench(hardware, ON_CPU), 8, 8, Space(zero=(2, 3)))
    assert "ZeRO-1 at most" in (predict(model, Numbers(dp=8, zero=2), Bench(hardware, ON_CPU)).refused or "")
