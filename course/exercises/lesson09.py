"""Lesson 09: a shortlist that beats the planner's first choice on published runs; and a plan for 175B on 1,024 GPUs."""

from __future__ import annotations

import secrets
from dataclasses import replace
from functools import cache
from statistics import fmean
from typing import Any

from course.exercises.exercise import Exercise, Play, Refused, Status, Target, Verdict, WrongAnswer
from course.exercises.lesson08 import one_of, told
from course.exercises.targets import Weighed, at_most, weigh
from course.figures.grid import Cell, grid
from course.judge.plain import Plain
from course.judge.ranks import Case
from minipar.plan import (
    Bench,
    Link,
    Numbers,
    Prediction,
    Space,
    hardware_by_name,
    model_by_name,
    predict,
    search,
    software_by_name,
)
from minipar.recompute import Recompute
from minipar.words import _

LESSON = "09-layout"
Candidate = dict[str, float]
Job = dict[str, float]

# beat-the-planner

MOST, SHARE, ASKED_AT_ONCE = 3, 0.94, 7  # layouts to measure; of the best speed, on average; cells


@cache
def candidates(one: Cell) -> tuple[Candidate, ...]:
    """The layouts of a cell's runs as a learner sees them, in the grid's order."""
    names = ("dp", "pp", "tp", "micro_batch", "micro_batches", "zero")
    return tuple(
        {**{name: getattr(run.layout, name) for name in names}, "predicted": one.seconds(run.layout)}
        for run in one.runs
    )


def shuffled(size: int) -> list[int]:
    """The numbers below `size` in an order that nobody can know beforehand."""
    return sorted(range(size), key=lambda _number: secrets.randbits(60))


def examine_shortlist(play: Play) -> Verdict:
    """Ask for a shortlist of every cell, its runs shuffled; what was measured stays with the judge."""
    shares, first = [], []
    for begin in range(0, len(grid()), ASKED_AT_ONCE):
        cells = grid()[begin : begin + ASKED_AT_ONCE]
        orders = [shuffled(len(one.runs)) for one in cells]
        inputs = tuple(
            ([dict(candidates(one)[place]) for place in order],) for one, order in zip(cells, orders, strict=True)
        )
        played = play(Case(inputs, dp=len(cells)))
        for one, order, outcome in zip(cells, orders, played.outcomes, strict=True):
            chosen = _indices(outcome.value, len(order))
            shares.append(max(one.share(one.runs[order[place]]) for place in chosen))
            first.append(one.share(one.chosen))
    yours = fmean(shares)
    row = Target(
        _("share of the best speed, mean of {cells} cells").format(cells=len(shares)),
        f"{yours:.1%}",
        _("at least {share:.0%}").format(share=SHARE),
        _("95.3% (the planner's first choice: {first:.1%})").format(first=fmean(first)),
    )
    return weigh(
        [Weighed(row, yours >= SHARE)],
        passed=_("Three short runs, chosen well, beat one prediction. That is how layouts are chosen in practice."),
        outside=_("It is a shortlist. But another one finds faster layouts in the cells where the planner errs."),
    )


def _indices(got: Plain, size: int) -> list[int]:
    """The places that a learner's function gave; `Refused` where they are none."""
    if not isinstance(got, (list, tuple)) or not all(type(place) is int for place in got):
        message = _("A list of places among the candidates was expected, such as [4, 0, 7], but it returned {kind}.")
        raise Refused(Status.WRONG_SHAPE, message.format(kind=told(got)))
    if not 1 <= len(got) <= MOST:
        message = _("A shortlist has 1 to {most} places; yours has {size}.")
        raise Refused(Status.WRONG_SHAPE, message.format(most=MOST, size=len(got)))
    if not all(0 <= place < size for place in got) or len(set(got)) < len(got):
        message = _("{places}: each place is a number from 0 to {last}, and none comes twice.")
        raise Refused(Status.WRONG_VALUE, message.format(places=str(list(got))[:200], last=size - 1))
    return list(got)


