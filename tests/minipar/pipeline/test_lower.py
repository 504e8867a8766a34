from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minipar.pipeline import Action, Compute, Receive, Schedule, ScheduleError, Send, check, lower, one_f_one_b, parse
from minipar.pipeline.lower import Instruction, Program, Skip, check_skips, users
from minipar.pipeline.names import LOOPED, NAMES, by_name
from minipar.pipeline.schedule import Result, makes
from tests.minipar.pipeline.test_schedule import valid

SIZES = [(p, m) for p in (1, 2, 3, 4, 7) for m in (1, 2, 3, 5, 8, 15)]


def published(name: str) -> Iterator[Schedule]:
    for p, m in SIZES:
        yield from (by_name(name, p, m, v) for v in ((1, 2, 3) if name in LOOPED else (None,)))


def inputs(action: Action, stages: int, skips: Sequence[Skip] = ()) -> set[Result]:
    """All that an action works on, written out without `needs`."""
    kind, stage, i = action
    if kind == "W":
        return {("I", stage, i)}
    before: set[Result] = {("F", stage - 1, i)} if stage else set()
    before |= {("F", skip.source, i) for skip in skips if skip.target == stage}
    if kind == "F":
        return before
    after: set[Result] = {("I", stage + 1, i)} if stage + 1 < stages else set()
    after |= {("I", skip.target, i) for skip in skips if skip.source == stage}
    return after | {("F", stage, i)}


def hand_to_hand(programs: Sequence[Program], stages: int, skips: Sequence[Skip] = ()) -> list[list[Instruction]]:
    """Run the programs where a send and its receive happen only together; what is left when nothing moves any more.

    An action is done only if its rank has made, or received for its stage, all that it works on.
    """
    left = [list(program) for program in programs]
    have: list[set[tuple[Result, int | None]]] = [set() for _ in programs]  # for which stage: None for all one's own
    moved = True
    while moved:
        moved = False
        for rank, rows in enumerate(left):
            now = rows[0] if rows else None
            if isinstance(now, Compute):
                for result in inputs(now.action, stages, skips):
                    assert have[rank] & {(result, None), (result, now.action.stage)}, f"{now.action} lacks {result}"
                have[rank].add((makes(now.action), None))
                rows.pop(0)
                moved = True
            elif isinstance(now, Send):
                there = left[now.to]
                if there and there[0] == Receive(now.result, rank, now.stage):
                    assert (now.result, None) in have[rank], "sent before it was made"
                    assert rank != now.to
                    have[now.to].add((now.result, now.stage))
                    rows.pop(0)
                    there.pop(0)
                    moved = True
    return [rows for rows in left if rows]


def computed(program: Program) -> tuple[Action, ...]:
    return tuple(x.action for x in program if isinstance(x, Compute))


def sound(schedule: Schedule, skips: Sequence[Skip] = ()) -> None:
    """The programs do the schedule, never stick, and send everything once, in order, between ranks only."""
    programs = lower(schedule, skips)
    assert tuple(map(computed, programs)) == schedule.actions
    assert hand_to_hand(programs, schedule.stages, skips) == []
    sent, received = defaultdict(list), defaultdict(list)
    for rank, program in enumerate(programs):
        for x in program:
            if isinstance(x, Send):
                sent[rank, x.to].append((x.result, x.stage))
            elif isinstance(x, Receive):
                received[x.source, rank].append((x.result, x.stage))
    assert sent == received, "first in, first out"
    assert all(a != b for a, b in sent)
    edges = [(s, s + 1) for s in range(schedule.stages - 1)] + [(s.source, s.target) for s in skips]
    between_ranks = sum(schedule.holder[a] != schedule.holder[b] for a, b in edges)
    messages = [message for row in sent.values() for message in row]
    assert len(messages) == len(set(messages)) == 2 * schedule.micro_batches * between_ranks


@pytest.mark.parametrize("name", NAMES)
def test_every_published_schedule_runs_hand_to_hand(name: str) -> None:
    for schedule in published(name):
        sound(schedule)


@given(valid())
def test_any_valid_schedule_runs_hand_to_hand(schedule: Schedule) -> None:
    sound(schedule)


@given(valid(), st.data())
def test_any_valid_schedule_runs_hand_to_hand_with_skips(schedule: Schedule, data: st.DataObject) -> None:
    possible = [Skip(a, b) for a, b in combinations(range(schedule.stages), 2) if b - a > 1]
    sound(schedule, data.draw(st.lists(st.sampled_from(possible), unique=True)) if possible else ())


def messages(schedule: Schedule) -> int:
    return sum(isinstance(x, Send) for program in lower(schedule) for x in program)


def test_the_messages_of_a_step_by_kind_of_schedule() -> None:
    for p, m in SIZES:
        plain = 2 * m * (p - 1)
        for name in ("naive", "gpipe", "1f1b", "zb-h1", "zb-h2"):
            assert messages(by_name(name, p, m)) == plain
        for name in ("zb-v", "v-half", "v-min", "dualpipe-v"):
            assert messages(by_name(name, p, m)) == 2 * plain, "the rank at the turn hands over to itself"
        for name in LOOPED:
            for v in (1, 2, 3):
                assert messages(by_name(name, p, m, v)) == (2 * m * (p * v - 1) if p > 1 else 0)


