"""Bytes: what a schedule holds at once, and what ZeRO and recompute take away."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from minipar.pipeline.names import LOOPED, NAMES, by_name
from minipar.pipeline.schedule import KEPT_FOR_WEIGHTS
from minipar.plan import Bench, Numbers, hardware_by_name, memory, model_by_name
from minipar.plan.generations import MEGATRON_2022, NANOTRON
from minipar.plan.layout import STAGES_A_RANK
from minipar.plan.memory import needed, peak_blocks, worst
from minipar.plan.work import holders
from minipar.recompute import Recompute

BENCH = Bench(hardware_by_name("a100-80gb"), MEGATRON_2022)


@settings(max_examples=200, deadline=None)
@given(name=st.sampled_from(NAMES), p=st.integers(1, 6), m=st.integers(1, 60), v=st.integers(1, 3), data=st.data())
def test_the_most_that_is_held_is_that_of_the_whole_schedule(name, p, m, v, data):
    virtual = v if name in LOOPED else 1
    stages = p * STAGES_A_RANK.get(name, virtual)
    blocks = tuple(data.draw(st.lists(st.integers(1, 4), min_size=stages, max_size=stages)))
    schedule = by_name(name, p, m, virtual if name in LOOPED else None)
    most = []
    for row in schedule.actions:
        live, late = [0] * stages, [0] * stages
        held = [0.0]
        for kind, stage, _ in row:
            live[stage] += {"F": 1, "B": -1, "I": -1, "W": 0}[kind]
            late[stage] += {"F": 0, "B": 0, "I": 1, "W": -1}[kind]
            held.append(sum(n * (a + KEPT_FOR_WEIGHTS * b) for n, a, b in zip(blocks, live, late, strict=True)))
        most.append(max(held))
    layout = Numbers(1, p, 1, 1, m, name, virtual)
    assert peak_blocks(layout, blocks) == pytest.approx(most)


@settings(max_examples=200, deadline=None)
@given(
    name=st.sampled_from(NAMES),
    p=st.sampled_from([1, 2, 4]),
    model=st.sampled_from(["gpt-7.5b", "llama3-8b"]),
    software=st.sampled_from([MEGATRON_2022, NANOTRON]),
    recompute=st.sampled_from(list(Recompute)),
    zero=st.integers(0, 3),
)
def test_what_a_layout_needs_is_what_its_fullest_rank_holds(name, p, model, software, recompute, zero):
    layout = Numbers(4, p, 2, 2, 9, name if p > 1 else "1f1b", 1, True, recompute, zero)
    asked = model_by_name(model), layout, Bench(hardware_by_name("h100"), software)
    assert needed(*asked) == pytest.approx(worst(memory(*asked)).total, rel=1e-12)


@pytest.mark.parametrize("name", NAMES)
def test_a_stage_is_held_by_the_rank_that_the_schedule_says(name):
    virtual = 3 if name in LOOPED else 1
    assert holders(name, 5, virtual) == by_name(name, 5, 7, virtual if name in LOOPED else None).holder


def test_zero_shards_one_part_after_the_other():
    model, plain = model_by_name("gpt-7.5b"), Numbers(dp=4, tp=2)
    held = [worst(memory(model, plain._replace(zero=zero), BENCH)) for zero in range(4)]
    assert [one.optimizer / held[0].optimizer for one in held] == [1, 0.25, 0.25, 0.25]
    assert [one.gradients / held[0].gradients for one in held] == [1, 1, 0.25, 0.25]
    assert [one.weights / held[0].weights for one in held] == [1, 1, 1, 0.25]
    assert len({one.activations for one in held}) == 1


def test_the_states_of_all_ranks_are_those_of_the_model():
    model = model_by_name("gpt-7.5b")
    ranks = memory(model, Numbers(pp=4), BENCH)
    a_weight = MEGATRON_2022.weight + MEGATRON_2022.gradient + MEGATRON_2022.optimizer
    states = sum(one.weights + one.gradients + one.optimizer + one.vocabulary for one in ranks)
    copy = model.vocabulary_weights()  # of the embedding that the head is tied to, on the last rank
    assert states == pytest.approx((model.weights + copy) * a_weight)
    for one in ranks:
        assert one.total == pytest.approx(sum(one.parts.values()))


def test_recompute_keeps_less_and_needs_room_for_what_it_computes_again():
    model, plain = model_by_name("gpt-22b"), Numbers(tp=8, micro_batch=4)
    none, selective, full = (worst(memory(model, plain._replace(recompute=r), BENCH)) for r in Recompute)
    assert none.activations > selective.activations > full.activations
    assert none.buffers == 0 < selective.buffers < full.buffers
    tokens, h, s, a = 4 * 2048, model.hidden, model.sequence, model.heads
    assert selective.buffers == tokens * 5 * a * s / 8  # 5·a·s²·b bytes of the core (Korthikanti et al. 2022, §4.1)
    assert full.activations == model.layers * tokens * 2 * h