def shortlist(candidates: list[Candidate]) -> list[int]:
    """The solution: as the planner ranks them, but each mesh once, so that one error does not spoil all three."""
    chosen, meshes = [], []
    for place in sorted(range(len(candidates)), key=lambda place: candidates[place]["predicted"]):
        mesh = [candidates[place][axis] for axis in ("dp", "pp", "tp")]
        if mesh not in meshes:
            chosen.append(place)
            meshes.append(mesh)
    return chosen[:3]


def _first_choice(candidates: list[Candidate]) -> list[int]:
    return [min(range(len(candidates)), key=lambda place: candidates[place]["predicted"])]


def _first_three(candidates: list[Candidate]) -> list[int]:
    return sorted(range(len(candidates)), key=lambda place: candidates[place]["predicted"])[:3]


def _fewest_cuts(candidates: list[Candidate]) -> list[int]:
    def cuts(place: int) -> tuple[float, ...]:
        one = candidates[place]
        return one["tp"] * one["pp"], one["tp"], -one["micro_batch"], one["zero"]

    return sorted(range(len(candidates)), key=cuts)[:3]


def _slowest(candidates: list[Candidate]) -> list[int]:
    return sorted(range(len(candidates)), key=lambda place: -candidates[place]["predicted"])[:3]


def _all_of_them(candidates: list[Candidate]) -> list[int]:
    return list(range(len(candidates)))


def _the_layouts_themselves(candidates: list[Candidate]) -> list[Candidate]:
    return sorted(candidates, key=lambda one: one["predicted"])[:3]


def _the_same_twice(candidates: list[Candidate]) -> list[int]:
    best = min(range(len(candidates)), key=lambda place: candidates[place]["predicted"])
    return [best, best]


BEAT_THE_PLANNER = Exercise(
    name="beat-the-planner",
    lesson=LESSON,
    examine=examine_shortlist,
    hints=(
        _("Begin with the order that the planner gives: sort the places by `candidates[place]['predicted']`."),
        _(
            "Look at its first three. Often they are the same mesh, and differ in the micro-batch or ZeRO alone. "
            "Where the planner errs about that mesh, it errs three times."
        ),
        _("A better shortlist has three different meshes. Which keys of a candidate say what its mesh is?"),
        _(
            "Go through the places in the planner's order. Keep a place if its (dp, pp, tp) has not been kept yet. "
            "Stop at three."
        ),
    ),
    solution=shortlist,
    wrong=(
        WrongAnswer(_first_choice, Status.OUTSIDE_TARGET),
        WrongAnswer(_first_three, Status.OUTSIDE_TARGET),
        WrongAnswer(_fewest_cuts, Status.OUTSIDE_TARGET),
        WrongAnswer(_slowest, Status.OUTSIDE_TARGET),
        WrongAnswer(_the_same_twice, Status.WRONG_VALUE),
        WrongAnswer(_all_of_them, Status.WRONG_SHAPE),
        WrongAnswer(_the_layouts_themselves, Status.WRONG_SHAPE),
    ),
)


# plan-175b

MODEL, GPUS, WITHIN = model_by_name("gpt3-175b"), 1024, 1.02  # the last: times the least seconds of a step
SCHEDULES, ZERO = ("1f1b", "interleaved"), (0, 1)
"""What the trainer of the exercise can do."""
FIELDS = tuple(field for field in Numbers._fields)


def bench_of(job: Job) -> Bench:
    """A100s with the memory and the network of a job."""
    between = Link(10e-6, 1 / (job["between_gb_s"] * 1e9))
    hardware = replace(hardware_by_name("a100-80gb"), memory=job["memory_gib"] * 2**30, between=between)
    return Bench(hardware, software_by_name("megatron-2022"))


def best_of(job: Job) -> Prediction:
    """The fastest layout that the trainer can do."""
    space = Space(schedules=SCHEDULES, zero=ZERO)
    return search(MODEL, bench_of(job), int(job["gpus"]), int(job["batch"]), space, top=1).layouts[0]


