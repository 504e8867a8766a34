"""`minipar simulate`: what a schedule costs, as a picture and in numbers, with no process started."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from minipar.commands.common import Json, clear_errors, write_text
from minipar.draw import FILL, Panel, gantt_svg, gantt_text, percent, standalone
from minipar.pipeline import Action, Costs, Schedule, Timeline, check, parse, simulate
from minipar.pipeline.names import LOOPED, NAMES, by_name
from minipar.words import _, plural

COSTS = {"F": "forward", "B": "backward", "I": "input", "W": "weight", "send": "send"}
"""What `--costs` may say, and what `Costs` calls it."""


def simulate_command(
    schedule: Annotated[
        str,
        typer.Option(
            metavar="NAME|FILE",
            help=f"One of {', '.join(NAMES)}; auto, to have one made for the memory limit; "
            "or a text file with one line a rank, such as: F0 F1 B0 B1",
        ),
    ],
    stages: Annotated[int | None, typer.Option(metavar="P", help="How many ranks the model is cut over.")] = None,
    micro_batches: Annotated[int | None, typer.Option(metavar="M", help="Into how many the batch is cut.")] = None,
    costs: Annotated[
        str | None,
        typer.Option(
            metavar="F=…,I=…,W=…,send=…",
            help="Time of one micro-batch in one stage: forward, gradient of its input, gradients of its weights, and "
            "to be sent, in any one unit. B is the whole backward, I + W by default. What is left out: F, I and W 1, "
            "send 0.",
        ),
    ] = None,
    virtual: Annotated[
        int | None, typer.Option(metavar="V", help=f"Stages a rank, for {' and '.join(LOOPED)} (2 by default).")
    ] = None,
    memory_limit: Annotated[
        float | None, typer.Option(metavar="K", help="Refuse a schedule with more live micro-batches than this.")
    ] = None,
    as_json: Json = False,
    svg: Annotated[Path | None, typer.Option(metavar="FILE", help="Write the picture there.")] = None,
    trace: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write a trace for Perfetto there; a unit of time counts as a second."),
    ] = None,
) -> None:
    """Predict when each rank does what, how much of it is idle, and what it holds, without starting a rank."""
    console = Console(quiet=as_json)
    with clear_errors():
        prices = Costs() if costs is None else read_costs(costs)
        plan = choose(schedule, stages, micro_batches, virtual, prices, memory_limit)
        timeline = simulate(check(plan, memory_limit), prices)
        if svg is not None:
            write_text(svg, standalone(picture(plan, timeline)))
        if trace is not None:
            write_text(trace, json.dumps(timeline.to_chrome_trace(plan.name)) + "\n")
    if as_json:
        print(json.dumps(facts(plan, timeline)))
        return
    console.print(gantt_text(Panel(plan.name, timeline), console.width))
    table = Table(show_header=False, box=None, padding=(0, 2, 0, 0))
    for row in in_numbers(plan, timeline, prices):
        table.add_row(*row)
    console.print(table)


def read_costs(text: str) -> Costs:
    """The costs that a text such as "F=1,I=1,W=1,send=0.1" names; raises `ValueError` for one that names none."""
    found: dict[str, float] = {}
    for part in text.split(","):
        key, _equals, number = (word.strip() for word in part.partition("="))
        if key not in COSTS:
            raise ValueError(f"--costs: {key!r} is not one of {', '.join(COSTS)}; write for example F=1,I=1,W=1,send=0")
        if COSTS[key] in found:
            raise ValueError(f"--costs says twice what {key} is")
        try:
            found[COSTS[key]] = float(number)
        except ValueError:
            raise ValueError(f"--costs: {part.strip()!r} has no number; write one, as in {key}=1.5") from None
        if not 0 <= found[COSTS[key]] < math.inf:
            raise ValueError(f"--costs: {part.strip()} is no length of time; a cost is a number of at least 0")
    return Costs(**found)


def choose(
    name: str, stages: int | None, micro_batches: int | None, virtual: int | None, costs: Costs, limit: float | None
) -> Schedule:
    """The schedule that the options name; raises `ValueError` where they say too little or contradict each other."""
    if limit is not None and not limit > 0:
        raise ValueError(f"--memory-limit {limit:g} leaves no room; it is how many live micro-batches a rank can hold")
    published = name.lower() in NAMES
    if published or name == "auto":
        if stages is None or micro_batches is None:
            raise ValueError(
                f"--schedule {name} needs --stages and --micro-batches: over how many ranks the model is cut, and into "
                "how many parts the batch"
            )
        if published:
            return by_name(name.lower(), stages, micro_batches, virtual)
        if limit is None:
            raise ValueError("--schedule auto needs --memory-limit: how many live micro-batches a rank has room for")
        from minipar.pipeline.auto import auto

        made = auto(stages, micro_batches, costs, limit)
        _agree(name, {"--virtual": (virtual, made.virtual)})
        return made
    made = read_schedule(name)
    options = {
        "--stages": (stages, made.ranks),
        "--micro-batches": (micro_batches, made.micro_batches),
        "--virtual": (virtual, made.virtual),
    }
    _agree(name, options)
    return made


def _agree(name: str, options: dict[str, tuple[int | None, int]]) -> None:
    for option, (asked, has) in options.items():
        if asked not in (None, has):
            raise ValueError(f"{option} is {asked}, but in {name} it is {has}; leave the option out or change one")


def read_schedule(name: str) -> Schedule:
    """The schedule in a file with one line a rank; blank lines and what follows a # do not count.

    Raises `ValueError` for a file that cannot be read, and `ScheduleError` for what is no schedule.
    """
    path = Path(name)
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise ValueError(f"schedule {name!r} is not a file, nor auto, nor one of {', '.join(NAMES)}") from None
    except OSError as error:
        raise ValueError(f"the schedule {name!r} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ValueError(f"the schedule {name!r} cannot be read: it is not text in UTF-8") from None
    rows = (line.partition("#")[0].strip() for line in text.splitlines())
    return parse([row for row in rows if row], path.name)


def picture(schedule: Schedule, timeline: Timeline) -> str:
    """The timeline as an SVG that brings its own colours."""
    title = _("{schedule}: {ranks}, {micro_batches}").format(
        schedule=schedule.name,
        ranks=plural("{count} rank", "{count} ranks", schedule.ranks),
        micro_batches=plural("{count} micro-batch", "{count} micro-batches", schedule.micro_batches),
    )
    return gantt_svg([Panel(_("predicted"), timeline)], title, _("time, in the unit of the costs"))


def _whole(schedule: Schedule, peaks: tuple[int, ...]) -> list[float]:
    """The micro-batches that each rank holds at most in whole ones: those in one of its v stages count a v-th."""
    counts = zip(peaks, map(schedule.holder.count, range(schedule.ranks)), strict=True)
    return [peak / held if held > 1 else peak for peak, held in counts]


def facts(schedule: Schedule, timeline: Timeline) -> dict[str, Any]:
    """What `--json` prints: times in the unit of the costs, live micro-batches in whole ones."""
    live = _whole(schedule, schedule.peak_live)
    return {
        "schedule": schedule.name,
        "cost": timeline.longest_span,
        "ideal": timeline.busiest,
        "bubble_rate": timeline.bubble_rate,
        "bubble_of_total": timeline.bubble_of_total,
        "bubble_over_ideal": timeline.bubble_over_ideal,
        "duration": timeline.duration,
        "peak_live": max(live),
        "peak_live_per_rank": live,
        "peak_held": max(_whole(schedule, schedule.peak_held)),
        "peak_backlog": max(schedule.peak_backlog),
        "peak_backlog_per_rank": schedule.peak_backlog,
        "ranks": [
            [
                {"kind": kind, "stage": stage, "micro_batch": micro_batch, "start": start, "end": end}
                for _rank, (kind, stage, micro_batch), start, end in row
            ]
            for row in timeline.rows
        ],
    }


def in_numbers(schedule: Schedule, timeline: Timeline, costs: Costs) -> Iterator[tuple[str, str]]:
    """What is printed below the picture: what it is, and its number or a number for each rank."""
    kinds = {action.kind for row in schedule.actions for action in row}
    prices = [f"{kind} {costs.of(Action(kind, 0, 0)):.6g}" for kind in FILL if kind in kinds]
    yield _("costs of a micro-batch in a stage"), ", ".join([*prices, f"send {costs.between(0, 1):.6g}"])
    yield _("bubble: idle time over all time"), percent(timeline.bubble_of_total, 1)
    yield _("bubble: idle time over ideal time"), percent(timeline.bubble_over_ideal, 1)
    yield _("cost: longest from a rank's first start to last end"), f"{timeline.longest_span:.6g}"
    yield _("ideal: the most work that a rank has"), f"{timeline.busiest:.6g}"
    yield _("bubble rate: idle share of the cost"), percent(timeline.bubble_rate, 1)
    live = " ".join(f"{peak:.3g}" for peak in _whole(schedule, schedule.peak_live))
    if schedule.virtual == 1:
        yield _("live micro-batches at most, by rank"), live
    else:
        yield _("live micro-batches at most, stage by stage, by rank"), " ".join(map(str, schedule.peak_live))
        yield _("the same in whole micro-batches"), live
    yield _("weight gradients that wait at most, by rank"), " ".join(map(str, schedule.peak_backlog))
