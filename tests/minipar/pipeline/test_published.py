"""The tables and formulas of the papers against the library's schedules. Each table in tests/data names its source."""

from __future__ import annotations

import json
import re
from functools import cache
from itertools import combinations, pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minipar.pipeline import Costs, Schedule, Send, Timeline, gpipe, interleaved, lower, simulate
from minipar.pipeline.names import by_name

Row = dict[str, Any]
DATA = Path(__file__).parents[2] / "data"


def table(name: str) -> list[Row]:
    return json.loads((DATA / f"{name}.json").read_text())  # type: ignore[no-any-return]


def value(formula: str, **names: float) -> float:
    """A formula as papers write it, such as (p-1)(TF+TB-2TW); F&B is one time, that of both side by side."""
    written_out = re.sub(r"(?<=[\d)])(?=[A-Za-z(])", "*", formula.replace("F&B", "FB"))
    return eval(written_out, {"__builtins__": {}}, names)  # type: ignore[no-any-return]


schedule = cache(by_name)
p_and_m = [(p, m) for p in (1, 2, 3, 4, 6, 8) for m in (2 * p, 2 * p + 1, 3 * p, 5 * p)]
seconds = st.integers(1, 30)


def bubble_of_a_step(timeline: Timeline) -> float:
    return timeline.longest_span - timeline.busiest


def test_formulas_are_read_as_papers_mean_them() -> None:
    assert value("(p-1)(TF+TB-2TW)", p=4, TF=5, TB=6, TW=2) == 3 * 7
    assert value("(p-i+1)M_B+(i-1)M_W", p=4, i=2, M_B=10, M_W=1) == 31
    assert value("(PP/2-1)(F&B+B-3W)", PP=8, F=1, B=2, W=1, FB=3) == 6


# Zero Bubble (Qi et al. 2024)

PROFILES = {(row["model"], row["m"]): row for row in table("zb_table9_profile")}
LAYERS = {row["model"]: row["layers"] for row in table("zb_table3_setup")}
RATES = table("zb_table5_bubble")
each_rate = pytest.mark.parametrize("row", RATES, ids=lambda row: f"{row['model']}-{row['m']}")


@each_rate
@pytest.mark.parametrize("name", ["1F1B", "ZB-H1", "ZB-H2"])
def test_the_bubble_rates_of_table_5_follow_from_the_profile_in_table_9(name: str, row: Row) -> None:
    """To all four printed decimals: nothing is fitted."""
    times = PROFILES[row["model"], row["m"]]
    costs = Costs(times["T_F"], input=times["T_B"], weight=times["T_W"], send=times["T_comm"])
    predicted = simulate(by_name(name.lower(), row["p"], row["m"]), costs)
    assert round(predicted.bubble_rate, 4) == row[name]


@each_rate
def test_the_interleaved_rates_of_table_5_are_those_of_the_plain_order_but_for_p_messages(row: Row) -> None:
    """Within 0.01, v being (layers + 2)/p; nothing is fitted.

    The printed rates equal a closed form with p·T_comm less than Megatron's plain order takes, which is ours: where
    the authors' run hides these messages is not said. With that form's p·T_comm added the two agree exactly.
    """
    p, m, times = row["p"], row["m"], PROFILES[row["model"], row["m"]]
    v, left = divmod(LAYERS[row["model"]] + 2, p)
    assert left == 0
    f, i, w, send = (times[name] for name in ("T_F", "T_B", "T_W", "T_comm"))
    predicted = simulate(interleaved(p, m, v), Costs(f / v, input=i / v, weight=w / v, send=send))
    printed_form = (m + (p - 1) / v) * (f + i + w) + (p * (2 * v - 1) - 2) * send
    assert round(1 - m * (f + i + w) / printed_form, 4) == row["1F1B-I"]
    assert predicted.longest_span == pytest.approx(printed_form + p * send)
    assert row["1F1B-I"] <= predicted.bubble_rate <= row["1F1B-I"] + 0.01


def test_the_order_of_the_rates_in_table_5_is_predicted() -> None:
    for row in RATES:
        rate = {name: simulate(by_name(name.lower(), row["p"], row["m"])).bubble_rate for name in ("1F1B", "ZB-H1")}
        assert row["1F1B"] > row["ZB-H1"] > row["ZB-H2"]
        assert rate["1F1B"] > rate["ZB-H1"] > simulate(by_name("zb-h2", row["p"], row["m"])).bubble_rate


