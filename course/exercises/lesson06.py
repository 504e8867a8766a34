"""Lesson 06: GPipe's schedule, written out; and how many micro-batches are fastest of those that have room."""

from __future__ import annotations

import secrets
from typing import Any

from course.exercises.exercise import Exercise, Play, Refused, Status, Verdict, WrongAnswer
from course.exercises.targets import Weighed, at_most, steps, weigh
from course.judge.plain import Other, Plain
from course.judge.ranks import Case
from minipar.pipeline import Costs, Schedule, ScheduleError, check, gpipe, parse, simulate
from minipar.words import _

LESSON = "06-micro-batches"
Job = dict[str, Any]


def told(got: Plain) -> str:
    """What kind of value came, in a word."""
    return got.kind if isinstance(got, Other) else type(got).__name__


def between(least: int, most: int) -> int:
    """A whole number that nobody can know beforehand, both ends included."""
    return least + secrets.randbelow(most - least + 1)


# gpipe-rows


def examine_rows(play: Play) -> Verdict:
    """Ask for schedules of some sizes: more micro-batches than stages, fewer, one of them only; check and simulate."""
    rows: list[Weighed] = []
    for stages, count in ((between(3, 4), between(5, 8)), (between(5, 7), between(2, 3)), (2, 11), (between(2, 6), 1)):
        value = play(Case(((stages, count),))).outcomes[0].value
        where = _("{stages} stages, {count} micro-batches").format(stages=stages, count=count)
        schedule = read_rows(value, stages, count, where)
        least = simulate(gpipe(stages, count)).duration
        rows.append(steps(round(simulate(schedule).duration, 6), least, least))
        if rows[-1].within:
            _all_forwards_first(schedule, where)
    return weigh(
        rows,
        passed=_("It runs, and it is GPipe: as short as it can be with all forwards before the first backward."),
        outside=_("Every action is there, and no rank waits for ever. But some wait longer than they must."),
    )


def read_rows(value: Plain, stages: int, count: int, where: str) -> Schedule:
    """The answer as a schedule that runs."""
    if not isinstance(value, (list, tuple)) or len(value) != stages or not all(isinstance(row, str) for row in value):
        kind = _("{count} rows").format(count=len(value)) if isinstance(value, (list, tuple)) else told(value)
        message = _("{where}: a list of {stages} texts was expected, one a rank; your function returned {kind}.")
        raise Refused(Status.WRONG_SHAPE, message.format(where=where, stages=stages, kind=kind))
    try:
        schedule = check(parse(list(value)))
    except ScheduleError as error:
        raise Refused(Status.WRONG_VALUE, f"{where}: {error}") from None
    if schedule.micro_batches != count or schedule.stages != stages:
        message = _("{where}: your schedule has {stages} stages and {count} micro-batches.")
        raise Refused(
            Status.WRONG_VALUE,
            message.format(where=where, stages=schedule.stages, count=schedule.micro_batches),
        )
    return schedule


def _all_forwards_first(schedule: Schedule, where: str) -> None:
    for rank, row in enumerate(schedule.actions):
        kinds = "".join(action.kind for action in row)
        if "F" in kinds.lstrip("F"):
            message = _(
                "{where}: it runs, and is short. But rank {rank} does a backward before its last forward. That is "
                "another schedule, of which lesson 07 has more; in GPipe all forwards come first."
            )
            raise Refused(Status.WRONG_VALUE, message.format(where=where, rank=rank))


def gpipe_rows(stages: int, micro_batches: int) -> list[str]:
    """The solution: every rank does the same, all forwards and then all backwards."""
    forwards = [f"F{i}" for i in range(micro_batches)]
    backwards = [f"B{i}" for i in range(micro_batches)]
    return [" ".join(forwards + backwards) for _rank in range(stages)]


def _one_at_a_time(stages: int, micro_batches: int) -> list[str]:
    return [" ".join(f"F{i} B{i}" for i in range(micro_batches))] * stages


def _one_forward_one_backward(stages: int, micro_batches: int) -> list[str]:
    rows = []
    for rank in range(stages):
        ahead = min(stages - rank, micro_batches)
        words = [f"F{i}" for i in range(ahead)]
        for i in range(micro_batches):
            words.append(f"B{i}")
            if i + ahead < micro_batches:
                words.append(f"F{i + ahead}")
        rows.append(" ".join(words))
    return rows


