"""The layout that a command's options say, for every command that runs one."""

from __future__ import annotations

from typing import Annotated

from minipar.commands.options import PANEL, option
from minipar.layout import Layout
from minipar.mesh import check_degrees
from minipar.model import Recompute
from minipar.pipeline import by_name

Recomputed = Annotated[Recompute, option("Activations to compute again in the backward.", PANEL)]


def layout_of(
    dp: int,
    pp: int,
    tp: int,
    micro_batches: int,
    schedule: str,
    virtual: int | None,
    sequence_parallel: bool,
    recompute: Recompute,
    zero: bool,
) -> Layout:
    """The layout that these options say; raises `ValueError` for degrees or a schedule that cannot be."""
    check_degrees(dp, pp, tp, dp * pp * tp)
    return Layout(by_name(schedule, pp, micro_batches, virtual), dp, tp, sequence_parallel, recompute, zero)
