"""Run a learner's function on fresh ranks, and tell its ways to go wrong apart from each other."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from course.exercises.exercise import NotTried, Status, Verdict
from minipar import Mesh, RankFailed, RankTimeout, run
from minipar.ledger import Traffic
from minipar.words import _

SECONDS = 20.0
NOT_TRIED = "not tried"


def outputs(work: Callable[[Mesh], Any], tp: int) -> list[tuple[Any, list[Traffic]]] | Verdict:
    """What `work` returns on each of `tp` ranks and what it sent; or a verdict where it did not get that far."""

    def on_rank() -> Any:
        mesh = Mesh(tp=tp)
        try:
            return work(mesh), mesh.ledger.rows()
        except NotTried:
            return NOT_TRIED

    try:
        results = run(on_rank, tp, timeout=SECONDS, device="cpu")
    except RankTimeout as error:
        stuck = _("The ranks waited for each other for {seconds:g} s. Does every rank call the same collectives?")
        return Verdict(Status.RAISED, f"{stuck.format(seconds=SECONDS)}\n\n{error}")
    except RankFailed as error:
        return Verdict(Status.RAISED, str(error))
    if NOT_TRIED in results:
        return Verdict(Status.NOT_TRIED, _("Write the function's body in place of the line that raises NotTried."))
    return results


def compare(got: Any, want: Tensor, where: str) -> Verdict | None:
    """A verdict where `got` is not `want` (float64, to 1e-12 of the largest entry); None where it is."""
    if not isinstance(got, Tensor):
        message = _("{where}: a tensor of shape {shape} was expected, but your function returned {kind}.")
        return Verdict(
            Status.WRONG_SHAPE, message.format(where=where, shape=tuple(want.shape), kind=type(got).__name__)
        )
    if got.shape != want.shape:
        message = _("{where}: the shape is {got}, but it should be {want}.")
        return Verdict(Status.WRONG_SHAPE, message.format(where=where, got=tuple(got.shape), want=tuple(want.shape)))
    error = (got.to(want.dtype) - want).abs()
    if not bool(error.max() <= 1e-12 * want.abs().max()):
        at = tuple(int(i) for i in torch.unravel_index(error.nan_to_num(torch.inf).argmax(), error.shape))
        message = _("{where}: the shape is right, but entry {at} is {got:.4g} and should be {want:.4g}.")
        return Verdict(Status.WRONG_VALUE, message.format(where=where, at=at, got=got[at].item(), want=want[at].item()))
    return None
