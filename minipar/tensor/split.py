"""Split a model of your own: replace its layers by their split form from a small plan, and put it together again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from fnmatch import fnmatchcase
from typing import TypeVar

import torch
from torch import Tensor, nn

from minipar import comm
from minipar.manifest import Cut
from minipar.mesh import Axis
from minipar.tensor.linear import ColumnParallelLinear, RowParallelLinear
from minipar.tensor.vocab import VocabParallelEmbedding

Split = Callable[[nn.Module, Axis], nn.Module]
M = TypeVar("M", bound=nn.Module)


def column(layer: nn.Module, axis: Axis) -> ColumnParallelLinear:
    """The `nn.Linear` split by its outputs; what follows gets a part of them."""
    linear = _expect(layer, nn.Linear)
    return ColumnParallelLinear(linear.weight.detach(), _bias(linear), axis)


def gathered_column(layer: nn.Module, axis: Axis) -> ColumnParallelLinear:
    """The `nn.Linear` split by its outputs, which are gathered for what follows."""
    linear = _expect(layer, nn.Linear)
    return ColumnParallelLinear(linear.weight.detach(), _bias(linear), axis, gather_output=True)


def row(layer: nn.Module, axis: Axis) -> RowParallelLinear:
    """The `nn.Linear` split by its inputs; what is before must give each rank a part of them."""
    linear = _expect(layer, nn.Linear)
    return RowParallelLinear(linear.weight.detach(), _bias(linear), axis)


def vocabulary(layer: nn.Module, axis: Axis) -> VocabParallelEmbedding:
    """The `nn.Embedding` split by its rows."""
    embedding = _expect(layer, nn.Embedding)
    if embedding.padding_idx is not None or embedding.max_norm is not None or embedding.scale_grad_by_freq:
        raise ValueError("an embedding with padding_idx, max_norm or scale_grad_by_freq has no split form here")
    return VocabParallelEmbedding(embedding.weight.detach(), axis)


def split_module(model: M, plan: Mapping[str, Split], axis: Axis) -> M:
    """Replace, in place, each layer whose full name matches a pattern of `plan` by what its function makes of it.

    ``split_module(model, {"blocks.*.up": column, "blocks.*.down": row}, mesh.tp)`` splits every feed-forward.
    What the plan does not name stays whole on every rank: right as long as it sees the same values everywhere.
    Every rank must start from the same weights. Nothing is sent. Raises `ValueError` for a pattern that no layer
    matches, a layer that its function cannot split or whose parameters others share, and sizes that do not divide.
    """
    uses = Counter(id(parameter) for _, parameter in model.named_parameters(remove_duplicate=False))
    replaced: dict[str, nn.Module] = {}
    for pattern, split in plan.items():
        matches = [(name, layer) for name, layer in model.named_modules() if name and fnmatchcase(name, pattern)]
        if not matches:
            names = ", ".join(name for name, layer in model.named_modules() if not list(layer.children()))
            raise ValueError(f"no layer is called {pattern!r}; there are: {names}")
        for name, layer in matches:
            if name in replaced:
                raise ValueError(f"{name}: two patterns of the plan match it")
            if any(uses[id(parameter)] > 1 for parameter in layer.parameters()):
                raise ValueError(f"{name}: it shares a parameter with another layer, and a split one would not")
            try:
                replaced[name] = _frozen_as(layer, split(layer, axis))
            except ValueError as error:
                raise ValueError(f"{name}: {error}") from None
    _replace(model, replaced)
    return model


def join_module(model: M) -> M:
    """Undo `split_module`, in place, with the weights as they are now. Every rank of the axis must call it."""
    _replace(model, {name: _joined(layer) for name, layer in model.named_modules() if hasattr(layer, "cuts")})
    return model


def _joined(layer: nn.Module) -> nn.Module:
    """The whole layer that a split one is a part of."""
    axis: Axis = layer.axis  # type: ignore[assignment]
    cuts: Mapping[str, Cut] = layer.cuts  # type: ignore[assignment]

    def whole(name: str, parameter: Tensor) -> Tensor:
        cut = cuts.get(name)
        part = parameter.detach()
        return part if cut is None else cut.join(comm.gather_tensors(part, axis))

    tensors = {name: whole(name, parameter) for name, parameter in layer.named_parameters()}
    weight = tensors["weight"]
    made: nn.Module
    if isinstance(layer, VocabParallelEmbedding):
        made = nn.Embedding(weight.shape[0], weight.shape[1], device=weight.device, dtype=weight.dtype)
    else:
        outputs, inputs = weight.shape
        made = nn.Linear(inputs, outputs, "bias" in tensors, device=weight.device, dtype=weight.dtype)
    made.load_state_dict(tensors)
    return _frozen_as(layer, made)


def _frozen_as(layer: nn.Module, made: nn.Module) -> nn.Module:
    """`made`, of whose parameters those are frozen that are in `layer`."""
    frozen = {name for name, parameter in layer.named_parameters() if not parameter.requires_grad}
    for name, parameter in made.named_parameters():
        parameter.requires_grad_(name not in frozen)
    return made


def _replace(model: nn.Module, layers: Mapping[str, nn.Module]) -> None:
    for name, layer in layers.items():
        parent, _, attribute = name.rpartition(".")
        setattr(model.get_submodule(parent), attribute, layer)


def _expect(layer: nn.Module, kind: type[M]) -> M:
    if type(layer) is not kind:  # a subclass may compute something else, or be read from elsewhere
        raise ValueError(f"a {type(layer).__name__} cannot be split so; a {kind.__name__} can")
    return layer


def _bias(linear: nn.Linear) -> Tensor | None:
    bias: torch.Tensor | None = linear.bias
    return None if bias is None else bias.detach()
