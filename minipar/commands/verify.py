"""`minipar verify`: a layout trains as the unsplit model does, or it says by how much it does not."""

from __future__ import annotations

import json
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from minipar.commands.common import Json, clear_errors
from minipar.model import Recompute
from minipar.pipeline.names import LOOPED, NAMES, by_name
from minipar.words import _

EQUAL = 1e-12
STEPS = 3


def verify_command(
    pp: Annotated[int, typer.Option(metavar="P", help="Pipeline ranks.")] = 2,
    tp: Annotated[int, typer.Option(metavar="T", help="Tensor ranks.")] = 1,
    dp: Annotated[int, typer.Option(metavar="D", help="Data ranks.")] = 1,
    schedule: Annotated[str, typer.Option(metavar="NAME", help=f"One of {', '.join(NAMES)}.")] = "1f1b",
    micro_batches: Annotated[int, typer.Option(metavar="M", help="Into how many each replica's batch is cut.")] = 4,
    virtual: Annotated[
        int | None, typer.Option(metavar="V", help=f"Stages a rank, for {' and '.join(LOOPED)} (2 by default).")
    ] = None,
    sequence_parallel: Annotated[
        bool, typer.Option("--sequence-parallel", help="Cut the sequence between the split regions.")
    ] = False,
    recompute: Annotated[
        Recompute, typer.Option(help="Activations to compute again in the backward.")
    ] = Recompute.NONE,
    zero: Annotated[
        bool, typer.Option("--zero", help="Shard the optimizer's states over the replicas (ZeRO-1).")
    ] = False,
    as_json: Json = False,
) -> None:
    """Train a small GPT in this layout and unsplit; compare losses, gradients and weights of three clipped steps."""
    from minipar.layout import Layout
    from minipar.mesh import check_degrees
    from minipar.verify import verify

    with clear_errors():
        check_degrees(dp, pp, tp, dp * pp * tp)
        plan = by_name(schedule, pp, micro_batches, virtual)
        layout = Layout(plan, dp, tp, sequence_parallel, recompute, zero)
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