def jobs() -> list[Job]:
    """Three jobs that nobody can know beforehand, so far apart that no single layout is good for all."""
    small = {"batch": one_of((1024, 1536, 2048)), "memory_gib": 48, "between_gb_s": one_of((6.25, 12.5, 25.0))}
    slow = {"batch": one_of((1024, 1536)), "memory_gib": 79, "between_gb_s": 6.25}
    other = {"batch": one_of((1024, 1536, 2048)), "memory_gib": one_of((60, 72)), "between_gb_s": one_of((12.5, 25.0))}
    return [{"gpus": GPUS, **job} for job in (small, slow, other)]


def examine_plan(play: Play) -> Verdict:
    """Ask for three plans, predict them, and compare with the best of all."""
    rows = []
    for job in jobs():
        where = _("batch {batch:g}, {memory_gib:g} GiB, {between_gb_s:g} GB/s between nodes").format(**job)
        layout = _layout(play(Case(((dict(job),),))).outcomes[0].value, where)
        found = _predicted(layout, job, where)
        best = best_of(job).step_seconds
        name = _("seconds of a step: {where}").format(where=where)
        rows.append(at_most(name, *(round(seconds, 2) for seconds in (found.step_seconds, WITHIN * best, best))))
    return weigh(
        rows,
        passed=_("Each plan fits and is as fast as the best there is, within 2 %. You have planned GPT-3."),
        outside=_("Each plan fits. But there are plans that are clearly faster."),
    )


def _layout(got: Plain, where: str) -> Numbers:
    """The layout in what a learner returned; `Refused` where it is none."""
    if not isinstance(got, dict) or set(got) != set(FIELDS):
        message = _("{where}: a dict with {fields} was expected, but your function returned {kind}.")
        kind = told(got) if not isinstance(got, dict) else _("a dict with {keys}").format(keys=", ".join(map(str, got)))
        raise Refused(Status.WRONG_SHAPE, message.format(where=where, fields=", ".join(FIELDS), kind=kind[:300]))
    plain = Numbers()
    for field in FIELDS:
        wanted = str if field == "recompute" else type(getattr(plain, field))
        if type(got[field]) is not wanted:
            message = _("{where}: {field} is {value!r}; it should be of type {wanted}.")
            raise Refused(
                Status.WRONG_SHAPE,
                message.format(where=where, field=field, value=str(got[field])[:50], wanted=wanted.__name__),
            )
    try:
        return Numbers(**{**got, "recompute": Recompute(got["recompute"])})
    except ValueError as error:
        raise Refused(Status.WRONG_VALUE, f"{where}: {error}") from None


def _predicted(layout: Numbers, job: Job, where: str) -> Prediction:
    """What is predicted for a layout that keeps the rules and fits; else `Refused`."""
    if layout.schedule not in SCHEDULES or layout.zero not in ZERO:
        reason = _("the trainer does 1f1b and interleaved, with ZeRO 0 or 1, not {schedule} with ZeRO {zero}").format(
            schedule=layout.schedule, zero=layout.zero
        )
    elif refused := layout.refused(MODEL):
        reason = refused
    elif layout.ranks != job["gpus"]:
        reason = _("dp·pp·tp is {ranks}, but there are {gpus:g} GPUs").format(ranks=layout.ranks, gpus=job["gpus"])
    elif layout.batch != job["batch"]:
        reason = _("dp · micro_batch · micro_batches is {batch}, but a step has {wanted:g} samples").format(
            batch=layout.batch, wanted=job["batch"]
        )
    else:
        found = predict(MODEL, layout, bench_of(job))
        if found.fits:
            return found
        reason = found.refused or _("it does not fit: {needs:.1f} GiB of the {room:.1f} there are for tensors").format(
            needs=found.worst.total / 2**30, room=found.usable / 2**30
        )
    raise Refused(Status.WRONG_VALUE, f"{where}: {layout}: {reason}.")


def plan(job: Job) -> dict[str, Any]:
    """The solution: describe the machine and the trainer, and let the search do the rest."""
    from dataclasses import replace

    from minipar.plan import Bench, Link, Space, hardware_by_name, model_by_name, search, software_by_name

    network = Link(10e-6, 1 / (job["between_gb_s"] * 1e9))
    hardware = replace(hardware_by_name("a100-80gb"), memory=job["memory_gib"] * 2**30, between=network)
    bench = Bench(hardware, software_by_name("megatron-2022"))
    space = Space(schedules=("1f1b", "interleaved"), zero=(0, 1))
    found = search(model_by_name("gpt3-175b"), bench, int(job["gpus"]), int(job["batch"]), space, top=1)
    layout = found.layouts[0].layout
    return {**layout._asdict(), "recompute": layout.recompute.value}


