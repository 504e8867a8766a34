"""Lesson 02: an all-reduce from messages, and one from a reduce-scatter and an all-gather."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor

from course.exercises.exercise import Exercise, Play, Refused, Status, Verdict, WrongAnswer
from course.exercises.targets import bytes_sent, weigh
from course.exercises.tensors import compare, draw
from course.judge.plain import Part
from course.judge.ranks import Case, Played
from minipar import comm
from minipar.mesh import Axis
from minipar.words import _

LESSON = "02-collectives"
DOUBLE = 8  # bytes of a number


def only(played: Played, allowed: Iterable[str], words: str) -> None:
    """Raise `Refused`, with these words, where a rank has used another way to talk than those."""
    used = {row.operation for outcome in played.outcomes for row in outcome.traffic}
    if others := sorted(used - set(allowed)):
        raise Refused(Status.OUTSIDE_TARGET, words.format(others=", ".join(others)))


def examine_ring(play: Play) -> Verdict:
    """Run on 2, 3 and 4 ranks; compare with the sum, and weigh what was sent."""
    rows = []
    for ranks, length in ((2, 6), (3, 600), (4, 404)):
        tensors = [draw(length) for _rank in range(ranks)]
        played = play(Case(tuple((tensor, Part("tp")) for tensor in tensors), tp=ranks))
        for rank, outcome in enumerate(played.outcomes):
            where = _("{ranks} ranks, rank {rank}").format(ranks=ranks, rank=rank)
            compare(outcome.value, torch.stack(tensors).sum(0), where)
        only(played, ["send"], _("The sum is right, but it was made by {others}. Write it from `comm.shift` alone."))
        enough = 2 * (ranks - 1) / ranks * length * DOUBLE
        rows.append(bytes_sent(played, enough, enough))
    return weigh(
        rows,
        passed=_("The sum on every rank, and not a byte more than a ring needs. This is what large trainings run on."),
        outside=_("The sum is right on every rank. But a ring sends less: only one part in each step."),
    )


def ring_all_reduce(tensor: Tensor, ranks: Axis) -> Tensor:
    """The solution: n − 1 steps in which sums grow, and n − 1 in which they go round."""
    parts = list(tensor.chunk(ranks.size))
    for step in range(ranks.size - 1):
        came = comm.shift(parts[(ranks.rank - step) % ranks.size], ranks)
        place = (ranks.rank - step - 1) % ranks.size
        parts[place] = parts[place] + came
    for step in range(ranks.size - 1):
        came = comm.shift(parts[(ranks.rank + 1 - step) % ranks.size], ranks)
        parts[(ranks.rank - step) % ranks.size] = came
    return torch.cat(parts)


def _whole_tensors_go_round(tensor: Tensor, ranks: Axis) -> Tensor:
    total, passing = tensor, tensor
    for _step in range(ranks.size - 1):
        passing = comm.shift(passing, ranks)
        total = total + passing
    return total


def _the_ready_one(tensor: Tensor, ranks: Axis) -> Tensor:
    return comm.all_reduce(tensor, ranks)


def _half_of_it(tensor: Tensor, ranks: Axis) -> Tensor:
    parts = list(tensor.chunk(ranks.size))
    for step in range(ranks.size - 1):
        came = comm.shift(parts[(ranks.rank - step) % ranks.size], ranks)
        place = (ranks.rank - step - 1) % ranks.size
        parts[place] = parts[place] + came
    return torch.cat(parts)


def _own_part_alone(tensor: Tensor, ranks: Axis) -> Tensor:
    parts = list(tensor.chunk(ranks.size))
    for step in range(ranks.size - 1):
        came = comm.shift(parts[(ranks.rank - step) % ranks.size], ranks)
        place = (ranks.rank - step - 1) % ranks.size
        parts[place] = parts[place] + came
    return parts[(ranks.rank + 1) % ranks.size]


def _one_neighbour(tensor: Tensor, ranks: Axis) -> Tensor:
    return tensor + comm.shift(tensor, ranks)


def _always_the_same_part(tensor: Tensor, ranks: Axis) -> Tensor:
    parts = list(tensor.chunk(ranks.size))
    for _step in range(2 * (ranks.size - 1)):
        parts[0] = parts[0] + comm.shift(parts[0], ranks)
    return torch.cat(parts)


RING_ALL_REDUCE = Exercise(
    name="ring-all-reduce",
    lesson=LESSON,
    examine=examine_ring,
    hints=(
        _("In the first step rank r passes part r on. What comes in is part r − 1: add it to your own part r − 1."),
        _("Pass on in the next step what you have just added to. After n − 1 steps one part is whole: which?"),
        _("Rank r has part r + 1 whole. Pass it on; what comes in now is whole too, and replaces yours."),
        _("All part numbers are modulo `ranks.size`. At the end `torch.cat(parts)`."),
    ),
    solution=ring_all_reduce,
    wrong=(
        WrongAnswer(_whole_tensors_go_round, Status.OUTSIDE_TARGET),
        WrongAnswer(_the_ready_one, Status.OUTSIDE_TARGET),
        WrongAnswer(_half_of_it, Status.WRONG_VALUE),
        WrongAnswer(_own_part_alone, Status.WRONG_SHAPE),
        WrongAnswer(_one_neighbour, Status.WRONG_VALUE),
        WrongAnswer(_always_the_same_part, Status.WRONG_VALUE),
    ),
)


def examine_mean(play: Play) -> Verdict:
    """Run with a length that divides and with two that do not; compare with the mean, and weigh what was sent."""
    rows = []
    for ranks, length in ((2, 401), (4, 803), (3, 600)):
        tensors = [draw(length) for _rank in range(ranks)]
        played = play(Case(tuple((tensor, Part("tp")) for tensor in tensors), tp=ranks))
        for rank, outcome in enumerate(played.outcomes):
            where = _("{ranks} ranks, rank {rank}, length {length}").format(ranks=ranks, rank=rank, length=length)
            compare(outcome.value, torch.stack(tensors).mean(0), where)
        words = _("The mean is right, but it was made by {others}. Use `comm.reduce_scatter` and `comm.all_gather`.")
        only(played, ["reduce-scatter", "all-gather"], words)
        enough = 2 * (ranks - 1) / ranks * -(-length // ranks) * ranks * DOUBLE
        rows.append(bytes_sent(played, enough, enough))
    return weigh(
        rows,
        passed=_("The mean on every rank, whatever the length, for the price of one all-reduce."),
        outside=_("The mean is right on every rank. But there is a way that sends less."),
    )


def mean_of_all(tensor: Tensor, ranks: Axis) -> Tensor:
    """The solution: zeros at the end until it divides, the two collectives, and the zeros cut off again."""
    missing = -len(tensor) % ranks.size
    padded = torch.cat([tensor, tensor.new_zeros(missing)])
    part = comm.reduce_scatter(padded, ranks) / ranks.size
    return comm.all_gather(part, ranks)[: len(tensor)]


def _padding_stays(tensor: Tensor, ranks: Axis) -> Tensor:
    padded = torch.cat([tensor, tensor.new_zeros(-len(tensor) % ranks.size)])
    return comm.all_gather(comm.reduce_scatter(padded, ranks) / ranks.size, ranks)


def _the_sum(tensor: Tensor, ranks: Axis) -> Tensor:
    padded = torch.cat([tensor, tensor.new_zeros(-len(tensor) % ranks.size)])
    return comm.all_gather(comm.reduce_scatter(padded, ranks), ranks)[: len(tensor)]


def _gathers_everything(tensor: Tensor, ranks: Axis) -> Tensor:
    return comm.all_gather(tensor.unsqueeze(0), ranks).mean(0)


def _one_call(tensor: Tensor, ranks: Axis) -> Tensor:
    return comm.all_reduce(tensor, ranks) / ranks.size


def _cut_short(tensor: Tensor, ranks: Axis) -> Tensor:
    length = len(tensor) // ranks.size * ranks.size
    return comm.all_gather(comm.reduce_scatter(tensor[:length], ranks) / ranks.size, ranks)


MEAN_IN_TWO = Exercise(
    name="mean-in-two",
    lesson=LESSON,
    examine=examine_mean,
    hints=(
        _("How many entries are missing until the length divides by `ranks.size`? Zeros change no sum."),
        _("`-len(tensor) % ranks.size` zeros at the end. `tensor.new_zeros(n)` makes n of them."),
        _("Reduce-scatter, divide by the number of ranks, all-gather, and cut off what you have added."),
    ),
    solution=mean_of_all,
    wrong=(
        WrongAnswer(_padding_stays, Status.WRONG_SHAPE),
        WrongAnswer(_the_sum, Status.WRONG_VALUE),
        WrongAnswer(_gathers_everything, Status.OUTSIDE_TARGET),
        WrongAnswer(_one_call, Status.OUTSIDE_TARGET),
        WrongAnswer(_cut_short, Status.WRONG_SHAPE),
    ),
)
