"""`minipar bench`: how fast, beside PyTorch's own."""

from __future__ import annotations

import json
from dataclasses import asdict

import typer
from rich.console import Console
from rich.table import Table

from minipar.commands.common import Json, clear_errors

bench_command = typer.Typer(
    help="Speed as a ratio, both sides in the same run.", no_args_is_help=True, add_completion=False
)


@bench_command.command("tensor")
def bench_tensor(as_json: Json = False) -> None:
    """Time a split feed-forward and block, forward and backward, beside torch.distributed.tensor.parallel."""
    from minipar.bench import tensor  # PyTorch's own tensor parallelism takes a second to import

    with clear_errors():
        rows = tensor.bench()
    ratio = tensor.geomean_ratio(rows)
    if as_json:
        print(json.dumps({"rows": [asdict(row) | {"ratio": row.ratio} for row in rows], "geomean_ratio": ratio}))
        return
    table = Table(
        "model", "size", "tp", "unsplit", "minipar", "torch", "ratio", title="batch×seq×hidden, forward + backward"
    )
    for row in rows:
        size = f"{row.batch}×{row.sequence}×{row.hidden}"
        times = (f"{s * 1e3:.1f} ms" for s in (row.unsplit_seconds, row.minipar_seconds, row.torch_seconds))
        table.add_row(row.model, size, str(row.tp), *times, f"{row.ratio:.2f}")
    Console().print(table)
    Console().print(f"geometric mean of minipar ÷ torch: {ratio:.2f}")


@bench_command.command("pipeline")
def bench_pipeline(as_json: Json = False) -> None:
    """Time every schedule that torch.distributed.pipelining has too, beside it and beside the ideal."""
    from minipar.bench import pipeline

    with clear_errors():
        rows = pipeline.bench()
    ratio, headline = pipeline.geomean_ratio(rows), pipeline.geomean_ratio(rows, pipeline.HEADLINE)
    over_ideal = pipeline.measured_over_ideal(rows)
    if as_json:
        facts = {"geomean_ratio": headline, "geomean_ratio_of_all": ratio, "measured_over_ideal": over_ideal}
        more = [{"ratio": row.ratio, "over_ideal": row.over_ideal} for row in rows]
        print(json.dumps({"rows": [asdict(row) | m for row, m in zip(rows, more, strict=True)], **facts}))
        return
    title = f"pp={pipeline.RANKS}, {pipeline.MICRO_BATCHES} micro-batches of samples×seq×hidden, one step"
    table = Table("schedule", "size", "ideal", "minipar", "torch", "ratio", "over ideal", title=title)
    for row in rows:
        size = f"{row.samples}×{row.sequence}×{row.hidden}"
        times = (f"{s * 1e3:.1f} ms" for s in (row.ideal_seconds, row.minipar_seconds, row.torch_seconds))
        table.add_row(row.schedule, size, *times, f"{row.ratio:.2f}", f"{row.over_ideal:.2f}")
    Console().print(table)
    Console().print(
        f"geometric mean of minipar ÷ torch: {headline:.2f} for {' and '.join(pipeline.HEADLINE)}, {ratio:.2f} for all"
    )
    Console().print(f"minipar ÷ ideal at the largest size, {' and '.join(pipeline.HEADLINE)}: {over_ideal:.2f}")


@bench_command.command("train")
def bench_train(as_json: Json = False) -> None:
    """Time training steps on two ranks, cut each of three ways, beside one rank and beside PyTorch's DDP."""
    from minipar.bench import train

    with clear_errors():
        rows = train.bench()
    ratios = train.over_ddp(rows)
    if as_json:
        print(json.dumps({"rows": [asdict(row) for row in rows], "over_ddp": ratios}))
        return
    table = Table("model", "dp×pp×tp", "step", "tokens/s", "beside one rank", title=f"{train.BATCH} samples a step")
    for row in rows:
        step, tokens = f"{row.seconds * 1e3:.1f} ms", f"{row.tokens_per_second:,.0f}"
        table.add_row(row.model, row.layout, step, tokens, f"{row.over_one_rank:.2f}")
    Console().print(table)
    for model, ratio in ratios.items():
        Console().print(f"two replicas ÷ DDP, {model}: {ratio:.2f}")


@bench_command.command("plan")
def bench_plan(as_json: Json = False) -> None:
    """Profile this machine, predict six layouts of two ranks, run them, and compare the order."""
    from minipar.bench import plan

    with clear_errors():
        rows = plan.bench()
    right, apart = plan.in_order(rows)
    if as_json:
        facts = [
            {"layout": str(row.layout), "predicted_seconds": row.predicted, "measured_seconds": row.measured}
            for row in rows
        ]
        print(json.dumps({"rows": facts, "pairs_apart": apart, "pairs_in_order": right}))
        return
    table = Table("layout", "predicted", "measured", "ratio", title="a step of the demo GPT, 16 samples, two ranks")
    for row in sorted(rows, key=lambda row: row.measured):
        times = (f"{seconds * 1e3:.1f} ms" for seconds in (row.predicted, row.measured))
        table.add_row(str(row.layout), *times, f"{row.predicted / row.measured:.2f}")
    Console().print(table)
    Console().print(f"of {apart} pairs that differ by more than {plan.APART - 1:.0%}, {right} are in predicted order")
