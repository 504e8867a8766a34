"""Lesson 00: multiply by a matrix that is split by its columns."""

from __future__ import annotations

import torch
from torch import Tensor

from course.exercises.exercise import Exercise, Play, Status, Verdict, WrongAnswer
from course.exercises.targets import bytes_sent, weigh
from course.exercises.tensors import compare, draw
from course.judge.plain import Part
from course.judge.ranks import Case
from minipar import comm
from minipar.mesh import Axis
from minipar.words import _

LESSON = "00-start"
CASES = ((2, 3, 250, 8), (4, 2, 280, 12))  # ranks, batch, in, out; chosen so that no wrong shape looks right


def examine(play: Play) -> Verdict:
    """Run the answer on 2 and on 4 ranks, compare with the unsplit product, and weigh what was sent."""
    rows = []
    for tp, batch, wide, out in CASES:
        x, w = draw(batch, wide), draw(wide, out)
        played = play(Case(tuple((x, columns.clone(), Part("tp")) for columns in w.chunk(tp, 1)), tp=tp))
        for rank, outcome in enumerate(played.outcomes):
            compare(outcome.value, x @ w, _("{ranks} ranks, rank {rank}").format(ranks=tp, rank=rank))
        enough = (tp - 1) / tp * batch * out * x.element_size()
        rows.append(bytes_sent(played, enough, enough))
    return weigh(
        rows,
        passed=_(
            "Equal to the unsplit product on 2 and on 4 ranks, on every rank. You have split a matrix over processes."
        ),
        outside=_("The product is right on every rank. But there is a way that sends less."),
    )


def column_linear(x: Tensor, w_columns: Tensor, tp: Axis) -> Tensor:
    """The solution: multiply by the columns that are here, then join the columns of the result."""
    y_columns = x @ w_columns
    return comm.all_gather(y_columns, tp, dim=1)


def _never_joined(x: Tensor, w_columns: Tensor, tp: Axis) -> Tensor:
    return x @ w_columns


def _joined_as_rows(x: Tensor, w_columns: Tensor, tp: Axis) -> Tensor:
    return comm.all_gather(x @ w_columns, tp, dim=0)


def _added(x: Tensor, w_columns: Tensor, tp: Axis) -> Tensor:
    return comm.all_reduce(x @ w_columns, tp)


def _own_columns_everywhere(x: Tensor, w_columns: Tensor, tp: Axis) -> Tensor:
    return (x @ w_columns).repeat(1, tp.size)


def _in_another_order(x: Tensor, w_columns: Tensor, tp: Axis) -> Tensor:
    return comm.all_gather(x @ w_columns, tp, dim=1).roll(w_columns.shape[1], 1)


def _weight_joined_first(x: Tensor, w_columns: Tensor, tp: Axis) -> Tensor:
    return x @ comm.all_gather(w_columns, tp, dim=1)


def _padded_and_added(x: Tensor, w_columns: Tensor, tp: Axis) -> Tensor:
    width = w_columns.shape[1]
    y = x.new_zeros(len(x), width * tp.size)
    y[:, tp.rank * width : (tp.rank + 1) * width] = x @ w_columns
    return comm.all_reduce(y, tp)


def _gathered_twice_on_two_ranks(x: Tensor, w_columns: Tensor, tp: Axis) -> Tensor:
    y = x @ w_columns
    if tp.size == 2:
        comm.all_gather(y, tp, dim=1)
    return comm.all_gather(y, tp, dim=1)


def _past_the_ledger(x: Tensor, w_columns: Tensor, tp: Axis) -> Tensor:
    parts = [torch.empty_like(w_columns) for _ in range(tp.size)]
    torch.distributed.all_gather(parts, w_columns, group=tp.group)
    return x @ torch.cat(parts, 1)


COLUMN_LINEAR = Exercise(
    name="column-linear",
    lesson=LESSON,
    examine=examine,
    hints=(
        _("Look at one rank alone. It has all of `x` and some columns of `w`. Which columns of `y` can it compute?"),
        _(
            "`x @ w_columns` has the shape [batch, out / ranks]: this rank's columns of `y`. "
            "The other ranks have the other columns."
        ),
        _(
            "`comm.all_gather(tensor, tp, dim=…)` joins every rank's tensor along `dim`. "
            "Columns lie side by side: which dim is that?"
        ),
    ),
    solution=column_linear,
    wrong=(
        WrongAnswer(_never_joined, Status.WRONG_SHAPE),
        WrongAnswer(_joined_as_rows, Status.WRONG_SHAPE),
        WrongAnswer(_added, Status.WRONG_SHAPE),
        WrongAnswer(_own_columns_everywhere, Status.WRONG_VALUE),
        WrongAnswer(_in_another_order, Status.WRONG_VALUE),
        WrongAnswer(_weight_joined_first, Status.OUTSIDE_TARGET),
        WrongAnswer(_padded_and_added, Status.OUTSIDE_TARGET),
        WrongAnswer(_gathered_twice_on_two_ranks, Status.OUTSIDE_TARGET),
        WrongAnswer(_past_the_ledger, Status.OUTSIDE_TARGET),
    ),
)
