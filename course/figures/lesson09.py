"""Lesson 09: where the planner was right and where it was not, six layouts on this machine, and what a run costs."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from IPython.display import HTML

from course.figures.grid import Cell, cell, grid
from course.widgets.predict import Prediction
from minipar.bench.plan import APART, Row, in_order
from minipar.draw import seconds_svg
from minipar.draw.bars import Bar, Chart, Part, bars_svg
from minipar.draw.frame import COMMUNICATION, FORWARD, INPUT_GRADIENT, figure, percent
from minipar.model import GPTConfig
from minipar.plan import Prediction as Predicted
from minipar.plan.machine import Machine
from minipar.plan.profile import profile
from minipar.words import _

SAID, DONE = "#999999", FORWARD


def parts_of(predictions: Sequence[Predicted], title: str) -> HTML:
    """Where the seconds of some layouts go, a bar for each."""
    return HTML(seconds_svg([(str(one.layout), one) for one in predictions], title))  # type: ignore[no-untyped-call]


def measure_machine(config: GPTConfig, ranks: int = 2, notice: Callable[[str], None] = print) -> Machine:
    """A short profile of this machine for one model: some seconds where `minipar profile` takes a minute."""
    return profile(config, ranks, sizes=(1, 2, 8), rounds=2, notice=notice, twice=False)


def beside(rows: Sequence[Row]) -> HTML:
    """Predicted and measured steps of some layouts, fastest first as predicted, and how many pairs are in order."""
    parts = Part(_("predicted"), SAID), Part(_("measured"), DONE)
    bars = []
    for row in sorted(rows, key=lambda row: row.predicted):
        said, done = 1e3 * row.predicted, 1e3 * row.measured
        bars.append(Bar(str(row.layout), (said, 0.0), f"{figure(said)} ms"))
        bars.append(Bar(_("measured"), (0.0, done), f"{figure(done)} ms"))
    right, pairs = in_order(rows)
    title = _("{right} of {pairs} pairs are in the predicted order").format(right=right, pairs=pairs)
    words = _("milliseconds of a step (pairs less than {share} apart are not counted)").format(share=percent(APART - 1))
    return HTML(bars_svg(Chart(parts, tuple(bars), _("ms"), words), title))  # type: ignore[no-untyped-call]


def name(one: Cell) -> str:
    """A cell in words."""
    return _("{size} on {gpus} GPUs").format(size=one.size, gpus=8 * one.nodes)


def predict_choice() -> Prediction:
    """Ask how often the planner's first choice was the fastest; then show what share of the best it reached."""
    cells = grid()
    shares = {one: one.share(one.chosen) for one in cells}
    right = sum(share == 1 for share in shares.values())
    runs = sum(len(one.runs) for one in cells)
    question = _(
        "{runs:,} runs were measured on H100s, in {cells} cells: a model of 1 or 8 billion weights on 8 to 512 GPUs. "
        "In each cell the planner names the layout that it expects to be fastest. In how many is it really the fastest?"
    ).format(runs=runs, cells=len(cells))
    middle = sorted(shares.values())[len(shares) // 2]
    because = _(
        "In half of the cells its choice reached {middle} or more of the best speed, in the worst {worst}."
    ).format(middle=percent(middle), worst=percent(min(shares.values())))
    parts = Part(_("the best"), SAID), Part(_("close"), DONE), Part(_("not close"), INPUT_GRADIENT)
    bars = []
    for one, share in shares.items():
        kind = 0 if share == 1 else 1 if share >= 0.9 else 2
        sizes = tuple(100 * share if nth == kind else 0.0 for nth in range(3))
        bars.append(Bar(name(one), sizes, percent(share)))
    chart = Chart(parts, tuple(bars), "%", _("% of the fastest run's speed that the planner's first choice reached"))
    picture = bars_svg(chart, _("Right or close in most cells, and far off in a few"))
    return Prediction("09-layout/choice", question, _("cells"), right, because, picture)


def predict_cost() -> Prediction:
    """Ask what the run with the higher MFU costs; then show MFU and tokens beside each other."""
    runs = cell("1B", 1).runs
    high, best = max(runs, key=lambda run: run.mfu), cell("1B", 1).best
    question = _(
        "Two runs of one 1B model on the same 8 H100s. A states an MFU of {high} %, B of {low} %. For the same tokens, "
        "how many percent more GPU-hours does A need than B? (Fewer: a number below 0.)"
    ).format(high=high.mfu, low=best.mfu)
    because = _(
        "A gets {a:,.0f} tokens a second through a GPU, B {b:,.0f}. A has two stages, and its MFU counts the tied "
        "embedding twice, once on each. That makes the count of operations larger, not the step faster."
    ).format(a=high.tokens, b=best.tokens)
    parts = Part(_("MFU in %"), COMMUNICATION), Part(_("thousand tokens a second and GPU"), DONE)
    bars = [
        Bar(_("A: MFU"), (high.mfu, 0.0), f"{high.mfu} %"),
        Bar(_("B: MFU"), (best.mfu, 0.0), f"{best.mfu} %"),
        Bar(_("A: speed"), (0.0, high.tokens / 1e3), f"{high.tokens:,.0f}"),
        Bar(_("B: speed"), (0.0, best.tokens / 1e3), f"{best.tokens:,.0f}"),
    ]
    chart = Chart(parts, tuple(bars), "", _("MFU in %, and thousands of tokens a second of one GPU"))
    picture = bars_svg(chart, _("The higher MFU is the slower run"))
    more = round(100 * (best.tokens / high.tokens - 1), 1)
    return Prediction("09-layout/cost", question, "%", more, because, picture)
