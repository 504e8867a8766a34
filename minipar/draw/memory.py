"""Memory by part, as stacked bars beside the room that a device has for tensors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.text import Text

from minipar.draw.bars import Bar, Chart, Part, bars_svg
from minipar.draw.bars_text import bars_text
from minipar.draw.frame import COMMUNICATION, FORWARD, INPUT_GRADIENT, OPTIMIZER, WEIGHT_GRADIENT, YELLOW, figure
from minipar.words import _

if TYPE_CHECKING:
    from minipar.plan.memory import Memory
    from minipar.plan.predict import Prediction

GIB = 2**30


def parts() -> dict[str, Part]:
    """How each part of `minipar.plan.Memory` looks, in its order.

    Gradients and the optimizer have the colours that they have everywhere. Activations have the forward's, which
    makes them; logits the input gradient's, as the loss makes that of them; buffers that of communication, as what is
    on its way is among them.
    """
    return {
        "weights": Part(_("weights"), YELLOW),
        "gradients": Part(_("gradients"), WEIGHT_GRADIENT),
        "optimizer": Part(_("optimizer"), OPTIMIZER),
        "vocabulary": Part(_("vocabulary"), "#BBBBBB"),
        "activations": Part(_("activations"), FORWARD),
        "logits": Part(_("logits"), INPUT_GRADIENT),
        "buffers": Part(_("buffers"), COMMUNICATION),
    }


def memory_svg(
    predictions: Sequence[tuple[str, Prediction]],
    title: str,
    *,
    by_rank: bool = False,
    whole: float | None = None,
) -> str:
    """Memory by part as an SVG string, a bar for each labelled layout: of the pipeline rank that holds most.

    by_rank: a bar for every pipeline rank. whole: bytes of the whole device, of which a prediction's `usable` are for
    tensors.
    """
    return bars_svg(_chart(predictions, by_rank, whole), title)


def memory_text(
    predictions: Sequence[tuple[str, Prediction]], width: int = 72, *, by_rank: bool = False, whole: float | None = None
) -> Text:
    """The same for a terminal `width` columns wide."""
    return bars_text(_chart(predictions, by_rank, whole), width)


def _chart(predictions: Sequence[tuple[str, Prediction]], by_rank: bool, whole: float | None) -> Chart:
    bars = []
    for label, found in predictions:
        if not by_rank:
            bars.append(_bar(label, found, found.worst))
            continue
        for rank, held in enumerate(found.memory):
            name = _("rank {number}").format(number=rank)
            bars.append(_bar(f"{label}, {name}" if len(predictions) > 1 and label else name, found, held))
    return Chart(
        tuple(parts().values()),
        tuple(bars),
        "GiB",
        _("GiB on each pipeline rank's GPU") if by_rank else _("GiB on the GPU that holds most"),
        _("room for tensors"),
        None if whole is None else whole / GIB,
        _("the whole device"),
    )


def _bar(label: str, found: Prediction, held: Memory) -> Bar:
    sizes, beside, crossed = tuple(held.parts[name] / GIB for name in parts()), f"{figure(held.total / GIB)} GiB", []
    if held.total > found.usable:
        over = figure((held.total - found.usable) / GIB)
        beside = _("{total}, {over} too much").format(total=beside, over=over)
        crossed.append(_("it does not fit: {over} GiB too much").format(over=over))
    if found.refused is not None:
        beside = _("{total}, cannot run").format(total=beside)
        crossed.append(_("it cannot run: {reason}").format(reason=found.refused))
    return Bar(label, sizes, beside, "; ".join(crossed), found.usable / GIB)
