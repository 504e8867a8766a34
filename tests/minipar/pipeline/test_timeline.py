from __future__ import annotations

import json
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minipar.pipeline import (
    Action,
    Costs,
    Parts,
    Schedule,
    Span,
    Timeline,
    chrome_trace,
    difference,
    gpipe,
    one_f_one_b,
    parse,
    simulate,
    v_half,
    zb_h1,
)
from tests.minipar.pipeline.test_schedule import valid


def timeline(*rows: str, emulated: bool = False) -> Timeline:
    """One line a rank, a word for each action, as in "F0:0-1 B0:6-8"; each rank holds the stage of its number."""

    def span(rank: int, word: str) -> Span:
        name, _, time = word.partition(":")
        start, _, end = time.partition("-")
        return Span(rank, Action(name[0], rank, int(name[1:])), float(start), float(end))  # type: ignore[arg-type]

    spans = (span(rank, word) for rank, row in enumerate(rows) for word in row.split())
    return Timeline(tuple(spans), len(rows), emulated)


LATE = timeline(
    "F0:0-1                 B0:6-8",  # B0 was made at 5 and arrives at 6
    "      F0:2-3   B0:3-5",  # F0 was made at 1 and arrives at 2
)


def test_a_timeline_without_spans_is_all_zeros() -> None:
    empty = Timeline((), ranks=2)
    assert (empty.start, empty.end, empty.duration, empty.busy) == (0, 0, 0, 0)
    assert (empty.bubble_of_total, empty.bubble_over_ideal, empty.bubble_rate) == (0, 0, 0)
    assert (empty.longest_span, empty.busiest, empty.parts()) == (0, 0, Parts(0, 0, 0))
    assert (empty.rows, empty.peak_memory(lambda _: 1)) == (((), ()), (0, 0))


def test_time_is_counted_from_the_first_start_to_the_last_end() -> None:
    late = timeline("F0:10-11 B0:16-18", "F0:12-13 B0:13-15")
    assert (late.start, late.end, late.duration, late.busy) == (10, 18, 8, 6)
    assert late.bubble_of_total == (16 - 6) / 16
    assert late.bubble_over_ideal == (16 - 6) / 6
    assert late.parts() == LATE.parts()


def test_a_step_costs_the_longest_span_of_a_rank_and_at_least_its_busiest_ranks_work() -> None:
    shifted = timeline(
        "F0:0-2 I0:4-5 W0:5-6",  # 6 seconds, 4 of work
        "F0:2-3 I0:3-7 W0:7-8",  # 6 seconds, all work
        "F0:3-4 I0:9-11",  # 8 seconds, 3 of work
    )
    assert (shifted.duration, shifted.longest_span, shifted.busiest) == (11, 8, 6)
    assert shifted.bubble_rate == (8 - 6) / 8


def test_a_rank_that_does_nothing_takes_no_time() -> None:
    assert timeline("F0:1-2 B0:2-4", "").longest_span == 3


def test_rows_are_in_the_order_of_time_whatever_the_order_of_the_spans() -> None:
    backwards = Timeline(tuple(reversed(LATE.spans)), 2)
    assert backwards.rows == LATE.rows
    assert [span.action.kind for span in backwards.rows[0]] == ["F", "B"]
    assert backwards.parts() == LATE.parts()


def test_a_late_message_is_communication_and_what_was_not_made_yet_is_idle() -> None:
    """Of rank 0's 8 s: 3 of work, 1 for the message, 4 idle; of rank 1's the same, 3 of them after its last action."""
    assert LATE.parts() == Parts(compute=3, communication=1, idle=4)


def test_a_message_that_comes_while_its_rank_works_costs_nothing() -> None:
    busy = timeline(
        "F0:0-1 F1:1-4     B0:6-8 B1:9-10",  # B0 was made at 5, B1 at 9
        "F0:1-3     B0:3-5 F1:5-7 B1:7-9",  # F1 was made at 4: there long since
    )
    assert busy.parts() == Parts(compute=7.5, communication=0.5, idle=2)


def test_a_w_waits_for_no_message() -> None:
    assert timeline("F0:0-1 I0:1-2 W0:4-5").parts() == Parts(compute=3, communication=2, idle=0)


@given(valid(), st.integers(0, 5), st.integers(0, 3), st.integers(0, 3))
def test_the_parts_add_up_to_the_step(schedule: Schedule, send: int, f: int, w: int) -> None:
    costs = Costs(f, input=2, weight=w, send=send)
    predicted = simulate(schedule, costs)
    parts = predicted.parts()
    assert sum(parts) == pytest.approx(predicted.duration)
    assert min(parts) >= -1e-9
    assert parts.compute == pytest.approx(predicted.busy / predicted.ranks)
    if send == 0:
        assert parts.communication == 0
        assert parts.idle == pytest.approx(predicted.bubble_of_total * predicted.duration)


def test_of_slow_links_the_pipeline_waits_once_at_its_start_and_once_at_its_end() -> None:
    """Rank 1 waits 2 s for its first F, rank 0 for its first B, and each as long again for what the other makes."""
    assert simulate(gpipe(2, 4), Costs(1, 1)).parts() == Parts(compute=8, communication=0, idle=2)
    assert simulate(gpipe(2, 4), Costs(1, 1, send=2)).parts() == Parts(compute=8, communication=2, idle=4)


