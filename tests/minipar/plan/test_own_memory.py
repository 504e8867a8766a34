"""What `minipar train` is predicted to hold, against what PyTorch's allocator gave out in a real step, rank by rank."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from functools import lru_cache
from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import minipar
from minipar.model import GPTConfig
from minipar.pipeline.names import LOOPED, NAMES, by_name
from minipar.plan import Bench, Numbers, hardware_by_name, memory, predict
from minipar.plan.layout import STAGES_A_RANK
from minipar.plan.memory import Memory
from minipar.plan.moments import moments
from minipar.plan.own import MINIPAR, model_of
from minipar.recompute import Recompute
from tests.minipar.plan.census import census

WITHIN = 0.05
BENCH = Bench(hardware_by_name("a100-80gb"), MINIPAR)


class Case(NamedTuple):
    """A layout and what is special about the model: by default 4 blocks of 128 features, 1,000 tokens."""

    layout: Numbers
    gated: bool = False
    tied: bool = False
    kv_heads: int | None = None
    vocabulary: int = 1000
    sequence: int = 64
    layers: int = 4

    @property
    def config(self) -> GPTConfig:
        sizes = self._asdict()
        del sizes["layout"]
        return GPTConfig(hidden=128, heads=4, **sizes)


ONE, TWO = Numbers(micro_batch=4), Numbers(micro_batch=4, tp=2)
SLICED = TWO._replace(sequence_parallel=True)
PIPE = Numbers(micro_batch=4, pp=2, micro_batches=4)
SHARDED = Numbers(micro_batch=1, dp=2, zero=1)
SMALL = 64  # tokens, so that logits are small and blocks decide which moment is the worst
CASES = {
    "one rank": Case(ONE),
    "two micro-batches of a small vocabulary": Case(ONE._replace(micro_batches=2), vocabulary=SMALL),
    "gated, selective": Case(ONE._replace(recompute=Recompute.SELECTIVE), gated=True, vocabulary=SMALL),
    "gated, full": Case(ONE._replace(recompute=Recompute.FULL), gated=True, vocabulary=SMALL),
    "full": Case(ONE._replace(recompute=Recompute.FULL)),
    "tied, weights outweigh": Case(Numbers(), tied=True, vocabulary=4000, sequence=16, layers=1),
    "grouped queries": Case(ONE, kv_heads=2),
    "tp": Case(TWO, vocabulary=SMALL),
    "tp, selective, grouped queries": Case(TWO._replace(recompute=Recompute.SELECTIVE), kv_heads=1),
    "tp 4": Case(ONE._replace(tp=4)),
    "sequence parallel": Case(SLICED, vocabulary=SMALL),
    "sequence parallel, gated, full": Case(SLICED._replace(recompute=Recompute.FULL), gated=True, layers=2),
    "replicas": Case(SHARDED._replace(zero=0)),
    "ZeRO": Case(SHARDED),
    "ZeRO, tied, 1f1b": Case(SHARDED._replace(pp=2, micro_batches=2), tied=True, layers=2),
    "ZeRO, interleaved": Case(SHARDED._replace(pp=2, micro_batches=2, schedule="interleaved", virtual=2)),
    "1f1b": Case(PIPE),
    "1f1b, tied, grouped queries": Case(PIPE._replace(micro_batch=2), tied=True, kv_heads=2),
    "gpipe": Case(PIPE._replace(schedule="gpipe")),
    "gpipe, full": Case(PIPE._replace(schedule="gpipe", recompute=Recompute.FULL), vocabulary=SMALL),
    "interleaved": Case(PIPE._replace(schedule="interleaved", virtual=2), vocabulary=SMALL),
    "zb-h1": Case(PIPE._replace(schedule="zb-h1")),
    "zb-h1, small vocabulary": Case(PIPE._replace(schedule="zb-h1"), vocabulary=SMALL),
    "zb-h2, full": Case(PIPE._replace(schedule="zb-h2", recompute=Recompute.FULL)),
    "zb-h1, tp, grouped queries": Case(PIPE._replace(tp=2, schedule="zb-h1"), kv_heads=1, vocabulary=SMALL),
    "zb-v": Case(PIPE._replace(schedule="zb-v")),
    "zb-v, gated": Case(PIPE._replace(schedule="zb-v"), gated=True, vocabulary=SMALL),
    "zb-v, sequence parallel": Case(SLICED._replace(pp=2, micro_batches=3, schedule="zb-v"), vocabulary=SMALL),
    "zb-v over 3 ranks, shared keys": Case(
        SLICED._replace(pp=3, micro_batches=3, schedule="zb-v"), tied=True, kv_heads=1, layers=6
    ),
    "v-half": Case(PIPE._replace(schedule="v-half"), vocabulary=SMALL),
    "v-min": Case(PIPE._replace(schedule="v-min"), vocabulary=SMALL),
    "dualpipe-v": Case(PIPE._replace(schedule="dualpipe-v"), vocabulary=SMALL),
}
AT_THE_LOSS = ("one rank", "grouped queries", "full", "tp 4", "gpipe", "zb-v")
"""Where a rank with a head holds most at the loss by far, so that both agree on the moment, and so on the parts."""


@lru_cache
def measured(name: str) -> list[dict[str, float]]:
    case = CASES[name]
    layout = case.layout
    found: list[dict[str, float]] = minipar.run(
        census, layout.ranks, case.config, layout.layout(), layout.batch, timeout=60, device="cpu"
    )
    return found


def predicted(name: str) -> list[Memory]:
    """For each rank, as `minipar.Mesh` arranges them."""
    case = CASES[name]
    ranks = memory(model_of(case.config), case.layout, BENCH)
    return [rank for rank in ranks for _ in range(case.layout.dp * case.layout.tp)]


def errors(name: str) -> list[float]:
    """Of each rank's total: predicted over measured, less 1."""
    return [ours.total / held["total"] - 1 for ours, held in zip(predicted(name), measured(name), strict=True)]