def _as_in_2021(job: Job) -> dict[str, Any]:
    return {
        "dp": 8,
        "pp": 16,
        "tp": 8,
        "micro_batch": 1,
        "micro_batches": int(job["batch"]) // 8,
        "schedule": "1f1b",
        "virtual": 1,
        "sequence_parallel": False,
        "recompute": "full",
        "zero": 0,
    }


def _one_plan_for_all(job: Job) -> dict[str, Any]:
    return {
        "dp": 16,
        "pp": 8,
        "tp": 8,
        "micro_batch": 1,
        "micro_batches": int(job["batch"]) // 16,
        "schedule": "interleaved",
        "virtual": 6,
        "sequence_parallel": True,
        "recompute": "selective",
        "zero": 1,
    }


def _tensor_ranks_over_nodes(job: Job) -> dict[str, Any]:
    return {
        "dp": 8,
        "pp": 8,
        "tp": 16,
        "micro_batch": 1,
        "micro_batches": int(job["batch"]) // 8,
        "schedule": "interleaved",
        "virtual": 2,
        "sequence_parallel": True,
        "recompute": "selective",
        "zero": 1,
    }


def _whatever_is_fastest(job: Job) -> dict[str, Any]:
    return {
        "dp": 16,
        "pp": 8,
        "tp": 8,
        "micro_batch": 1,
        "micro_batches": int(job["batch"]) // 16,
        "schedule": "dualpipe-v",
        "virtual": 1,
        "sequence_parallel": True,
        "recompute": "selective",
        "zero": 1,
    }


def _replicas_alone(job: Job) -> dict[str, Any]:
    return {
        "dp": 1024,
        "pp": 1,
        "tp": 1,
        "micro_batch": 1,
        "micro_batches": int(job["batch"]) // 1024,
        "schedule": "1f1b",
        "virtual": 1,
        "sequence_parallel": False,
        "recompute": "full",
        "zero": 1,
    }


def _another_batch(job: Job) -> dict[str, Any]:
    return {
        "dp": 8,
        "pp": 16,
        "tp": 8,
        "micro_batch": 1,
        "micro_batches": 16,
        "schedule": "interleaved",
        "virtual": 3,
        "sequence_parallel": True,
        "recompute": "selective",
        "zero": 1,
    }


def _degrees_alone(job: Job) -> dict[str, Any]:
    return {"dp": 8, "pp": 16, "tp": 8}


PLAN_175B = Exercise(
    name="plan-175b",
    lesson=LESSON,
    examine=examine_plan,
    hints=(
        _("First the machine: `hardware_by_name('a100-80gb')` with another `memory` and `between`, by `replace`."),
        _(
            "`Bench(hardware, software_by_name('megatron-2022'))` is what predictions are for. "
            "`search(model, bench, gpus, batch)` finds the fastest layouts that fit."
        ),
        _(
            "The trainer cannot do everything. Tell the search: "
            "`Space(schedules=('1f1b', 'interleaved'), zero=(0, 1))` is its fifth argument."
        ),
        _(
            "The best is `search(…).layouts[0].layout`. Its `_asdict()` is nearly the answer: "
            "only `recompute` must be a text, `layout.recompute.value`."
        ),
    ),
    solution=plan,
    wrong=(
        WrongAnswer(_as_in_2021, Status.OUTSIDE_TARGET),
        WrongAnswer(_one_plan_for_all, Status.OUTSIDE_TARGET),
        WrongAnswer(_tensor_ranks_over_nodes, Status.OUTSIDE_TARGET),
        WrongAnswer(_whatever_is_fastest, Status.WRONG_VALUE),
        WrongAnswer(_replicas_alone, Status.WRONG_VALUE),
        WrongAnswer(_another_batch, Status.WRONG_VALUE),
        WrongAnswer(_degrees_alone, Status.WRONG_SHAPE),
    ),
)
