"""Lesson 08: the ranks that a rank works with, in any order of the axes; and a mesh laid onto four nodes of eight."""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping, Sequence
from itertools import permutations, product
from typing import Any

from course.exercises.exercise import Exercise, Play, Refused, Status, Verdict, WrongAnswer
from course.exercises.targets import at_most, weigh
from course.judge.plain import Other, Plain
from course.judge.ranks import Case
from minipar.words import _

LESSON = "08-mesh"
Sizes = dict[str, int]
Order = tuple[str, ...]
Job = dict[str, float]
AXES = ("dp", "pp", "tp")


def one_of(options: Sequence[Any]) -> Any:
    """One of them that nobody can know beforehand."""
    return options[secrets.randbelow(len(options))]


def told(got: Plain) -> str:
    """What kind of value came, in a word."""
    return got.kind if isinstance(got, Other) else type(got).__name__


# partners


def groups(rank: int, sizes: Mapping[str, int], order: Sequence[str]) -> dict[str, list[int]]:
    """The judge's own answer, by another way than a learner's: every rank's coordinates by counting."""
    counted = product(*(range(sizes[axis]) for axis in reversed(order)))  # the last factor turns fastest
    places = [dict(zip(reversed(order), at, strict=True)) for at in counted]
    own = places[rank]
    return {
        axis: [n for n, at in enumerate(places) if all(at[other] == own[other] for other in order if other != axis)]
        for axis in order
    }


def examine_partners(play: Play) -> Verdict:
    """Ask for some ranks of meshes in three orders; degrees differ, so that no two axes can be mistaken."""
    for order in (("tp", "dp", "pp"), one_of(tuple(permutations(AXES))[:4]), ("pp", "dp", "tp")):
        sizes = dict(zip(AXES, one_of(tuple(permutations((2, 3, 4)))), strict=True))
        for rank in (0, 1 + secrets.randbelow(22), 23):
            played = play(Case(((rank, dict(sizes), list(order)),)))
            _compare_groups(played.outcomes[0].value, groups(rank, sizes, order), rank, sizes, order)
    return Verdict(
        Status.PASSED, _("Right for every rank, mesh and order that was tried. A framework does this when it starts.")
    )


def _compare_groups(got: Plain, want: dict[str, list[int]], rank: int, sizes: Sizes, order: Sequence[str]) -> None:
    where = _("rank {rank} of {sizes}, order {order}").format(
        rank=rank, sizes=" × ".join(f"{a}={n}" for a, n in sizes.items()), order=", ".join(order)
    )
    if (
        not isinstance(got, dict)
        or set(got) != set(want)
        or not all(isinstance(v, (list, tuple)) for v in got.values())
    ):
        message = _("{where}: a dict with a list of ranks for dp, pp and tp was expected, but it returned {kind}.")
        raise Refused(Status.WRONG_SHAPE, message.format(where=where, kind=told(got)))
    for axis in AXES:
        ranks = list(got[axis])
        if len(ranks) != sizes[axis]:
            message = _("{where}: the {axis} group has {size} ranks, {rank} itself among them, but you have {ranks}.")
            raise Refused(
                Status.WRONG_SHAPE,
                message.format(where=where, axis=axis, size=sizes[axis], rank=rank, ranks=str(ranks)[:200]),
            )
        if ranks != want[axis]:
            message = _("{where}: the {axis} group is not {ranks}.").format(
                where=where, axis=axis, ranks=str(ranks)[:200]
            )
            inner = order.index(axis)
            step = 1
            for name in order[:inner]:
                step *= sizes[name]
            message += " " + _("Along {axis}, from one rank to the next, the number grows by {step}.").format(
                axis=axis, step=step
            )
            raise Refused(Status.WRONG_VALUE, message)


def partners(rank: int, sizes: Sizes, order: Order) -> dict[str, list[int]]:
    """The solution: from the rank to its coordinates, then along each axis back to ranks."""
    at, rest = {}, rank
    for axis in order:
        rest, at[axis] = divmod(rest, sizes[axis])
    found: dict[str, list[int]] = {}
    for moving in order:
        found[moving] = []
        for place in range(sizes[moving]):
            number, step = 0, 1
            for axis in order:
                number += step * (place if axis == moving else at[axis])
                step *= sizes[axis]
            found[moving].append(number)
    return found


