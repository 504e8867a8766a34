"""`minipar doctor`: what this machine can do."""

from __future__ import annotations

import json
import math
import os
from typing import Annotated

import torch.distributed as dist
import typer
from rich.console import Console
from rich.table import Table

from minipar.alphabeta import LinkMeasure, measure_links
from minipar.commands.common import Json, clear_errors
from minipar.devices import DEVICE_VARIABLE, Placement, choose, gpus, place
from minipar.doctor import examine
from minipar.words import _

SMALL = {"dp": 1, "pp": 2, "tp": 2}  # the degrees if none is given: four ranks, which every machine can start


def doctor_command(
    links: Annotated[
        bool, typer.Option("--links", help="Measure latency and bandwidth on each axis of a mesh instead.")
    ] = False,
    dp: Annotated[int | None, typer.Option(metavar="D", help="With --links: data ranks.")] = None,
    pp: Annotated[int | None, typer.Option(metavar="P", help="With --links: pipeline ranks.")] = None,
    tp: Annotated[int | None, typer.Option(metavar="T", help="With --links: tensor ranks.")] = None,
    as_json: Json = False,
) -> None:
    """Say what this machine can do: versions, devices, backend and why, how fast ranks start and talk."""
    given = {name: degree for name, degree in (("dp", dp), ("pp", pp), ("tp", tp)) if degree is not None}
    with clear_errors():
        if links:
            degrees = {"dp": 1, "pp": 1, "tp": 1, **given} if given else SMALL
            measures = _measure(degrees)
        elif given:
            options = " ".join(f"--{name} {degree}" for name, degree in given.items())
            raise ValueError(f"{options} says which links to measure: add --links, or leave it out")
        else:
            findings = examine()
    if dist.is_initialized() and dist.get_rank() > 0:
        return  # of torchrun's ranks one speaks for all
    if links:
        _show_links(measures, degrees, as_json)
        return
    if as_json:
        print(json.dumps([finding._asdict() for finding in findings]))
        return
    table = Table(show_header=False, box=None)
    for finding in findings:
        table.add_row(finding.name, finding.value)
        if finding.advice:
            table.add_row("", f"→ {finding.advice}", style="dim")
    Console().print(table)


def _measure(degrees: dict[str, int]) -> list[LinkMeasure]:
    if all(degree == 1 for degree in degrees.values()):
        raise ValueError("dp=1, pp=1, tp=1 is one rank, which has no links; give one of them at least 2")
    return measure_links(**degrees)


def _show_links(measures: list[LinkMeasure], degrees: dict[str, int], as_json: bool) -> None:
    """Print the measured links; the keys of the JSON objects end in their units."""
    if as_json:
        print(json.dumps([facts(measure) for measure in measures]))
        return
    shown = ", ".join(f"{name}={degree}" for name, degree in degrees.items())
    title = _("links of {degrees}, on {placement}").format(
        degrees=shown, placement=_placement(math.prod(degrees.values()))
    )
    table = Table(
        _("axis"),
        _("ranks"),
        _("operation"),
        _("alpha: latency of a message"),
        _("1/beta: bandwidth"),
        title=title,
        caption=_(
            "All groups of an axis at once; the slowest counts. An all-reduce over n ranks is a ring's: "
            "2(n−1) messages, each an n-th of the tensor. A send is half a round trip of two neighbours, "
            "through host memory, as stages send."
        ),
    )
    for measure in measures:
        latency = _("{microseconds:.1f} µs").format(microseconds=measure.alpha * 1e6)
        table.add_row(measure.axis, str(measure.ranks), measure.operation, latency, _bandwidth(measure.beta))
    Console().print(table)


def facts(measure: LinkMeasure) -> dict[str, str | int | float]:
    """What `--json` prints of a link."""
    return {
        "axis": measure.axis,
        "ranks": measure.ranks,
        "operation": measure.operation,
        "alpha_seconds": measure.alpha,
        "beta_seconds_per_byte": measure.beta,
    }


def _bandwidth(beta: float) -> str:
    return _("{rate:.2f} GB/s").format(rate=1e-9 / beta) if beta else _("too fast to tell")


def _placement(ranks: int) -> Placement:
    """Where the first of so many ranks is, whether it was started here or by torchrun."""
    if dist.is_initialized():
        return place()
    return choose(0, ranks, os.environ.get(DEVICE_VARIABLE) or None, gpus())
