"""Inputs that nobody can know beforehand, and whether a tensor is the one that was wanted."""

from __future__ import annotations

import secrets
from typing import Any

import torch
from torch import Tensor

from course.exercises.exercise import Refused, Status
from course.judge.plain import Other
from minipar.words import _

TOLERANCE = 1e-12  # of the largest entry, in float64


def draw(*shape: int) -> Tensor:
    """A float64 tensor of normally distributed entries, another one each time: no answer can know it by heart."""
    stream = torch.Generator().manual_seed(secrets.randbits(60))
    return torch.randn(shape, generator=stream, dtype=torch.float64)


def compare(got: Any, want: Tensor, where: str) -> float:
    """The largest difference of `got` and `want`, as a share of the largest entry of `want`.

    Raises `Refused` where it is not a tensor of that shape, or differs by more than `TOLERANCE`.
    """
    if not isinstance(got, Tensor):
        kind = got.kind if isinstance(got, Other) else type(got).__name__
        message = _("{where}: a tensor of shape {shape} was expected, but your function returned {kind}.")
        raise Refused(Status.WRONG_SHAPE, message.format(where=where, shape=tuple(want.shape), kind=kind))
    if got.shape != want.shape:
        message = _("{where}: the shape is {got}, but it should be {want}.")
        raise Refused(Status.WRONG_SHAPE, message.format(where=where, got=tuple(got.shape), want=tuple(want.shape)))
    if got.is_complex() and not want.is_complex():
        message = _("{where}: the shape is right, but the entries are of type {got} and should be of {want}.")
        raise Refused(Status.WRONG_VALUE, message.format(where=where, got=got.dtype, want=want.dtype))
    error, largest = (got.to(want.dtype) - want).abs(), want.abs().max()
    if not bool(error.max() <= TOLERANCE * largest):
        at = tuple(int(i) for i in torch.unravel_index(error.nan_to_num(torch.inf).argmax(), error.shape))
        message = _("{where}: the shape is right, but entry {at} is {got:.4g} and should be {want:.4g}.")
        raise Refused(Status.WRONG_VALUE, message.format(where=where, at=at, got=got[at].item(), want=want[at].item()))
    return (error.max() / largest).item()