def _backwards_in_two_orders(stages: int, micro_batches: int) -> list[str]:
    forwards = [f"F{i}" for i in range(micro_batches)]
    backwards = [f"B{i}" for i in range(micro_batches)]
    return [" ".join(forwards + (backwards[::-1] if rank else backwards)) for rank in range(stages)]


def _counted_from_one(stages: int, micro_batches: int) -> list[str]:
    numbers = range(1, micro_batches + 1)
    return [" ".join([f"F{i}" for i in numbers] + [f"B{i}" for i in numbers])] * stages


def _no_backwards(stages: int, micro_batches: int) -> list[str]:
    return [" ".join(f"F{i}" for i in range(micro_batches))] * stages


def _backward_first_on_rank_0(stages: int, micro_batches: int) -> list[str]:
    forwards = [f"F{i}" for i in range(micro_batches)]
    backwards = [f"B{i}" for i in range(micro_batches)]
    rows = [" ".join(forwards + backwards) for _rank in range(stages)]
    rows[0] = " ".join(["F0", "B0", *forwards[1:], *backwards[1:]])
    rows[-1] = " ".join(forwards[::-1] + backwards)
    return rows


def _one_text(stages: int, micro_batches: int) -> str:
    row = " ".join([f"F{i}" for i in range(micro_batches)] + [f"B{i}" for i in range(micro_batches)])
    return "\n".join([row] * stages)


GPIPE_ROWS = Exercise(
    name="gpipe-rows",
    lesson=LESSON,
    examine=examine_rows,
    hints=(
        _("Look at one row of GPipe's Gantt chart, and read it from left to right. Now look at another row."),
        _("All rows say the same. What differs is only when each action can start, and that need not be written down."),
        _("`[f'F{i}' for i in range(micro_batches)]` are the forwards of one rank. The backwards look alike."),
        _("Join the words of a rank by `' '.join(...)`, and return a list with one such text for each stage."),
    ),
    solution=gpipe_rows,
    wrong=(
        WrongAnswer(_one_at_a_time, Status.OUTSIDE_TARGET),
        WrongAnswer(_backwards_in_two_orders, Status.OUTSIDE_TARGET),
        WrongAnswer(_one_forward_one_backward, Status.WRONG_VALUE),
        WrongAnswer(_counted_from_one, Status.WRONG_VALUE),
        WrongAnswer(_no_backwards, Status.WRONG_VALUE),
        WrongAnswer(_backward_first_on_rank_0, Status.WRONG_VALUE),
        WrongAnswer(_one_text, Status.WRONG_SHAPE),
    ),
)


# choose-micro-batches


def jobs() -> list[Job]:
    """Three jobs that differ in what decides: the start of each piece, the room, and both.

    Drawn until the finest cut and the coarsest that has room are both too slow in the first, and until the fastest
    cut of all has no room in the second and third.
    """
    return [_drawn(room_decides=False), _drawn(room_decides=True), _drawn(room_decides=True)]


