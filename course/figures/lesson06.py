"""Lesson 06: the bubble measured over its curve, what small pieces cost, what is kept, and what a cut batch changes."""

from __future__ import annotations

import weakref
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType

import torch
from IPython.display import HTML
from torch import Tensor, nn
from torch.autograd.graph import saved_tensors_hooks

from course.widgets.micro_batches import MODEL, bench
from course.widgets.predict import Prediction
from course.widgets.units import bytes_in_words, seconds_in_words
from minipar import Mesh, run
from minipar.draw import FILL
from minipar.draw.bars import Bar, Chart, Part, bars_svg
from minipar.draw.curve import Point, curve_svg
from minipar.draw.frame import WEIGHT_GRADIENT, YELLOW, lighter
from minipar.model import GPT, GPTConfig, token_loss
from minipar.pipeline import Costs, LayerTime, Timeline, gpipe, layer_seconds, simulate
from minipar.pipeline import run as run_step
from minipar.plan import Numbers
from minipar.plan.work import block
from minipar.train import ByteText
from minipar.words import _, plural

PACE = Costs(forward=0.14, backward=0.28)  # seconds of the whole batch in a stage
STAGES = 4
COUNTS = (1, 2, 4, 8, 16)
SIZES = (1, 2, 4, 8, 16, 32)  # samples of a micro-batch
MS = 1000


# The bubble over its curve


def paced_steps(counts: Sequence[int]) -> list[Timeline]:
    """On a rank: a paced step of a small GPT for each number of micro-batches, after one that opens the connections."""
    mesh = Mesh(pp=STAGES)
    stage = mesh.coords.pp
    config = GPTConfig(layers=STAGES, hidden=32, sequence=16)
    model, loss = GPT(config, mesh, range(stage, stage + 1)), token_loss(config, mesh)
    batch = ByteText(None).batch(0, max(counts), config.sequence)
    run_step(gpipe(STAGES, max(counts)), {stage: model}, batch, loss, mesh)
    return [run_step(gpipe(STAGES, m), {stage: model}, batch, loss, mesh, PACE.times(1 / m)).timeline for m in counts]


def measured_bubbles(counts: Sequence[int] = COUNTS) -> dict[int, Timeline]:
    """Run GPipe on four real ranks with so many micro-batches each; the work of the whole batch stays the same."""
    return dict(zip(counts, run(paced_steps, STAGES, tuple(counts), timeout=90)[0], strict=True))


def bubble_curve(measured: Mapping[int, Timeline]) -> HTML:
    """The predicted bubble as a curve over the number of micro-batches, and the measured ones as dots on it."""
    many = range(1, 2 * max(measured) + 1)
    curve = [Point(m, simulate(gpipe(STAGES, m)).bubble_of_total) for m in many]
    dots = [Point(m, timeline.bubble_of_total) for m, timeline in measured.items()]
    title = _("{stages} stages: measured dots on the predicted curve").format(stages=STAGES)
    picture = curve_svg(
        title,
        [(_("predicted: (p − 1) / (m + p − 1)"), curve)],
        (_("measured on real ranks (emulated pace)"), dots),
        _("micro-batches m, and the idle share of all time upwards"),
    )
    return HTML(picture)  # type: ignore[no-untyped-call]


def speedup_table(published: Mapping[tuple[int, int], float]) -> str:
    """Published speeds beside predicted ones, by (stages, micro-batches): against 2 stages with one micro-batch."""
    rows = []
    for (stages, count), speed in published.items():
        timeline = simulate(gpipe(stages, count))
        predicted = timeline.busy / timeline.duration
        rows.append(
            _("{stages} stages, {count:2} micro-batches: predicted {predicted:.1f}, published {speed:.1f}").format(
                stages=stages, count=count, predicted=predicted, speed=speed
            )
        )
    return "\n".join(rows)


TRANSFORMER_48 = {
    (2, 32): 1.8,
    (4, 32): 3.4,
    (8, 32): 6.3,
}
"""GPipe's Transformer-48 on TPUs, against 2 stages with 1 micro-batch. Source: Huang et al. 2019, Table 2."""


# Small pieces


