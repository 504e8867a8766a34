"""Lesson 03: a product cut by rows with its gradients, and a feed-forward that needs one sum."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from course.exercises.exercise import Exercise, Play, Refused, Status, Verdict, WrongAnswer
from course.exercises.targets import bytes_sent, weigh
from course.exercises.tensors import compare, draw
from course.judge.plain import Part
from course.judge.ranks import Case
from minipar import comm
from minipar.mesh import Axis
from minipar.words import _

LESSON = "03-matmul"
DOUBLE = 8  # bytes of a number
CASES = ((2, 5, 84, 70), (4, 3, 132, 90))  # ranks, batch, in, out; chosen so that no wrong shape looks right


def several(got: Any, names: tuple[str, ...], where: str) -> tuple[Any, ...]:
    """What an answer returned, where it is as many values as there are names; else `Refused`."""
    if not isinstance(got, (tuple, list)) or len(got) != len(names):
        message = _("{where}: {count} results are expected: {names}.")
        told = message.format(where=where, count=len(names), names=", ".join(names))
        raise Refused(Status.WRONG_SHAPE, told)
    return tuple(got)


def examine_rows(play: Play) -> Verdict:
    """Run on 2 and on 4 ranks; compare result and both gradients with the whole ones, and weigh what was sent."""
    rows = []
    for tp, batch, wide, out in CASES:
        x, w, dy = draw(batch, wide), draw(wide, out), draw(batch, out)
        shards = zip(x.chunk(tp, 1), w.chunk(tp, 0), strict=True)
        played = play(Case(tuple((a.clone(), b.clone(), dy, Part("tp")) for a, b in shards), tp=tp))
        for rank, outcome in enumerate(played.outcomes):
            where = _("{ranks} ranks, rank {rank}").format(ranks=tp, rank=rank)
            wanted = {"y": x @ w, "dx_columns": (dy @ w.T).chunk(tp, 1)[rank], "dw_rows": (x.T @ dy).chunk(tp, 0)[rank]}
            for name, value in zip(wanted, several(outcome.value, tuple(wanted), where), strict=True):
                compare(value, wanted[name], f"{where}, {name}")
        enough = 2 * (tp - 1) / tp * batch * out * DOUBLE
        rows.append(bytes_sent(played, enough, enough))
    return weigh(
        rows,
        passed=_(
            "Result and gradients are those of the whole product, with one all-reduce. The backward sends nothing."
        ),
        outside=_("All three are right on every rank. But there is a way that sends less."),
    )


def row_split(x_columns: Tensor, w_rows: Tensor, dy: Tensor, tp: Axis) -> tuple[Tensor, Tensor, Tensor]:
    """The solution: one sum, and two local products."""
    y = comm.all_reduce(x_columns @ w_rows, tp)
    return y, dy @ w_rows.T, x_columns.T @ dy


def _never_summed(x_columns: Tensor, w_rows: Tensor, dy: Tensor, tp: Axis) -> tuple[Tensor, Tensor, Tensor]:
    return x_columns @ w_rows, dy @ w_rows.T, x_columns.T @ dy


def _input_gradient_summed(x_columns: Tensor, w_rows: Tensor, dy: Tensor, tp: Axis) -> tuple[Tensor, Tensor, Tensor]:
    y = comm.all_reduce(x_columns @ w_rows, tp)
    return y, comm.all_reduce(dy @ w_rows.T, tp), x_columns.T @ dy


def _weight_gradient_summed(x_columns: Tensor, w_rows: Tensor, dy: Tensor, tp: Axis) -> tuple[Tensor, Tensor, Tensor]:
    y = comm.all_reduce(x_columns @ w_rows, tp)
    return y, dy @ w_rows.T, comm.all_reduce(x_columns.T @ dy, tp)


def _gradients_gathered(x_columns: Tensor, w_rows: Tensor, dy: Tensor, tp: Axis) -> tuple[Tensor, Tensor, Tensor]:
    y = comm.all_reduce(x_columns @ w_rows, tp)
    return y, comm.all_gather(dy @ w_rows.T, tp, dim=1), comm.all_gather(x_columns.T @ dy, tp, dim=0)


def _whole_on_every_rank(x_columns: Tensor, w_rows: Tensor, dy: Tensor, tp: Axis) -> tuple[Tensor, Tensor, Tensor]:
    x, w = comm.all_gather(x_columns, tp, dim=1), comm.all_gather(w_rows, tp, dim=0)
    return x @ w, dy @ w_rows.T, x_columns.T @ dy


def _result_alone(x_columns: Tensor, w_rows: Tensor, dy: Tensor, tp: Axis) -> Tensor:
    return comm.all_reduce(x_columns @ w_rows, tp)


ROW_SPLIT = Exercise(
    name="row-split",
    lesson=LESSON,
    examine=examine_rows,
    hints=(
        _("`x_columns @ w_rows` has the shape of `y`. Is it `y`? What do the other ranks have?"),
        _(
            "It is a summand of `y`, so it needs an all-reduce. For the gradients, ask first: which shard does "
            "this rank need?"
        ),
        _("`dw_rows = x_columns.T @ dy` and `dx_columns = dy @ w_rows.T`. Every rank has all of `dy`."),
    ),
    solution=row_split,
    wrong=(
        WrongAnswer(_never_summed, Status.WRONG_VALUE),
        WrongAnswer(_input_gradient_summed, Status.WRONG_VALUE),
        WrongAnswer(_weight_gradient_summed, Status.WRONG_VALUE),
        WrongAnswer(_gradients_gathered, Status.WRONG_SHAPE),
        WrongAnswer(_whole_on_every_rank, Status.OUTSIDE_TARGET),
        WrongAnswer(_result_alone, Status.WRONG_SHAPE),
    ),
)


def examine_pair(play: Play) -> Verdict:
    """Run on 2 and on 4 ranks; compare with the whole feed-forward, and weigh what was sent."""
    rows = []
    for tp, batch, wide, out in CASES:
        x, w, v, b = draw(batch, out), draw(out, 4 * wide), draw(4 * wide, out), draw(out)
        shards = zip(w.chunk(tp, 1), v.chunk(tp, 0), strict=True)
        played = play(Case(tuple((x, cut.clone(), rest.clone(), b, Part("tp")) for cut, rest in shards), tp=tp))
        for rank, outcome in enumerate(played.outcomes):
            where = _("{ranks} ranks, rank {rank}").format(ranks=tp, rank=rank)
            compare(outcome.value, F.gelu(x @ w) @ v + b, where)
        enough = 2 * (tp - 1) / tp * batch * out * DOUBLE
        rows.append(bytes_sent(played, enough, enough))
    return weigh(
        rows,
        passed=_("Two products, a bend, a bias, and one sum. This is how Megatron-LM cuts every feed-forward."),
        outside=_("The result is right on every rank. But there is a way that sends less."),
    )


def feed_forward(x: Tensor, w_columns: Tensor, v_rows: Tensor, b: Tensor, tp: Axis) -> Tensor:
    """The solution: columns, bend, rows, sum, and only then the bias."""
    middle = torch.nn.functional.gelu(x @ w_columns)
    return comm.all_reduce(middle @ v_rows, tp) + b


def _bias_on_every_rank(x: Tensor, w_columns: Tensor, v_rows: Tensor, b: Tensor, tp: Axis) -> Tensor:
    middle = torch.nn.functional.gelu(x @ w_columns)
    return comm.all_reduce(middle @ v_rows + b, tp)


def _never_added_up(x: Tensor, w_columns: Tensor, v_rows: Tensor, b: Tensor, tp: Axis) -> Tensor:
    return torch.nn.functional.gelu(x @ w_columns) @ v_rows + b


def _middle_gathered(x: Tensor, w_columns: Tensor, v_rows: Tensor, b: Tensor, tp: Axis) -> Tensor:
    middle = comm.all_gather(torch.nn.functional.gelu(x @ w_columns), tp, dim=1)
    own = middle.chunk(tp.size, 1)[tp.rank]
    return comm.all_reduce(own @ v_rows, tp) + b


def _no_bend(x: Tensor, w_columns: Tensor, v_rows: Tensor, b: Tensor, tp: Axis) -> Tensor:
    return comm.all_reduce((x @ w_columns) @ v_rows, tp) + b


def _middle_returned(x: Tensor, w_columns: Tensor, v_rows: Tensor, b: Tensor, tp: Axis) -> Tensor:
    return comm.all_gather(torch.nn.functional.gelu(x @ w_columns), tp, dim=1)


COLUMN_ROW_PAIR = Exercise(
    name="column-row-pair",
    lesson=LESSON,
    examine=examine_pair,
    hints=(
        _("`x @ w_columns` is some columns of the middle, complete. May you bend them right away?"),
        _("Yes. And `v_rows` wants just these columns. What each rank has then is a summand."),
        _("Sum once, by `comm.all_reduce`. Then add the bias: added before, it would be there `tp.size` times."),
    ),
    solution=feed_forward,
    wrong=(
        WrongAnswer(_bias_on_every_rank, Status.WRONG_VALUE),
        WrongAnswer(_never_added_up, Status.WRONG_VALUE),
        WrongAnswer(_middle_gathered, Status.OUTSIDE_TARGET),
        WrongAnswer(_no_bend, Status.WRONG_VALUE),
        WrongAnswer(_middle_returned, Status.WRONG_SHAPE),
    ),
)
