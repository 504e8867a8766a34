"""The manifest: every parameter by its full name in the unsplit model, and which part of it a rank holds."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from minipar import comm
from minipar.mesh import Axis


class Section(NamedTuple):
    """A run of `length` entries that is cut by itself.

    most: into at most that many parts; where there are more ranks, neighbours hold the same part (key-value heads).
    padded: zeros are added where the length does not divide (a vocabulary).
    """

    length: int
    most: int | None = None
    padded: bool = False

    def parts(self, ranks: int) -> int:
        """Into how many different parts it is cut for `ranks` ranks; `ValueError` where that does not come out even."""
        parts = min(ranks, self.most or ranks)
        if ranks % parts:
            raise ValueError(f"{parts} parts cannot be shared evenly by {ranks} ranks (tp={ranks})")
        if self.length % parts and not self.padded:
            raise ValueError(f"a dimension of {self.length} cannot be cut into {parts} equal parts (tp={ranks})")
        return parts

    def held(self, ranks: int) -> int:
        """How many entries each rank holds."""
        return -(-self.length // self.parts(ranks))


@dataclass(frozen=True)
class Cut:
    """How a parameter is cut over the tensor axis: along `dim`, each of its sections separately.

    A plain matrix is one section; a fused query-key-value matrix is three, so that a rank gets its heads of each.
    """

    dim: int
    sections: tuple[Section, ...]

    def take(self, whole: Tensor, rank: int, ranks: int) -> Tensor:
        """The part that `rank` of `ranks` holds of the unsplit parameter."""
        pieces, lengths = [], [section.length for section in self.sections]
        for section, piece in zip(self.sections, torch.split(whole, lengths, self.dim), strict=True):
            parts, held = section.parts(ranks), section.held(ranks)
            padding = [0, 0] * (whole.dim() - 1 - self.dim % whole.dim()) + [0, held * parts - section.length]
            pieces.append(F.pad(piece, padding).narrow(self.dim, rank * parts // ranks * held, held))
        return torch.cat(pieces, self.dim)

    def join(self, held: Sequence[Tensor]) -> Tensor:
        """The unsplit parameter from what all ranks hold, in order."""
        ranks, sections = len(held), []
        split = [torch.split(tensor, [s.held(ranks) for s in self.sections], self.dim) for tensor in held]
        for i, section in enumerate(self.sections):
            parts = section.parts(ranks)
            different = [split[part * ranks // parts][i] for part in range(parts)]
            sections.append(torch.cat(different, self.dim).narrow(self.dim, 0, section.length))
        return torch.cat(sections, self.dim)

    @property
    def length(self) -> int:
        """The unsplit parameter's size along `dim`."""
        return sum(section.length for section in self.sections)


@dataclass(frozen=True)
class Entry:
    """One parameter: the shape of the unsplit whole, and its cut (None where every tensor rank holds the whole).

    copy_of: the full name of the parameter that this is a tied copy of, on a stage that does not hold the other.
    """

    shape: torch.Size
    cut: Cut | None
    copy_of: str | None = None


def manifest(model: nn.Module) -> dict[str, Entry]:
    """The entries of `model`'s parameters by full name. A layer that is cut says so in its `cuts` attribute.

    A layer that holds a copy of another stage's parameter says so in its `copies` attribute (name to full name).

    A tied parameter is there once, under the first of its names.
    """
    entries = {}
    seen = {id(parameter): name for name, parameter in model.named_parameters()}
    for prefix, module in model.named_modules():
        cuts: Mapping[str, Cut] = getattr(module, "cuts", {})
        copies: Mapping[str, str] = getattr(module, "copies", {})
        for name, parameter in module.named_parameters(recurse=False):
            cut, shape = cuts.get(name), list(parameter.shape)
            if cut is not None:
                shape[cut.dim] = cut.length
            full = f"{prefix}.{name}" if prefix else name
            if seen[id(parameter)] == full:
                entries[full] = Entry(torch.Size(shape), cut, copies.get(name))
    return entries


def gather(named: Iterable[tuple[str, Tensor]], entries: Mapping[str, Entry], axis: Axis) -> dict[str, Tensor]:
    """The unsplit tensors, on every rank of the tensor `axis`, from each rank's part: weights or their gradients.

    Without copies of what another stage holds.
    """
    whole = {}
    for name, tensor in named:
        if entries[name].copy_of is not None:
            continue
        cut = entries[name].cut
        part = tensor.detach()
        whole[name] = part.clone() if cut is None else cut.join(comm.gather_tensors(part, axis))
    return whole


def load(model: nn.Module, whole: Mapping[str, Tensor], axis: Axis) -> None:
    """Undo `gather`: give each parameter of `model` its part of the unsplit tensors; `KeyError` if one is missing."""
    entries = manifest(model)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            cut, source = entries[name].cut, whole[entries[name].copy_of or name]
            parameter.copy_(source if cut is None else cut.take(source, axis.rank, axis.size))