def predict_small(few: int = 1, many: int = 16) -> Prediction:
    """Ask how much longer a sample takes in a small micro-batch on a GPU; then show it by size."""
    each = {size: block(MODEL, Numbers(micro_batch=size), bench()).total / size for size in (1, 2, 4, 8, 16, 32)}
    question = _(
        "A block of a model with 1 billion weights, on an H100, by the planner. Micro-batches have {many} samples of "
        "{tokens:,} tokens; now they get {few}. How many times as long does each sample take?"
    ).format(many=many, few=few, tokens=MODEL.sequence)
    because = _(
        "However small the piece, the host needs {host} to start a block's kernels, forward and backward."
    ).format(host=seconds_in_words(bench().software.launch))
    picture = bars_svg(
        _sample_chart(each, _("milliseconds a sample, forward and backward (predicted)")),
        _("One block on an H100: below some size, a sample takes longer"),
    )
    return Prediction(
        "06-micro-batches/small", question, _("times"), round(each[few] / each[many], 1), because, picture
    )


def block_times(sizes: Sequence[int] = SIZES) -> list[LayerTime]:
    """On a rank: how long a small block takes for micro-batches of so many samples, 16 tokens each."""
    config = GPTConfig(hidden=64, sequence=16, layers=1)
    mesh = Mesh()
    model = GPT(config, mesh)
    one = [_Block(model)]
    return [layer_seconds(one, torch.randn(size, 16, 64, device=mesh.device), repeats=15)[0] for size in sizes]


class _Block(nn.Module):
    """The only block of a model, as a function of features alone."""

    def __init__(self, model: GPT) -> None:
        super().__init__()
        self.block, self.moment = model.blocks["0"], model.moment

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = self.block(x, self.moment)
        return result


def small_pieces(times: Sequence[LayerTime], sizes: Sequence[int] = SIZES) -> HTML:
    """What a sample takes, by the size of its micro-batch."""
    each = {size: time.total / size for size, time in zip(sizes, times, strict=True)}
    title = _("One block on this machine: the smaller the piece, the longer a sample takes")
    return HTML(bars_svg(_sample_chart(each, _("milliseconds a sample, measured")), title))  # type: ignore[no-untyped-call]


def _sample_chart(each: Mapping[int, float], axis: str) -> Chart:
    bars = tuple(
        Bar(plural("{count} sample", "{count} samples", size), (seconds * MS,), seconds_in_words(seconds))
        for size, seconds in each.items()
    )
    return Chart((Part(_("forward and backward"), FILL["F"]),), bars, "ms", axis)


# Memory


class Kept:
    """Counts the bytes that autograd's graph keeps for backwards to come, while it is entered; `most` is their peak.

    A storage counts once, however many tensors are kept of it; parameters, which are there anyway, do not.
    """

    def __init__(self, module: nn.Module) -> None:
        self.parameters = {p.untyped_storage().data_ptr() for p in module.parameters()}
        self.users: Counter[int] = Counter()
        self.now = self.most = 0
        self._hooks = saved_tensors_hooks(self._keep, lambda held: held.tensor)

    def _keep(self, tensor: Tensor) -> _Held:
        held, storage = _Held(tensor), tensor.untyped_storage()
        place, size = storage.data_ptr(), storage.nbytes()
        if place not in self.parameters:
            weakref.finalize(held, self._let_go, place, size)
            self.now += 0 if self.users[place] else size
            self.users[place] += 1
            self.most = max(self.most, self.now)
        return held

    def _let_go(self, place: int, size: int) -> None:
        self.users[place] -= 1
        self.now -= 0 if self.users[place] else size

    def __enter__(self) -> Kept:
        self._hooks.__enter__()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._hooks.__exit__(kind, error, at)


class _Held:
    """A tensor that the graph keeps."""

    def __init__(self, tensor: Tensor) -> None:
        self.tensor = tensor


def stage_of(blocks: int = 4, hidden: int = 32, tokens: int = 16) -> nn.Sequential:
    """A stage: some blocks of a GPT, as functions of features ``[batch, tokens, hidden]``."""
    model = GPT(GPTConfig(hidden=hidden, sequence=tokens, layers=blocks), Mesh())
    layers = []
    for one in model.blocks.values():
        layer = _Block(model)
        layer.block = one
        layers.append(layer)
    return nn.Sequential(*layers)


def gpipe_on_a_stage(stage: nn.Module, batch: Tensor, micro_batches: int, forward: Callable[[Tensor], Tensor]) -> int:
    """Do every forward of a batch, then every backward, and return the most bytes that were kept."""
    with Kept(stage) as kept:
        parts = [part.clone().requires_grad_() for part in batch.chunk(micro_batches)]
        outputs = [forward(part) for part in parts]
        for output in outputs:
            output.backward(torch.ones_like(output))  # type: ignore[no-untyped-call]
    return kept.most


