"""The manifest: every parameter by its full name in the unsplit model, and which part of it a rank holds."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from minipar import comm
from minipar.mesh import Axis


@dataclass(frozen=True)
class Cut:
    """How a parameter is cut over the tensor axis: along `dim`, each of its `sections` separately.

    `sections` are lengths along `dim` in the unsplit parameter. A plain matrix is one section; a fused
    query-key-value matrix is three, so that a rank gets its heads of each.
    """

    dim: int
    sections: tuple[int, ...]

    def take(self, whole: Tensor, part: int, parts: int) -> Tensor:
        """The part that rank `part` of `parts` holds of the unsplit parameter.

        Raises `ValueError` where a section does not divide by `parts`.
        """
        for length in self.sections:
            if length % parts:
                raise ValueError(f"a dimension of {length} cannot be cut into {parts} equal parts (tp={parts})")
        pieces = [s.chunk(parts, self.dim)[part] for s in torch.split(whole, list(self.sections), self.dim)]
        return torch.cat(pieces, self.dim)

    def join(self, parts: Sequence[Tensor]) -> Tensor:
        """The unsplit parameter from the parts of all ranks, in order."""
        lengths = [length // len(parts) for length in self.sections]
        split = [torch.split(part, lengths, self.dim) for part in parts]
        return torch.cat([piece for section in zip(*split, strict=True) for piece in section], self.dim)


@dataclass(frozen=True)
class Entry:
    """One parameter: the shape of the unsplit whole, and its cut (None where every tensor rank holds the whole)."""

    shape: torch.Size
    cut: Cut | None


def manifest(model: nn.Module, tp: int) -> dict[str, Entry]:
    """The entries of `model`'s parameters by full name. A layer that is cut says so in its `cuts` attribute."""
    entries = {}
    for prefix, module in model.named_modules():
        cuts: Mapping[str, Cut] = getattr(module, "cuts", {})
        for name, parameter in module.named_parameters(recurse=False):
            cut, shape = cuts.get(name), list(parameter.shape)
            if cut is not None:
                shape[cut.dim] *= tp
            entries[f"{prefix}.{name}" if prefix else name] = Entry(torch.Size(shape), cut)
    return entries


def gather(named: Iterable[tuple[str, Tensor]], entries: Mapping[str, Entry], axis: Axis) -> dict[str, Tensor]:
    """The unsplit tensors, on every rank of the tensor `axis`, from each rank's part: weights or their gradients."""
    whole = {}
    for name, tensor in named:
        cut = entries[name].cut
        part = tensor.detach()
        whole[name] = part.clone() if cut is None else cut.join(comm.gather_tensors(part, axis))
    return whole
