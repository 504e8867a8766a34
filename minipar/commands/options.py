"""The options that say how a model is laid out, for every command that runs or predicts one."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from minipar.pipeline.names import LOOPED, NAMES


def option(says: str, panel: str, metavar: str | None = None, name: str | None = None) -> Any:
    """An option in a panel of the help; `name` for a switch, so that it has no opposite."""
    return typer.Option(*([name] if name else []), help=says, rich_help_panel=panel, metavar=metavar)


PANEL = "Layout"
Dp = Annotated[int, option("Data ranks: replicas of the model.", PANEL, "D")]
Pp = Annotated[int, option("Pipeline ranks.", PANEL, "P")]
Tp = Annotated[int, option("Tensor ranks; they should share a node.", PANEL, "T")]
MicroBatches = Annotated[int, option("Into how many each replica's batch is cut.", PANEL, "M")]
ScheduleName = Annotated[str, option(f"One of {', '.join(NAMES)}.", PANEL, "NAME")]
Virtual = Annotated[int | None, option(f"Stages a rank, for {' and '.join(LOOPED)} (2 by default).", PANEL, "V")]
SequenceParallel = Annotated[
    bool, option("Cut the sequence between the split regions.", PANEL, name="--sequence-parallel")
]
Zero = Annotated[bool, option("Shard the optimizer's states over the replicas (ZeRO-1).", PANEL, name="--zero")]