@given(valid(), st.integers(0, 5), st.integers(0, 5))
def test_the_difference_of_two_timelines_adds_up(schedule: Schedule, fast: int, slow: int) -> None:
    predicted, measured = (simulate(schedule, Costs(1 + s, send=s)) for s in (fast, slow))
    apart = difference(predicted, measured)
    assert sum(apart) == pytest.approx(measured.duration - predicted.duration)
    assert apart == pytest.approx(tuple(-x for x in difference(measured, predicted)))
    assert difference(predicted, predicted) == Parts(0, 0, 0)


def test_a_difference_is_measured_minus_predicted() -> None:
    in_time = timeline("F0:0-1 B0:4-6", "F0:1-2 B0:2-4")
    assert difference(in_time, LATE) == Parts(compute=0, communication=1, idle=1)


@given(valid(), st.integers(0, 2))
def test_of_equal_stages_the_memory_is_that_of_the_live_micro_batches(schedule: Schedule, send: int) -> None:
    predicted = simulate(schedule, Costs(1, input=2, weight=3, send=send))
    assert predicted.peak_memory(lambda _: 1) == schedule.peak_held
    assert predicted.peak_memory(lambda _: 2.5) == tuple(2.5 * live for live in schedule.peak_held)


def test_each_stage_keeps_what_it_says() -> None:
    predicted = simulate(parse(["F0 F0@3 B0@3 B0", "F0 F0@2 B0@2 B0"]))
    assert predicted.peak_memory(lambda stage: 10**stage) == (1001, 110)


def test_after_an_i_only_what_the_weights_need_is_kept() -> None:
    predicted = simulate(parse(["F0 I0 F1 I1 F2 W0 I2 W1 W2"]))
    assert predicted.peak_memory(lambda _: 10) == (30,)
    assert predicted.peak_memory(lambda _: 10, for_weights=lambda _: 4) == (10 + 4 + 4,)
    assert predicted.peak_memory(lambda _: 10, for_weights=lambda _: 0) == (10,)


def test_zero_bubble_with_little_kept_for_weights_holds_less_on_later_ranks() -> None:
    predicted = simulate(zb_h1(4, 8))
    assert predicted.peak_memory(lambda _: 10) == (40, 40, 40, 40)
    assert predicted.peak_memory(lambda _: 10, lambda _: 4) == (40, 34, 28, 22)


def events(trace: dict[str, object], kind: str) -> list[dict[str, object]]:
    return [event for event in trace["traceEvents"] if event["ph"] == kind]  # type: ignore[attr-defined, index]


def test_a_trace_has_a_track_a_rank_and_microseconds() -> None:
    trace = json.loads(json.dumps(LATE.to_chrome_trace("mine")))
    assert trace["displayTimeUnit"] == "ms"
    names = [(e["name"], e.get("tid"), e["args"]["name"]) for e in events(trace, "M")]  # type: ignore[index]
    assert names == [("process_name", None, "mine"), ("thread_name", 0, "rank 0"), ("thread_name", 1, "rank 1")]
    spans = [(e["tid"], e["name"], e["cat"], e["ts"], e["dur"]) for e in events(trace, "X")]
    assert spans == [
        (0, "F0", "forward", 0, 1e6),
        (0, "B0", "backward", 6e6, 2e6),
        (1, "F0", "forward", 2e6, 1e6),
        (1, "B0", "backward", 3e6, 2e6),
    ]
    assert events(trace, "X")[3]["args"] == {"kind": "B", "stage": 1, "micro_batch": 0}
    assert len(trace["traceEvents"]) == 3 + 4


def test_a_trace_names_all_four_kinds() -> None:
    trace = simulate(parse(["F0 B0 F1 I1 W1"])).to_chrome_trace()
    assert [e["cat"] for e in events(trace, "X")] == [
        "forward", "backward", "forward", "input gradient", "weight gradient",
    ]  # fmt: skip
    assert events(trace, "M")[0]["args"] == {"name": "minipar"}


def test_an_emulated_timeline_says_so_in_its_name() -> None:
    trace = timeline("F0:0-1", emulated=True).to_chrome_trace("mine")
    assert events(trace, "M")[0]["args"] == {"name": "mine (emulated)"}


def test_several_timelines_are_processes_of_one_trace() -> None:
    predicted = simulate(one_f_one_b(3, 4))
    measured = Timeline(predicted.spans, 3, emulated=True)
    trace = json.loads(json.dumps(chrome_trace([("predicted", predicted), ("measured", measured)])))
    titles = {e["pid"]: e["args"]["name"] for e in events(trace, "M") if e["name"] == "process_name"}  # type: ignore[index]
    assert titles == {0: "predicted", 1: "measured (emulated)"}
    assert Counter(e["pid"] for e in events(trace, "X")) == {0: 24, 1: 24}
    assert {(e["pid"], e["tid"]) for e in events(trace, "X")} == {(i, r) for i in range(2) for r in range(3)}
    assert chrome_trace([])["traceEvents"] == []


def test_spans_of_a_trace_do_not_overlap_on_a_track() -> None:
    trace = simulate(v_half(4, 6), Costs(0.3, 0.1, 0.7)).to_chrome_trace()
    for rank in range(4):
        track = sorted((e["ts"], e["dur"]) for e in events(trace, "X") if e["tid"] == rank)  # type: ignore[type-var]
        ends = [ts + dur for ts, dur in track]  # type: ignore[operator]
        assert all(end <= start + 1e-3 for end, (start, _) in zip(ends, track[1:], strict=False))  # type: ignore[operator]
