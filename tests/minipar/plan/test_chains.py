"""Chains of actions beside the simulations that they bound."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from minipar.pipeline.names import LOOPED
from minipar.plan import Bench, Numbers, hardware_by_name, model_by_name, predict
from minipar.plan.bounds import SPLIT, chained, filled
from minipar.plan.chains import _ways, chain
from minipar.plan.closed import CLOSED
from minipar.plan.ends import ends
from minipar.plan.generations import MEGATRON_2022
from minipar.plan.layout import STAGES_A_RANK
from minipar.plan.steady import duration
from tests.minipar.plan.drawn import cases

LOOPS = [("interleaved", virtual) for virtual in (2, 3, 4, 6, 8)]
SECONDS = st.sampled_from([0.01, 0.5, 1.0, 1.25, 2.0, 3.1])


@settings(max_examples=300, deadline=None)
@given(case=cases(ranks=9, micro_batches=60, stages_a_rank=4))
def test_no_schedule_is_shorter_than_its_longest_chain(case):
    whole, least = case.seconds, chain(*case)
    assert least == pytest.approx(whole, rel=1e-12) if case.name in CLOSED else least <= whole * (1 + 1e-9)
    assert ends(case.schedule, case.m, case.costs, case.send)[1] == whole
    assert least >= max(case.m * sum(cost) for cost in case.costs) * (1 - 1e-9)


@pytest.mark.parametrize(("name", "virtual"), [*((one, 1) for one in (*SPLIT, "1f1b")), *LOOPS])
@pytest.mark.parametrize("p", [1, 2, 5, 8])
def test_rows_begin_and_end_alike_however_many_micro_batches(name, virtual, p):
    for m in range(2 * p + 1, 5 * p + 2):
        assert _ways(name, p, m, virtual) == _ways(name, p, 2 * p + (m % p if virtual > 1 else 0), virtual)


@pytest.mark.parametrize("name", ["1f1b", "zb-h1", "zb-h2", "zb-v", "dualpipe-v"])
def test_with_equal_stages_the_chain_is_the_schedule(name):
    costs = ((1.0, 2.0),) * (8 * STAGES_A_RANK.get(name, 1))
    assert chain(name, 8, 100, 1, costs, 0.0) == pytest.approx(duration(name, 8, 100, 1, costs, 0.0))


@pytest.mark.parametrize("name", [*SPLIT, "1f1b", "interleaved"])
@pytest.mark.parametrize("zero", [0, 3])
def test_no_layout_is_faster_than_its_chains_and_what_comes_after(name, zero):
    model, bench = model_by_name("gpt-7.5b"), Bench(hardware_by_name("a100-cloud"), MEGATRON_2022)
    for pp, m in ((2, 1), (2, 9), (4, 3), (8, 24), (16, 40)):
        layout = Numbers(4, pp, 2, 2, m, name, 2 if name in LOOPED else 1, zero=zero)
        if layout.refused(model):
            continue
        seconds = predict(model, layout, bench).step_seconds
        assert filled(model, [layout], bench) <= chained(model, layout, bench) * (1 + 1e-9)
        assert 0.85 * seconds <= chained(model, layout, bench) <= seconds * (1 + 1e-9)
