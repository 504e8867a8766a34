"""Seconds: schedules that are followed beside those simulated whole, and parts that add up."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from minipar.pipeline.names import LOOPED, by_name
from minipar.plan import Bench, Numbers, hardware_by_name, model_by_name, predict, steady
from minipar.plan.ends import ends
from minipar.plan.generations import MEGATRON_2022, MEGATRON_CORE, NANOTRON
from minipar.plan.layout import STAGES_A_RANK
from minipar.plan.steady import duration
from minipar.recompute import Recompute
from tests.minipar.plan.drawn import cases

SECONDS = st.sampled_from([0.5, 1.0, 1.25, 2.0, 3.1])


@settings(max_examples=300, deadline=None)
@given(case=cases(ranks=6, micro_batches=90, stages_a_rank=3))
def test_a_long_schedule_is_followed_as_if_it_were_simulated_whole(case):
    assert duration(*case) == pytest.approx(case.seconds, rel=1e-9)


@pytest.mark.parametrize("name", ["1f1b", "zb-h1", "zb-h2", "zb-v", "v-half", "v-min", "dualpipe-v", "interleaved"])
@pytest.mark.parametrize("send", [0.0, 0.1])
def test_of_a_long_schedule_few_micro_batches_are_simulated(name, send, monkeypatch):
    simulated = []

    def counted(schedule, m, costs, send):
        simulated.append(m)
        return ends(schedule, m, costs, send)

    monkeypatch.setattr(steady, "ends", counted)
    p, m, virtual = 4, 400, 3 if name in LOOPED else 1
    costs = ((1.0, 2.0),) * (p * STAGES_A_RANK.get(name, virtual) - 1) + ((1.3, 2.6),)
    seconds = steady.duration.__wrapped__(name, p, m, virtual, costs, send)
    assert sum(simulated) <= 15 * p
    assert seconds == pytest.approx(ends(by_name(name, p, m, 3 if name in LOOPED else None), m, costs, send)[1])


def test_a_rhythm_that_a_slower_one_overtakes_is_not_followed():
    costs = ((1.17, 2.21), (1.07, 2.06))
    for m in range(12, 60):
        whole = ends(by_name("1f1b", 2, m), m, costs, 1.0)[1]
        assert steady.duration("1f1b", 2, m, 1, costs, 1.0) == pytest.approx(whole, rel=1e-9)


LAYOUTS = st.builds(
    Numbers,
    dp=st.sampled_from([1, 2, 8]),
    pp=st.sampled_from([1, 2, 4]),
    tp=st.sampled_from([1, 2, 8]),
    micro_batch=st.sampled_from([1, 4]),
    micro_batches=st.sampled_from([1, 8]),
    sequence_parallel=st.booleans(),
    recompute=st.sampled_from(list(Recompute)),
    zero=st.integers(0, 3),
    schedule=st.just("1f1b"),
    virtual=st.just(1),
)


@settings(max_examples=100, deadline=None)
@given(layout=LAYOUTS, software=st.sampled_from([MEGATRON_2022, MEGATRON_CORE, NANOTRON]))
def test_parts_are_times_and_better_hardware_is_never_slower(layout, software):
    model, hardware = model_by_name("gpt-7.5b"), hardware_by_name("a100-80gb")
    bench = Bench(hardware, software)
    found = predict(model, layout, bench)
    assert sum(found.time.parts.values()) == pytest.approx(found.step_seconds)
    assert all(seconds >= -1e-12 for seconds in found.time.parts.values())
    assert 0 < found.mfu < 1
    assert found.hardware_flops_per_second >= found.flops_per_second
    faster = [
        replace(hardware, flops=2 * hardware.flops),
        replace(hardware, bandwidth=2 * hardware.bandwidth),
        replace(hardware, inside=hardware.inside._replace(beta=hardware.inside.beta / 2)),
        replace(hardware, between=hardware.between._replace(alpha=0.0)),
    ]
    for better in faster:
        assert predict(model, layout, Bench(better, software)).step_seconds <= found.step_seconds * (1 + 1e-9)


def test_each_constant_is_read():
    """Every constant of a software changes some prediction."""
    model, hardware = model_by_name("playbook-1b"), hardware_by_name("h100")
    layouts = [
        Numbers(8, 2, 16, 1, 4, sequence_parallel=True, zero=1),
        Numbers(64, 1, 1, 1, 1),
        Numbers(64, 1, 1, 16, 1, zero=2, recompute=Recompute.SELECTIVE),
        Numbers(16, 4, 2, 1, 8, sequence_parallel=True),
        Numbers(1, 1, 1, 64, 1),
        Numbers(2, 1, 32, 64, 1, recompute=Recompute.FULL),
    ]

    def all_of(software):
        benches = [Bench(hardware, replace(software, ahead=ahead)) for ahead in (True, False)]
        found = [predict(model, at, bench) for at in layouts for bench in benches]
        return [(one.time, one.memory, one.usable) for one in found]

    usual = all_of(NANOTRON)
    constants = {name: value for name, value in vars(NANOTRON).items() if isinstance(value, float)}
    unread = [
        name
        for name, value in constants.items()
        if all_of(replace(NANOTRON, **{name: 0.9 * value if value else 0.5})) == usual
    ]
    assert unread == []