def _drawn(room_decides: bool) -> Job:
    while True:
        job: Job = {
            "stages": between(3, 8),
            "samples": (24, 36, 48, 60, 72)[secrets.randbelow(5)],
            "work": float(between(2, 6)),
            "start": float(between(8, 30)),
            "edge": between(1, 3),
            "inside": between(40, 90),
        }
        job["room"] = job["samples"] * job["edge"] + between(2, job["samples"] // 2) * job["inside"] + 1
        fitting = [m for m in _divisors(job) if held(job, m) <= job["room"]]
        anyhow, best = fastest(job, _divisors(job)), fastest(job, fitting)
        clear = best not in (min(fitting), max(fitting)) if not room_decides else best != anyhow
        others = sorted(step(job, m) for m in fitting)
        if clear and (len(others) == 1 or others[1] > others[0] * (1 + 1e-9)):
            return job


def _divisors(job: Job) -> list[int]:
    return [m for m in range(1, job["samples"] + 1) if job["samples"] % m == 0]


def step(job: Job, micro_batches: int) -> float:
    """Milliseconds of a step, by the simulator."""
    piece = job["samples"] // micro_batches * job["work"] + job["start"]
    return simulate(gpipe(job["stages"], micro_batches), Costs(forward=piece / 3, backward=2 * piece / 3)).duration


def held(job: Job, micro_batches: int) -> int:
    """MiB that a stage holds at its peak."""
    whole: int = job["samples"] * job["edge"] + job["samples"] // micro_batches * job["inside"]
    return whole


def fastest(job: Job, counts: list[int]) -> int:
    """The number with the shortest step."""
    return min(counts, key=lambda m: step(job, m))


def examine_choice(play: Play) -> Verdict:
    """Ask for the number of micro-batches of some jobs, and weigh the step against the best that has room."""
    rows: list[Weighed] = []
    for job in jobs():
        got = play(Case(((dict(job),),))).outcomes[0].value
        if type(got) is not int:
            message = _("A whole number was expected; your function returned {kind}.")
            raise Refused(Status.WRONG_SHAPE, message.format(kind=told(got)))
        if got < 1 or job["samples"] % got:
            message = _("{samples} samples cannot be cut into {count} equal micro-batches.")
            raise Refused(Status.WRONG_VALUE, message.format(samples=job["samples"], count=got))
        if held(job, got) > job["room"]:
            message = _("{job}: with {count} micro-batches a stage would hold {held} MiB, and has room for {room}.")
            raise Refused(Status.WRONG_VALUE, message.format(job=job, count=got, held=held(job, got), room=job["room"]))
        least = step(job, fastest(job, [m for m in _divisors(job) if held(job, m) <= job["room"]]))
        name = _("step in ms, {stages} stages, {samples} samples").format(**job)
        rows.append(at_most(name, round(step(job, got), 6), round(least, 6), round(least, 6)))
    return weigh(
        rows,
        passed=_("Each fits, and none that fits is faster. So a training run is set up, with other numbers."),
        outside=_("It has room. But another number of micro-batches has room too, and its step is shorter."),
    )


def choose_micro_batches(job: Job) -> int:
    """The solution: of all equal cuts those that have room, and of these the one with the shortest step."""
    stages, samples = job["stages"], job["samples"]

    def held(m: int) -> float:
        return float(samples * job["edge"] + samples // m * job["inside"])

    def step(m: int) -> float:
        piece = samples // m * job["work"] + job["start"]
        return float((m + stages - 1) * piece)

    cuts = [m for m in range(1, samples + 1) if samples % m == 0 and held(m) <= job["room"]]
    return min(cuts, key=step)


def _single_samples(job: Job) -> int:
    return int(job["samples"])


def _coarsest_that_fits(job: Job) -> int:
    samples = job["samples"]
    return next(
        m
        for m in range(1, samples + 1)
        if samples % m == 0 and samples * job["edge"] + samples // m * job["inside"] <= job["room"]
    )


def _room_forgotten(job: Job) -> int:
    samples, stages = job["samples"], job["stages"]
    cuts = [m for m in range(1, samples + 1) if samples % m == 0]
    return min(cuts, key=lambda m: (m + stages - 1) * (samples // m * job["work"] + job["start"]))


def _any_number(job: Job) -> int:
    return int(job["samples"]) + 1


def _share_of_the_room(job: Job) -> float:
    return float(job["samples"] * job["inside"] / job["room"])


CHOOSE_MICRO_BATCHES = Exercise(
    name="choose-micro-batches",
    lesson=LESSON,
    examine=examine_choice,
    hints=(
        _("There are few ways to cut the batch into equal pieces. Could you simply try them all?"),
        _("Two small functions help: one for what a stage holds with `m` micro-batches, one for how long the step is."),
        _(
            "Held are the inputs of the whole batch, `samples * edge`, and the inside of one micro-batch, "
            "`samples // m * inside`. A piece takes `samples // m * work + start`."
        ),
        _(
            "GPipe's step is `(m + stages - 1) * piece`. Of the cuts with room, return the one with the least: "
            "`min(cuts, key=step)`."
        ),
    ),
    solution=choose_micro_batches,
    wrong=(
        WrongAnswer(_single_samples, Status.OUTSIDE_TARGET),
        WrongAnswer(_coarsest_that_fits, Status.OUTSIDE_TARGET),
        WrongAnswer(_room_forgotten, Status.WRONG_VALUE),
        WrongAnswer(_any_number, Status.WRONG_VALUE),
        WrongAnswer(_share_of_the_room, Status.WRONG_SHAPE),
    ),
)