ZB = {row["name"]: row["formula"] for row in table("zb_table1_2_formulas")}


def part(formula: str, word: str) -> str:
    """What stands after `word` in one of the parts of a formula."""
    return next(text.strip().removeprefix(word) for text in formula.split(";") if text.strip().startswith(word))


@given(st.sampled_from(p_and_m), seconds, seconds, seconds)
def test_the_bubbles_of_table_2(size: tuple[int, int], f: int, i: int, w: int) -> None:
    """For ZB-H1 and ZB-H2 where W ≤ F, as the paper assumes; a negative bubble means none."""
    p, m = size
    w = min(w, f)
    for name in ("1F1B", "ZB-H1", "ZB-H2"):
        predicted = simulate(schedule(name.lower(), p, m), Costs(f, input=i, weight=w))
        wanted = value(part(ZB[name], "bubble "), p=p, TF=f, TB=i, TW=w)
        assert bubble_of_a_step(predicted) == max(0, wanted)


def test_the_activation_memory_of_table_2_and_of_each_worker() -> None:
    """M_B is kept of a micro-batch until its I, M_W from there to its W; workers count from 1."""
    for p, m in p_and_m:
        for name in ("ZB-H1", "ZB-H2"):
            held = simulate(schedule(name.lower(), p, m)).peak_memory(lambda _: 34.0, lambda _: 32.0)
            each = [value(ZB[f"{name} worker i act"], p=p, i=i, M_B=34, M_W=32) for i in range(1, p + 1)]
            assert list(held) == each
            assert max(held) == value(part(ZB[name], "peak act "), p=p, M_B=34)
        plain = simulate(schedule("1f1b", p, m)).peak_memory(lambda _: 34.0)
        assert max(plain) == value(part(ZB["1F1B"], "peak act "), p=p, M_B=34)


@given(st.integers(1, 8), st.integers(1, 8), seconds, seconds, seconds)
def test_an_iteration_of_at_most_p_micro_batches(p: int, m: int, f: int, i: int, w: int) -> None:
    """Appendix H, for ZB-H1 where W ≤ F."""
    p, m, w = max(p, m), min(p, m), min(w, f)
    costs = Costs(f, input=i, weight=w)
    for name, word in (("1f1b", "1F1B "), ("zb-h1", "ZB ")):
        wanted = value(part(ZB["m<=p iteration"], word), p=p, m=m, TF=f, TB=i, TW=w)
        assert simulate(schedule(name, p, m), costs).longest_span == wanted


def test_zb_v_has_no_bubble_at_the_memory_of_1f1b() -> None:
    assert ZB["ZB-V"] == "2 chunks/device in V; zero bubble if TF=TB=TW; peak p*M_B; warmup 2p-1 F per worker"
    for p, m in p_and_m:
        zb_v = schedule("zb-v", p, m)
        assert zb_v.virtual == 2
        assert simulate(zb_v).bubble_rate == 0
        assert max(zb_v.peak_held) / 2 == p
        first_i = [next(n for n, a in enumerate(row) if a.kind == "I") for row in zb_v.actions]
        assert first_i == [2 * p] * p, "2p-1, and the F whose I is the first"


def test_the_share_of_1f1bs_bubble_that_the_readme_gives() -> None:
    """For F = I = W, of idle over ideal time: 1, 1/3, 0, 0, 1/2, 2/3. The last two up to their ends: within 0.13."""
    text = ZB["README: bubble rate (TF=TB=TW)"]
    assert text == "1F1B (p-1)/(m+p-1)=B; ZB1P B/3; ZB2P 0; ZBV 0; V-Half B/2; V-Min 2B/3+O(n) overhead"
    for p in (8, 12):
        m = 3 * p
        assert simulate(schedule("1f1b", p, m)).bubble_of_total == pytest.approx((p - 1) / (m + p - 1))
        names = ("zb-h1", "zb-h2", "zb-v", "v-half", "v-min")
        idle = {name: bubble_of_a_step(simulate(schedule(name, p, m))) for name in names}
        whole = 3 * (p - 1)  # of one stage a rank; of two, each as long, twice that
        assert (idle["zb-h1"] / whole, idle["zb-h2"], idle["zb-v"]) == (pytest.approx(1 / 3), 0, 0)
        assert idle["v-half"] / (2 * whole) == pytest.approx(1 / 2, abs=0.13)
        assert idle["v-min"] / (2 * whole) == pytest.approx(2 / 3, abs=0.05)