def _always_tp_innermost(rank: int, sizes: Sizes, order: Order) -> dict[str, list[int]]:
    dp, pp, tp = sizes["dp"], sizes["pp"], sizes["tp"]
    p, d, t = rank // (dp * tp), rank // tp % dp, rank % tp
    return {
        "dp": [(p * dp + i) * tp + t for i in range(dp)],
        "pp": [(i * dp + d) * tp + t for i in range(pp)],
        "tp": [(p * dp + d) * tp + i for i in range(tp)],
    }


def _outermost_first(rank: int, sizes: Sizes, order: Order) -> dict[str, list[int]]:
    steps, step = {}, 1
    for axis in reversed(order):
        steps[axis], step = step, step * sizes[axis]
    at = {axis: rank // steps[axis] % sizes[axis] for axis in order}
    return {axis: [rank + (i - at[axis]) * steps[axis] for i in range(sizes[axis])] for axis in order}


def _without_itself(rank: int, sizes: Sizes, order: Order) -> dict[str, list[int]]:
    steps, step = {}, 1
    for axis in order:
        steps[axis], step = step, step * sizes[axis]
    at = {axis: rank // steps[axis] % sizes[axis] for axis in order}
    return {axis: [rank + (i - at[axis]) * steps[axis] for i in range(sizes[axis]) if i != at[axis]] for axis in order}


def _from_the_rank_on(rank: int, sizes: Sizes, order: Order) -> dict[str, list[int]]:
    found, step = {}, 1
    for axis in order:
        found[axis], step = [rank + i * step for i in range(sizes[axis])], step * sizes[axis]
    return found


def _coordinates_alone(rank: int, sizes: Sizes, order: Order) -> dict[str, int]:
    at = {}
    for axis in order:
        rank, at[axis] = divmod(rank, sizes[axis])
    return at


PARTNERS = Exercise(
    name="partners",
    lesson=LESSON,
    examine=examine_partners,
    hints=(
        _("First find where `rank` is: its place on each axis. The innermost axis turns fastest, like the last digit."),
        _(
            "`rest, place = divmod(rest, sizes[axis])`, axis by axis from the innermost, gives all places. "
            "It is how you would take a number apart into digits."
        ),
        _(
            "Back again: one step along an axis changes the rank by the product of the degrees of all axes inside it. "
            "For the innermost that is 1."
        ),
        _(
            "For each axis, let its place run from 0 to its degree − 1, keep the other places, "
            "and add up place × step over all axes."
        ),
    ),
    solution=partners,
    wrong=(
        WrongAnswer(_always_tp_innermost, Status.WRONG_VALUE),
        WrongAnswer(_outermost_first, Status.WRONG_VALUE),
        WrongAnswer(_from_the_rank_on, Status.WRONG_VALUE),
        WrongAnswer(_without_itself, Status.WRONG_SHAPE),
        WrongAnswer(_coordinates_alone, Status.WRONG_SHAPE),
    ),
)


# place-axes

GPUS, NODE, MOST_IDLE = 32, 8, 0.1
DEGREES = (1, 2, 4, 8, 16, 32)
WITHIN = 1.02  # times the least seconds


def seconds_on_links(sizes: Mapping[str, int], order: Sequence[str], job: Mapping[str, float]) -> float:
    """Seconds of a step in which a GPU's links are busy: bytes over the speed of the links that each axis has."""
    dp, pp, tp = (sizes[axis] for axis in AXES)
    micro_batches, features = job["samples"] / dp, 2 * job["sequence"] * job["hidden"]
    sent = {
        "dp": 2 * (dp - 1) / dp * 2 * 12 * job["layers"] * job["hidden"] ** 2 / (pp * tp),
        "pp": 2 * micro_batches * features / tp if pp > 1 else 0.0,
        "tp": 4 * micro_batches * job["layers"] / pp * 2 * (tp - 1) / tp * features,
    }
    seconds, apart = 0.0, 1
    for axis in order:
        inside = (sizes[axis] - 1) * apart < NODE
        seconds += sent[axis] / job["inside" if inside else "between"]
        apart *= sizes[axis]
    return seconds


def broken_rule(sizes: Mapping[str, int], job: Mapping[str, float]) -> str:
    """Which rule these degrees break; an empty text where they keep all."""
    dp, pp, tp = (sizes[axis] for axis in AXES)
    if dp * pp * tp != GPUS:
        return _("dp·pp·tp is {ranks}, but there are {gpus} GPUs").format(ranks=dp * pp * tp, gpus=GPUS)
    if pp * tp < job["parts"]:
        words = _("the model does not fit: it must be cut into {parts:g} parts, and pp·tp is {cut}")
        return words.format(parts=job["parts"], cut=pp * tp)
    if job["layers"] % pp:
        return _("{layers:g} layers cannot be cut into {pp} equal stages").format(layers=job["layers"], pp=pp)
    if job["samples"] % dp:
        return _("{samples:g} samples cannot be shared by dp={dp}").format(samples=job["samples"], dp=dp)
    idle = (pp - 1) * dp / job["samples"]
    if idle > MOST_IDLE:
        words = _(
            "the bubble, (pp − 1) / m, is {idle:.0%}, with m = {m:g} micro-batches; at most {most:.0%} is allowed"
        )
        return words.format(idle=idle, m=job["samples"] / dp, most=MOST_IDLE)
    return ""


def placements(job: Mapping[str, float]) -> Iterator[tuple[float, Sizes, Order]]:
    """Every placement that keeps the rules, with its seconds."""
    for degrees, order in product(product(DEGREES, repeat=3), permutations(AXES)):
        sizes = dict(zip(AXES, degrees, strict=True))
        if not broken_rule(sizes, job):
            yield seconds_on_links(sizes, order, job), sizes, order


def least(job: Mapping[str, float]) -> tuple[float, Sizes, Order]:
    """The placement with the least seconds."""
    return min(placements(job), key=lambda found: found[0])


def a_job(parts: int) -> Job:
    """A job whose best placement needs thought: several axes, tp below 8, and pipelines alone would idle too long."""
    while True:
        layers, hidden = one_of((32, 48, 64, 96)), one_of((4096, 5120, 6144, 8192))
        job = {
            "layers": layers,
            "hidden": hidden,
            "sequence": one_of((2048, 4096)),
            "samples": one_of((64, 96, 128, 160)),
            "parts": parts,
            "inside": 1e9 * one_of((235, 367)),
            "between": 1e9 * one_of((12.5, 25, 50)),
        }
        seconds, sizes, _order = least(job)
        rivals = [at for at, other, _o in placements(job) if other["tp"] == NODE and other["pp"] == parts // NODE]
        deep = {"dp": GPUS // parts, "pp": parts, "tp": 1}
        if 1 < sizes["tp"] < NODE and sizes["dp"] > 1 and broken_rule(deep, job) and min(rivals) > WITHIN * seconds:
            return job


def examine_placement(play: Play) -> Verdict:
    """Ask for three jobs; the seconds are the judge's."""
    rows = []
    for parts in (16, 8, 16):
        job = a_job(parts)
        best = least(job)[0]
        sizes, order = _placement(play(Case(((dict(job),),))).outcomes[0].value)
        if reason := broken_rule(sizes, job):
            raise Refused(Status.WRONG_VALUE, _("{sizes}: {reason}.").format(sizes=_shown(sizes), reason=reason))
        yours = seconds_on_links(sizes, order, job)
        name = _("ms on links: {layers:g} layers of {hidden:g}, {parts:g} parts or more").format(**job)
        rows.append(at_most(name, *(round(1e3 * s, 1) for s in (yours, WITHIN * best, best))))
    return weigh(
        rows,
        passed=_("No placement on four nodes of eight keeps the links less busy. You have planned a mesh."),
        outside=_("Each placement is possible. But there is one that keeps the links less busy."),
    )


def _shown(sizes: Sizes) -> str:
    return " × ".join(f"{axis}={sizes[axis]}" for axis in AXES)


def _placement(got: Plain) -> tuple[Sizes, Order]:
    """The degrees and the order in what a learner returned; `Refused` where it is nothing of the kind."""
    keys = {*AXES, "order"}
    if not isinstance(got, dict) or set(got) != keys:
        message = _("A dict with dp, pp, tp and order was expected, but your function returned {kind}.")
        raise Refused(Status.WRONG_SHAPE, message.format(kind=told(got)))
    whole = all(type(got[axis]) is int and got[axis] >= 1 for axis in AXES)
    order = got["order"]
    if not whole or not isinstance(order, (list, tuple)) or sorted(map(str, order)) != sorted(AXES):
        message = _("dp, pp and tp are whole numbers of at least 1, and order has each of their names once.")
        raise Refused(Status.WRONG_SHAPE, message)
    return {axis: got[axis] for axis in AXES}, tuple(order)


def place(job: Job) -> dict[str, Any]:
    """The solution: try every mesh that keeps the rules, in every order, and keep the best."""

    def seconds(sizes: Sizes, order: Order) -> float:
        dp, pp, tp = sizes["dp"], sizes["pp"], sizes["tp"]
        micro_batches, features = job["samples"] / dp, 2 * job["sequence"] * job["hidden"]
        gradients = 2 * 12 * job["layers"] * job["hidden"] ** 2 / (pp * tp)
        sent = {
            "dp": 2 * (dp - 1) / dp * gradients,
            "pp": 2 * micro_batches * features / tp if pp > 1 else 0,
            "tp": 4 * micro_batches * job["layers"] / pp * 2 * (tp - 1) / tp * features,
        }
        total, apart = 0.0, 1
        for axis in order:
            inside = (sizes[axis] - 1) * apart < 8
            total += sent[axis] / job["inside" if inside else "between"]
            apart *= sizes[axis]
        return total

    best: dict[str, Any] = {}
    least = float("inf")
    for tp in (1, 2, 4, 8, 16, 32):
        for pp in (1, 2, 4, 8, 16, 32):
            dp = 32 // (pp * tp)
            if dp == 0 or pp * tp < job["parts"] or job["layers"] % pp or job["samples"] % dp:
                continue
            if (pp - 1) / (job["samples"] / dp) > 0.1:
                continue
            for order in (("tp", "dp", "pp"), ("tp", "pp", "dp"), ("dp", "tp", "pp"), ("pp", "tp", "dp")):
                sizes = {"dp": dp, "pp": pp, "tp": tp}
                if seconds(sizes, order) < least:
                    best, least = {**sizes, "order": order}, seconds(sizes, order)
    return best


def _tp_fills_the_node(job: Job) -> dict[str, Any]:
    pp = int(job["parts"]) // 8
    return {"dp": 4 // pp, "pp": pp, "tp": 8, "order": ("tp", "dp", "pp")}


def _replicas_beside_each_other(job: Job) -> dict[str, Any]:
    pp = int(job["parts"]) // 8
    return {"dp": 4 // pp, "pp": pp, "tp": 8, "order": ("dp", "tp", "pp")}


def _replicas_alone(job: Job) -> dict[str, Any]:
    return {"dp": 32, "pp": 1, "tp": 1, "order": ("tp", "dp", "pp")}


def _pipelines_alone(job: Job) -> dict[str, Any]:
    pp = int(job["parts"])
    return {"dp": 32 // pp, "pp": pp, "tp": 1, "order": ("tp", "dp", "pp")}


def _one_node_alone(job: Job) -> dict[str, Any]:
    return {"dp": 1, "pp": 2, "tp": 8, "order": ("tp", "dp", "pp")}


def _tensor_ranks_alone(job: Job) -> dict[str, Any]:
    return {"dp": 1, "pp": 1, "tp": 32, "order": ("tp", "dp", "pp")}


def _degrees_alone(job: Job) -> tuple[int, int, int]:
    return 2, 2, 8


PLACE_AXES = Exercise(
    name="place-axes",
    lesson=LESSON,
    examine=examine_placement,
    hints=(
        _("There are only 21 meshes of 32 GPUs whose degrees are powers of two. Let the machine try them all."),
        _("Two loops, over tp and pp, give all meshes: `dp = 32 // (pp * tp)`. Skip those that break a rule."),
        _(
            "For those that are left, `seconds_on_links(sizes, order, job)` says what each order costs. "
            "Keep the one with the fewest seconds."
        ),
        _(
            'Return `{"dp": dp, "pp": pp, "tp": tp, "order": order}` of the best. '
            "Start with `best = None` and `least = float('inf')`; replace both whenever a mesh costs less."
        ),
    ),
    solution=place,
    wrong=(
        WrongAnswer(_tp_fills_the_node, Status.OUTSIDE_TARGET),
        WrongAnswer(_replicas_beside_each_other, Status.OUTSIDE_TARGET),
        WrongAnswer(_tensor_ranks_alone, Status.OUTSIDE_TARGET),
        WrongAnswer(_replicas_alone, Status.WRONG_VALUE),
        WrongAnswer(_pipelines_alone, Status.WRONG_VALUE),
        WrongAnswer(_one_node_alone, Status.WRONG_VALUE),
        WrongAnswer(_degrees_alone, Status.WRONG_SHAPE),
    ),
)