def words(program: Program) -> str:
    def word(x: Instruction) -> str:
        if isinstance(x, Compute):
            return f"{x.action.kind}{x.action.micro_batch}"
        kind, stage, i = x.result
        return f"{kind}{i}@{stage}" + (f">{x.to}" if isinstance(x, Send) else f"<{x.source}")

    return " ".join(map(word, program))


def test_two_ranks_of_1f1b_written_out() -> None:
    """Here > is a send and < a receive; each receive stands where the one order has its send."""
    assert list(map(words, lower(one_f_one_b(2, 2)))) == [
        "F0 F0@0>1 F1 F1@0>1 I0@1<1 I1@1<1 B0 B1",
        "F0@0<0 F1@0<0 F0 B0 I0@1>0 F1 B1 I1@1>0",
    ]


def test_one_rank_sends_nothing() -> None:
    assert list(map(words, lower(parse(["F0 F0@1 F0@2 B0@2 I0@1 B0 W0@1"])))) == ["F0 F0 F0 B0 I0 B0 W0"]


def test_a_weight_gradient_is_sent_to_nobody() -> None:
    assert all(x.result[0] in "FI" for p in lower(parse(["F0 I0 W0"] * 3)) for x in p if not isinstance(x, Compute))


def receives_last(schedule: Schedule) -> list[Program]:
    """What one would write first: each receive just before the action that works on it."""
    rows: list[Program] = []
    for rank, row in enumerate(schedule.actions):
        program: list[Instruction] = []
        for action in row:
            stage, stages = action.stage, schedule.stages
            for result in inputs(action, stages):
                if (source := schedule.holder[result[1]]) != rank:
                    program.append(Receive(result, source, stage))
            program.append(Compute(action))
            for to in users(action, stages):
                if schedule.holder[to] != rank:
                    program.append(Send(makes(action), schedule.holder[to], to))
        rows.append(tuple(program))
    return rows


def test_with_each_receive_just_before_its_action_1f1b_sticks() -> None:
    """So the place of a receive matters, and this machine notices."""
    stuck = hand_to_hand(receives_last(one_f_one_b(2, 3)), 2)
    assert [words(tuple(program))[:7] for program in stuck] == ["F1@0>1 ", "I0@1>0 "]
    assert hand_to_hand(receives_last(by_name("gpipe", 4, 6)), 4) == [], "but GPipe does not"


def test_the_machine_notices_a_missing_input_and_a_swapped_receive() -> None:
    first, second = lower(parse(["F0 F1 B0 B1", "F0 F1 B0 B1"]))
    with pytest.raises(AssertionError, match="F0 of stage 1 lacks"):
        hand_to_hand([first, (second[2], *second[:2], *second[3:])], 2)
    assert hand_to_hand([first, (second[1], second[0], *second[2:])], 2) != []


def test_what_never_finishes_is_refused() -> None:
    with pytest.raises(ScheduleError, match="rank 0 waits for B0 of stage 1 before B0 of stage 0"):
        lower(parse(["F0 B0 F1 B1", "F0 F1 B0 B1"]))


def test_a_result_goes_to_the_neighbour_and_over_its_skips() -> None:
    skips = [Skip(0, 2), Skip(0, 3), Skip(1, 3)]
    F, B, I, W = ({s: users(Action(kind, s, 7), 4, skips) for s in range(4)} for kind in "FBIW")  # type: ignore[arg-type] # noqa: N806, E741
    assert F == {0: (1, 2, 3), 1: (2, 3), 2: (3,), 3: ()}
    assert B == I == {0: (), 1: (0,), 2: (1, 0), 3: (2, 0, 1)}
    assert W == {0: (), 1: (), 2: (), 3: ()}


def test_a_skip_within_a_rank_sends_nothing() -> None:
    there_and_back = check(by_name("zb-v", 2, 3))  # stages 0 and 3 are rank 0's
    assert lower(there_and_back, [Skip(0, 3)]) == lower(there_and_back)
    extra = Counter(map(len, lower(there_and_back, [Skip(0, 2)])))
    assert extra == Counter(len(program) + 2 * 3 for program in lower(there_and_back))


@pytest.mark.parametrize("skip", [Skip(0, 0), Skip(0, 1), Skip(2, 0), Skip(-1, 2), Skip(0, 4), Skip(2, 4)])
def test_a_skip_that_skips_nothing_or_leaves_the_model_is_refused(skip: Skip) -> None:
    with pytest.raises(ValueError, match="a skip leads forward over at least one stage"):
        check_skips([skip], 4)


def test_skips_that_are_there_once_pass() -> None:
    check_skips([Skip(0, 2), Skip(0, 3), Skip(1, 3)], 4)
    check_skips([], 1)
    with pytest.raises(ValueError, match="has a skip twice"):
        check_skips([Skip(0, 2), Skip(0, 2)], 4)