def test_the_memory_and_the_messages_that_the_readme_gives_relative_to_1f1b() -> None:
    """Memory in the limit of many ranks (V-half has 1 whole micro-batch more than p/2, V-min at most 4/3)."""
    names = ("1f1b", "zb-h1", "zb-h2", "zb-v", "v-half", "v-min")
    memory, messages = ZB["README: activation memory vs 1F1B"], ZB["README: PP comm volume vs 1F1B"]
    p, m = 16, 40

    def sent(made: Schedule) -> int:
        return sum(isinstance(x, Send) for program in lower(made) for x in program)

    plain = sent(schedule("1f1b", p, m))
    for name, share, factor in zip(names, memory.split(","), messages.split(","), strict=True):
        made = schedule(name, p, m)
        assert max(made.peak_held) / made.virtual == pytest.approx(value(share) * p, abs=4 / 3)
        assert sent(made) / plain == value(factor)


# Controllable memory (Qi et al. 2024)

CONTROLLABLE = {row["item"]: row["value"] for row in table("controllable_memory") if row["kind"] == "formula"}
FOUR = ("1f1b", "v-min", "v-half", "zb-v")


def test_the_peaks_of_controllable_memory() -> None:
    """Exactly, for every p."""
    formulas = CONTROLLABLE["activation memory in microbatches: 1F1B / V-Min / V-Half / V-ZB"].split(" / ")
    for p in (1, 2, 3, 4, 5, 6, 7, 8, 12, 16):
        for name, formula in zip(FOUR, formulas, strict=True):
            made = schedule(name, p, 2 * p + 3)
            assert max(made.peak_held) / made.virtual == value(formula, p=p)


def test_the_bubble_rates_of_controllable_memory() -> None:
    """Published with a ~, for F = I = W: idle over ideal time within a quarter of p/m, 2p/(3m) and p/(2m).

    1F1B's and V-min's come nearer with p, as theirs are of p−1 ranks (p−5/4); V-half's does not: it is 7/12 of 1F1B's.
    """
    formulas = CONTROLLABLE["bubble rate (TF=TB=TW): 1F1B / V-Min / V-Half / V-ZB"].split(" / ")
    assert formulas == ["~p/m", "~2p/(3m)", "~p/(2m)", "0"]
    for p in (6, 8, 12, 16):
        m = 4 * p
        for name, formula in zip(FOUR, formulas, strict=True):
            predicted = simulate(schedule(name, p, m))
            over_ideal = bubble_of_a_step(predicted) / predicted.busiest
            assert over_ideal == pytest.approx(value(formula.strip("~"), p=p, m=m), rel=0.25)


def test_how_long_a_micro_batch_lives_in_a_stage() -> None:
    """Published as 4, 6 and 12 actions a rank: up to 6 actions (one of each kind on both stages), whatever p is."""
    published = {row["item"]: row["value"] for row in table("controllable_memory") if row["kind"] == "table1"}
    for name in ("V-Min", "V-Half", "V-ZB"):
        a_rank = int(re.findall(r"6,(\d+)d", published[name])[0])
        for p in (4, 6, 8, 12):
            spans = simulate(schedule("zb-v" if name == "V-ZB" else name.lower(), p, 4 * p)).spans
            middle = {(a.kind, a.stage): (start, end) for _, a, start, end in spans if a.micro_batch == 2 * p}
            longest = max(middle["W", s][1] - middle["F", s][0] for s in range(2 * p))
            assert longest == pytest.approx(a_rank * p, abs=6)


def test_the_bubble_rate_is_defined_as_there() -> None:
    assert CONTROLLABLE["bubble rate definition"] == "1-(F+B+W)*m/longest_stage_time"
    for name in FOUR:
        made = schedule(name, 4, 9)
        predicted = simulate(made, Costs(3, input=4, weight=2))
        assert predicted.bubble_rate == pytest.approx(1 - (3 + 4 + 2) * made.virtual * 9 / predicted.longest_span)


@given(st.integers(2, 5), seconds, seconds, seconds)
def test_v_half_repeats_without_a_bubble_under_the_published_condition_only(p: int, f: int, i: int, w: int) -> None:
    """So that its bubble stays the same however many micro-batches follow; B there is our I."""
    condition = CONTROLLABLE["zero-bubble-at-1/2-memory condition"]
    holds = all(value(side.replace(">=", "-(") + ")", W=w, B=i, F=f) >= 0 for side in condition.split(" and "))
    few, many = (simulate(schedule("v-half", p, m), Costs(f, input=i, weight=w)) for m in (20, 40))
    assert (bubble_of_a_step(many) == bubble_of_a_step(few)) == holds