def kept_chart(rows: Mapping[str, Mapping[int, int]]) -> HTML:
    """Bytes that were kept, by what was computed again and by the number of micro-batches."""
    fills = {name: lighter(WEIGHT_GRADIENT, 0.35 * nth) for nth, name in enumerate(rows)}
    parts = tuple(Part(name, fill) for name, fill in fills.items())
    bars = []
    for nth, (name, by_count) in enumerate(rows.items()):
        for count, size in by_count.items():
            sizes = tuple(size / 2**20 if place == nth else 0.0 for place in range(len(rows)))
            label = plural("{count} micro-batch", "{count} micro-batches", count)
            bars.append(Bar(f"{name}, {label}", sizes, bytes_in_words(size)))
    chart = Chart(parts, tuple(bars), "MiB", _("MiB that autograd kept at most, counted on this machine"))
    return HTML(bars_svg(chart, _("GPipe on one stage: what is kept for the backward"), tallest=18))  # type: ignore[no-untyped-call]


def predict_memory(few: int = 4, many: int = 32) -> Prediction:
    """Ask what is left of a rank's activations if the batch is cut finer, with nothing computed again."""
    question = _(
        "GPipe, 4 stages, nothing computed again. You cut the same batch into {many} micro-batches in place of {few}. "
        "How many percent of the activations does a rank still hold at its peak?"
    ).format(few=few, many=many)
    live = {m: max(gpipe(4, m).peak_live) / m for m in (few, many)}
    because = _(
        "Each is an {times:g}th as large, but {times:g} times as many are live, as all forwards come before the first "
        "backward."
    ).format(times=many / few)
    return Prediction("06-micro-batches/memory", question, "%", round(100 * live[many] / live[few]), because)


# What a cut batch changes


def predict_loss(tokens: Sequence[int] = (900, 100), losses: Sequence[float] = (2.0, 6.0)) -> Prediction:
    """Ask for the loss of a batch whose micro-batches differ in size."""
    question = _(
        "Padding leaves {few} tokens that count in one micro-batch and {many} in another. Their mean losses are "
        "{small:g} and {large:g} nats. What is the mean loss of the batch?"
    ).format(few=tokens[0], many=tokens[1], small=losses[0], large=losses[1])
    truth = sum(n * loss for n, loss in zip(tokens, losses, strict=True)) / sum(tokens)
    because = _(
        "Each token counts alike: ({n} · {a:g} + {m} · {b:g}) / {all}. The mean of the means would be {mean:g}."
    ).format(n=tokens[0], m=tokens[1], a=losses[0], b=losses[1], all=sum(tokens), mean=sum(losses) / len(losses))
    parts = (Part(_("large micro-batch"), FILL["F"]), Part(_("small micro-batch"), YELLOW))
    sums = [n * loss for n, loss in zip(tokens, losses, strict=True)]
    bars = (
        Bar(_("by tokens"), tuple(sums), f"{truth:g}"),
        Bar(_("mean of means"), tuple(sum(tokens) / 2 * loss for loss in losses), f"{sum(losses) / 2:g}"),
    )
    chart = Chart(parts, bars, "", _("sum of the losses of {all} tokens").format(all=sum(tokens)))
    picture = bars_svg(chart, _("The mean of means counts a token of the small micro-batch too much"))
    return Prediction("06-micro-batches/loss", question, _("nats"), truth, because, picture)


def predict_norm(micro_batches: int = 4, momentum: float = 0.1) -> Prediction:
    """Ask how far the running mean of a batch norm moves in a step that comes in micro-batches."""
    question = _(
        "A batch norm's running mean moves {share:g} % of the way to a batch's mean in each forward. Now the batch "
        "comes in {count} micro-batches, with about the same mean each. How many percent of the way does it move in a "
        "step?"
    ).format(share=100 * momentum, count=micro_batches)
    truth = 100 * (1 - (1 - momentum) ** micro_batches)
    because = _(
        "{count} forwards are {count} updates: each goes {share:g} % of what is left, 1 − {rest:g}^{count}."
    ).format(count=micro_batches, share=100 * momentum, rest=1 - momentum)
    return Prediction("06-micro-batches/norm", question, "%", round(truth, 1), because)


def relative(got: Tensor, want: Tensor) -> float:
    """The largest difference, over the largest entry of what is wanted."""
    return ((got - want).abs().max() / want.abs().max()).item()
