"""`minipar verify`: a layout trains as the unsplit model does, or it says by how much it does not."""

from __future__ import annotations

import json

import typer
from rich.console import Console
from rich.table import Table

from minipar.commands.common import Json, clear_errors
from minipar.commands.layout import Recomputed, layout_of
from minipar.commands.options import (
    Dp,
    MicroBatches,
    Pp,
    ScheduleName,
    SequenceParallel,
    Tp,
    Virtual,
    Zero,
)
from minipar.model import Recompute
from minipar.words import _

EQUAL = 1e-12
STEPS = 3


def verify_command(
    pp: Pp = 2,
    tp: Tp = 1,
    dp: Dp = 1,
    schedule: ScheduleName = "1f1b",
    micro_batches: MicroBatches = 4,
    virtual: Virtual = None,
    sequence_parallel: SequenceParallel = False,
    recompute: Recomputed = Recompute.NONE,
    zero: Zero = False,
    as_json: Json = False,
) -> None:
    """Train a small GPT in this layout and unsplit; compare losses, gradients and weights of three clipped steps."""
    from minipar.verify import verify

    with clear_errors():
        layout = layout_of(dp, pp, tp, micro_batches, schedule, virtual, sequence_parallel, recompute, zero)
        found = verify(layout, STEPS)
    equal = max(found) <= EQUAL
    if as_json:
        print(json.dumps({"max_rel_error": found._asdict(), "equal": equal}))
    else:
        table = Table(
            _("what"),
            _("largest relative error"),
            title=_("split beside unsplit, {steps} steps, float64").format(steps=STEPS),
        )
        for name, error in zip((_("loss"), _("gradients"), _("weights")), found, strict=True):
            table.add_row(name, f"{error:.1e}")
        Console().print(table)
        within = _("They are equal to within {limit:g}.") if equal else _("[red]They differ by more than {limit:g}.[/]")
        Console().print(within.format(limit=EQUAL))
    if not equal:
        raise typer.Exit(1)