# DualPipe (DeepSeek-AI 2024); its B is the whole backward, its PP the number of stages

DUALPIPE = {row["method"]: row for row in table("dualpipe")}


@given(st.sampled_from(p_and_m), seconds, seconds, seconds)
def test_the_bubbles_in_dualpipes_table_with_one_stage_a_rank(size: tuple[int, int], f: int, i: int, w: int) -> None:
    (p, m), w = size, min(w, f)
    for method, name in (("1F1B", "1f1b"), ("ZB1P", "zb-h1")):
        predicted = simulate(schedule(name, p, m), Costs(f, input=i, weight=w))
        assert bubble_of_a_step(predicted) == value(DUALPIPE[method]["bubble"], PP=p, F=f, B=i + w, W=w)
        assert max(schedule(name, p, m).peak_held) == value(DUALPIPE[method]["activation_per_device"], PP=p)


def test_dualpipe_v_in_dualpipes_table() -> None:
    """For F = I = W. That an F and a B side by side are one block as long as both, the published F&B, is put as a cost:
    all of it on the F, none on the B. As two actions they leave less idle."""
    row = DUALPIPE["DualPipeV"]
    for p, m in p_and_m:
        stages, made = 2 * p, schedule("dualpipe-v", p, m)
        assert value(row["devices"], PP=stages) == made.ranks
        assert set(made.peak_held) == {value(row["activation_per_device"], PP=stages)}
        side_by_side = {a for r in made.actions for pair in pairwise(r) if kinds(pair) == "FB" for a in pair}
        wanted = value(row["bubble"], PP=stages, F=1, B=2, W=1, FB=3)
        blocks = simulate(
            made,
            Costs(
                forward=lambda a, paired=side_by_side: 3 if a in paired else 1,
                backward=lambda a, paired=side_by_side: 0 if a in paired else 2,
                input=1,
                weight=1,
            ),
        )
        assert blocks.duration - blocks.busiest == wanted
        apart = simulate(made)
        assert apart.duration - apart.busiest <= wanted


def kinds(pair: tuple[Any, ...]) -> str:
    return "".join(action.kind for action in pair)


# GPipe (Huang et al. 2019) and torchgpipe

GPIPE = {row["name"]: row["formula"] for row in table("gpipe_formulas")}


def test_gpipes_bubble_and_when_it_is_negligible() -> None:
    for k in range(1, 9):
        for m in range(1, 33):
            share = simulate(schedule("gpipe", k, m)).bubble_of_total
            assert share == pytest.approx(value(GPIPE["bubble"].removeprefix("O"), K=k, M=m))
            if m >= 4 * k:  # as the paper's "M >= 4K"
                assert share < 1 / 5
    assert GPIPE["negligible when"] == "M >= 4K"


def test_recomputing_takes_at_most_a_quarter_of_the_step() -> None:
    """F again before a B of 2 F is 1 of 4; the paper measured up to 23%."""
    with_it, without = (simulate(gpipe(4, 16), Costs(1, backward)) for backward in (3, 2))
    measured = float(GPIPE["recompute share of step time"].removeprefix("up to ").removesuffix("%")) / 100
    share = 1 - without.duration / with_it.duration
    assert share == pytest.approx(1 / 4)
    assert share - 0.03 < measured <= share


def speedup(k: int, m: int, fixed: float = 0) -> float:
    """GPipe with K even stages and M micro-batches against 2 and 1: a simulated step of one and the same batch.

    A backward does three times a forward, as it recomputes; messages take no time. fixed: what each action takes on
    top of its share of the work, as part of the work of a whole batch: many small kernels are slower than few large.
    """
    whole, ours = (
        simulate(gpipe(*size), Costs(*(share * (1 / size[0] / size[1] + fixed) for share in (1 / 4, 3 / 4))))
        for size in ((2, 1), (k, m))
    )
    return whole.duration / ours.duration


TPU = {(row["model"], row["K"], row["M"]): row["normalized_throughput"] for row in table("gpipe_table2_3")}
TORCHGPIPE = {(row["benchmark"], row["experiment"]): row.get("speedup") for row in table("torchgpipe")}
AMOEBANET = {(k, m): TORCHGPIPE["AmoebaNet-D(18,256) speed", f"n={k},m={m}"] for k in (2, 4, 8) for m in (1, 4, 32)}
TRANSFORMER = {(k, m): TPU["Transformer-48", k, m] for k in (2, 4, 8) for m in (1, 4, 32)}


