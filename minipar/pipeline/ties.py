"""Weights that several stages share, such as an embedding and a head: their gradients are one sum."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor, nn

from minipar.mesh import Mesh
from minipar.pipeline.schedule import Schedule
from minipar.wire import Line

Tie = Mapping[int, str]
"""The stages that hold a copy of one weight, each with the weight's name in that stage."""


TIE = "tie"  # the kind of message


class Ties:
    """One rank's part in the weights that are tied in a step."""

    def __init__(self, ties: Sequence[Tie], schedule: Schedule, stages: Mapping[int, nn.Module], mesh: Mesh) -> None:
        """Set the gradients so far aside; raises `ValueError` for a stage or a name that is not there."""
        self.rank = mesh.pp.rank
        self.seen: set[tuple[int, str]] = set()
        self.holders: list[list[int]] = []
        self.copies: list[list[nn.Parameter]] = []
        for tie in ties:
            if wrong := [stage for stage in tie if not 0 <= stage < schedule.stages]:
                raise ValueError(f"tie {dict(tie)} names stage {wrong[0]}, but there are {schedule.stages} stages")
            if twice := [where for where in tie.items() if where in self.seen]:
                raise ValueError(f"stage {twice[0][0]}'s {twice[0][1]!r} is in two ties; put all its copies into one")
            self.seen.update(tie.items())
            self.holders.append(sorted({schedule.holder[stage] for stage in tie}))
            held = [_parameter(stages[stage], tie[stage], stage) for stage in sorted(tie) if stage in stages]
            self.copies.append(list(dict.fromkeys(held)))
        self.before = [[_set_aside(copy) for copy in copies] for copies in self.copies]

    def messages(self, rank: int) -> int:
        """How many messages this rank and another one exchange for the ties, in each direction."""
        return sum(self.rank in holders and rank in holders for holders in self.holders) if rank != self.rank else 0

    def add_up(self, lines: Mapping[int, Line]) -> None:
        """Give every copy the sum of all copies' gradients, added in the order of the ranks: bitwise equal."""
        for holders, copies, before in zip(self.holders, self.copies, self.before, strict=True):
            if not copies:
                continue
            if len({copy.shape for copy in copies}) > 1:
                raise ValueError(
                    f"a tied weight has shapes {[tuple(copy.shape) for copy in copies]}; copies have one shape"
                )
            own = sum((_gradient(copy) for copy in copies[1:]), _gradient(copies[0]))
            for rank in holders:
                if rank != self.rank:
                    lines[rank].send(TIE, (own,))
            parts = [own if rank == self.rank else lines[rank].receive()[0] for rank in holders]
            for rank, part in zip(holders, parts, strict=True):
                if part.shape != own.shape:
                    shapes = f"{tuple(part.shape)} on rank {rank} and {tuple(own.shape)} on rank {self.rank}"
                    raise ValueError(f"a tied weight has shape {shapes}; copies have one shape")
            total = sum(parts[1:], parts[0])
            for copy, earlier in zip(copies, before, strict=True):
                if copy.requires_grad:
                    _set(copy, total if earlier is None else earlier + total)


def _gradient(copy: nn.Parameter) -> Tensor:
    """The gradient so far: where it is summed in another tensor (`minipar.train.Buckets`), that one."""
    held: Tensor | None = getattr(copy, "main_grad", copy.grad)
    return torch.zeros_like(copy) if held is None else held


def _set(copy: nn.Parameter, gradient: Tensor) -> None:
    if hasattr(copy, "main_grad"):
        copy.main_grad.copy_(gradient)
    else:
        copy.grad = gradient.clone()


def _set_aside(copy: nn.Parameter) -> Tensor | None:
    """Take the gradient so far away from `copy`; None where there is none."""
    if not hasattr(copy, "main_grad"):
        before, copy.grad = copy.grad, None
        return before
    main: Tensor = copy.main_grad
    if not main.any():
        return None
    before = main.clone()
    main.zero_()
    return before


def _parameter(stage: nn.Module, name: str, number: int) -> nn.Parameter:
    try:
        return stage.get_parameter(name)
    except AttributeError:
        names = ", ".join(name for name, _ in stage.named_parameters())
        raise ValueError(f"stage {number} has no parameter {name!r} to tie; it has {names or 'none'}") from None