@pytest.mark.parametrize("name", CASES)
def test_every_rank_holds_what_is_predicted(name):
    assert max(map(abs, errors(name))) <= WITHIN


@pytest.mark.parametrize("name", CASES)
def test_weights_gradients_and_optimizer_are_those_of_the_trainer(name):
    for ours, held in zip(predicted(name), measured(name), strict=True):
        states = {part: ours.parts[part] for part in ("weights", "gradients", "optimizer", "vocabulary")}
        assert states == pytest.approx({part: held[part] for part in states})
        assert sum(states.values()) == pytest.approx(held["states"], rel=1e-3)  # AdamW counts its steps besides


@pytest.mark.parametrize("name", AT_THE_LOSS)
def test_activations_and_logits_are_those_of_the_worst_moment(name):
    both = [pair for pair in zip(predicted(name), measured(name), strict=True) if pair[1]["logits"]]
    assert both
    for ours, held in both:
        assert ours.activations == pytest.approx(held["activations"], rel=WITHIN)
        assert ours.logits == pytest.approx(held["logits"], rel=WITHIN)


def halved(model):
    return tuple(one._replace(bytes=one.bytes / 2) for one in MINIPAR.saved(model))


@pytest.mark.parametrize(
    ("function", "fault", "name"),
    [
        ("saved", halved, "one rank"),
        ("saved", halved, "tp"),
        ("saved", halved, "gpipe"),
        ("waiting", lambda model, tp: (), "zb-h1"),
        ("waiting", lambda model, tp: (), "zb-h2, full"),
        ("FLOAT", 2, "one rank"),
    ],
)
def test_a_fault_in_what_is_kept_shows(monkeypatch, function, fault, name):
    monkeypatch.setattr(f"minipar.plan.sizes.{function}", fault)
    assert max(map(abs, errors(name))) > WITHIN


def test_a_fault_in_the_sums_of_replicas_shows(monkeypatch):
    monkeypatch.setattr("minipar.plan.sizes.Sizes.summed", lambda sizes, weights: 0.0)
    assert max(map(abs, errors("ZeRO"))) > WITHIN
    assert max(map(abs, errors("replicas"))) <= WITHIN  # without ZeRO they are summed in place


def test_sums_of_constants_would_be_far_off():
    """Why `holds` is there: a general model of the same constants knows nothing of what an action makes beside."""
    plain = Bench(BENCH.hardware, replace(MINIPAR, holds=None))
    case = CASES["sequence parallel"]
    [ours] = memory(model_of(case.config), case.layout, plain)
    assert abs(ours.total / measured("sequence parallel")[0]["total"] - 1) > WITHIN


def test_what_the_trainer_does_not_do_is_refused():
    model = model_of(CASES["one rank"].config)
    assert predict(model, Numbers(dp=2, zero=1), BENCH).refused is None
    assert predict(model, Numbers(dp=2, zero=2), BENCH).refused == "minipar does ZeRO-1 at most"


@settings(max_examples=60, deadline=None)
@given(name=st.sampled_from(NAMES), p=st.integers(1, 5), m=st.integers(1, 60), v=st.integers(1, 3))
def test_the_moments_of_a_few_micro_batches_are_those_of_all(name, p, m, v):
    """Against the schedule itself, followed to its end: what is live and what waits as each action begins."""
    virtual = v if name in LOOPED else STAGES_A_RANK.get(name, 1)
    schedule = by_name(name, p, m, virtual if name in LOOPED else None)
    seen = moments(Numbers(pp=p, micro_batches=m, schedule=name, virtual=virtual))
    for rank, row in enumerate(schedule.actions):
        own = [stage for stage, holder in enumerate(schedule.holder) if holder == rank]
        live, waiting, begun = dict.fromkeys(own, 0), dict.fromkeys(own, 0), set()
        for kind, stage, _ in row:
            live[stage] += kind == "F"
            begun.add((kind, stage, tuple(live.values()), tuple(waiting.values())))
            live[stage] -= kind in "BI"
            waiting[stage] += (kind == "I") - (kind == "W")
        assert begun == {one[:4] for one in seen[rank] if one.kind is not None}


def test_the_prediction_needs_no_torch():
    program = (
        "import sys; from minipar.plan import Numbers, model_by_name; from minipar.plan.own import MINIPAR; "
        "MINIPAR.holds(model_by_name('demo'), Numbers(pp=2, micro_batches=2)); assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