@pytest.mark.parametrize("k", [2, 4, 8])
def test_gpipes_transformer_is_as_much_faster_as_simulated_with_many_micro_batches(k: int) -> None:
    """Within 8%, on TPUs and on GPUs; nothing is fitted. The layers are all alike, so even stages are right."""
    assert TRANSFORMER[k, 32] == pytest.approx(speedup(k, 32), rel=0.08)
    assert TPU["Transformer-24", k, 32] == pytest.approx(speedup(k, 32) / speedup(2, 32), rel=0.08)


@pytest.mark.parametrize("k", [2, 4, 8])
def test_gpipe_without_a_pipeline_gains_little_from_more_stages(k: int) -> None:
    """One micro-batch is the naive schedule: simulated exactly 1, measured at most 1.3 (memory is freed as well)."""
    assert speedup(k, 1) == pytest.approx(1)
    assert 1 <= TRANSFORMER[k, 1] <= 1.3


def in_order_of(measured: dict[tuple[int, int], float]) -> float:
    """Of all pairs that the simulation tells apart, the share that was measured in the same order."""
    pairs = [(a, b) for a, b in combinations(measured, 2) if abs(speedup(*a) / speedup(*b) - 1) > 0.01]
    same = sum((measured[a] < measured[b]) == (speedup(*a) < speedup(*b)) for a, b in pairs)
    return same / len(pairs)


def test_which_of_two_sizes_is_faster_is_as_simulated() -> None:
    """All but one pair of 33 for either: the Transformer's (8, 4) and torchgpipe's (4, 4) are out of line.

    With 4 micro-batches GPipe's table has more than a pipeline can reach against (2, 1) at the same speed a sample:
    4.8 on 8 stages, where it fills 4 of 11 steps. So its batches must differ, and those rows test the order only.
    """
    assert in_order_of(TRANSFORMER) == in_order_of(AMOEBANET) == 32 / 33


@pytest.mark.parametrize("model", ["AmoebaNet-D(18,256)", "Transformer-48"])
def test_gpipe_measured_more_with_more_stages_and_with_more_micro_batches(model: str) -> None:
    for n in (1, 4, 32):
        assert TPU[model, 2, n] < TPU[model, 4, n] < TPU[model, 8, n]
    for k in (2, 4, 8):
        assert TPU[model, k, 1] < TPU[model, k, 4] < TPU[model, k, 32]


def test_an_uneven_model_gains_less_than_the_even_one_that_is_simulated() -> None:
    """AmoebaNet's layers differ, on GPUs (Table 3) as on TPUs: 10% and 20% below."""
    for k in (4, 8):
        even = speedup(k, 32) / speedup(2, 32)
        assert 0.75 * even < TPU["AmoebaNet-D(18,128)", k, 32] < TPU["Transformer-24", k, 32] < even


def test_torchgpipe_is_never_faster_than_the_simulated_pipeline() -> None:
    """Even stages, free messages and free launches are a bound; 1% is for noise."""
    for size, measured in AMOEBANET.items():
        assert measured <= 1.01 * speedup(*size)
    for benchmark in ("U-Net(5,64) speed", "ResNet-101 speed"):
        alone = TORCHGPIPE[benchmark, "pipeline-1"]
        gains = [TORCHGPIPE[benchmark, f"pipeline-{k}"] / alone for k in (2, 4, 8)]
        assert gains == sorted(gains)
        assert all(gain <= speedup(k, 32) for gain, k in zip(gains, (2, 4, 8), strict=True))
        assert 3 / 4 < alone < 1, "to recompute everything would give 3/4"


def test_torchgpipes_amoebanet_with_one_number_fitted() -> None:
    """What an action takes on top of its work is fitted to n=2, m=32 alone. The rest of n=2 and n=8 is then within 7%.

    n=4 is not: 12% and 26% below the model, as far as n=4, m=4 barely gains on n=2, m=4; a cut into four that is
    uneven would do that. It must not be faster than the model.
    """
    fixed = 0.00152
    assert speedup(2, 32, fixed) == pytest.approx(AMOEBANET[2, 32], rel=0.005)
    for size, measured in AMOEBANET.items():
        if size[0] != 4:
            assert measured == pytest.approx(speedup(*size, fixed), rel=0.07)
        else:
            assert 0.7 * speedup(*size, fixed) < measured < 1.01 * speedup(*size, fixed)
