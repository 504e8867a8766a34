"""Lesson 05: a sample on its way through stages, the naive pipeline, layers that are not alike, and unequal stages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from IPython.display import HTML
from torch import Tensor, nn

from course.widgets.pipeline import micro_batches_in_words, stages_in_words
from course.widgets.predict import Prediction
from course.widgets.stages import MS
from course.widgets.units import seconds_in_words
from minipar import Mesh, run
from minipar.draw import FILL, Panel, gantt_svg, percent
from minipar.draw.bars import Bar, Chart, Part, bars_svg
from minipar.draw.frame import figure
from minipar.model import GPT, GPTConfig, token_loss
from minipar.pipeline import Action, Costs, LayerTime, Schedule, Timeline, even_cuts, gpipe, naive, simulate
from minipar.pipeline import run as run_step
from minipar.plan import model_by_name
from minipar.train import ByteText
from minipar.words import _, plural

WHOLE, MESSAGE = 0.060, 0.002  # seconds: of a sample's forward on one rank, and of a message between two
PACE = Costs(forward=0.06, backward=0.12)  # seconds of a micro-batch in a stage, in a real run
BLOCK, HEAD = 0.010, 0.025  # seconds of a micro-batch's forward in the model that is cut unequally
BLOCKS = 8
LINE = 8  # micro-batches


# One sample


def forwards(stages: int, samples: int) -> Schedule:
    """The forwards of so many samples alone, each stage on its own rank."""
    rows = tuple(tuple(Action("F", stage, i) for i in range(samples)) for stage in range(stages))
    return Schedule("forwards", rows, tuple(range(stages)))


def predict_one_sample(stages: int = 4) -> Prediction:
    """Ask how long one sample is on its way through stages; then show it beside one rank."""
    alone = simulate(forwards(1, 1), Costs(forward=WHOLE))
    cut = simulate(forwards(stages, 1), Costs(forward=WHOLE / stages, send=MESSAGE))
    question = _(
        "One rank needs {whole:g} ms to run a model forward on one sample. Cut into {stages} equal stages on as many "
        "ranks, a message to the next takes {message:g} ms. After how many milliseconds is the result there?"
    ).format(whole=WHOLE * MS, stages=stages, message=MESSAGE * MS)
    because = _("Every layer still comes after the one before it. The work is as long, and {count} messages are added.")
    panels = [Panel(_("whole, on one rank"), alone), Panel(stages_in_words(stages), cut)]
    picture = gantt_svg(panels, _("One sample: stages take turns"), _("time in milliseconds"), scale=MS)
    truth = round(cut.duration * MS, 1)
    return Prediction("05-stages/one-sample", question, "ms", truth, because.format(count=stages - 1), picture)


def many_samples(stages: int = 4, samples: int = 12) -> HTML:
    """The same for many samples, one behind the other: how many come out in a second, and after how long each."""
    costs = Costs(forward=WHOLE / stages, send=MESSAGE)
    line = simulate(forwards(stages, samples), costs)
    alone = simulate(forwards(1, samples), Costs(forward=WHOLE))
    panels = [Panel(_("whole, on one rank"), alone), Panel(stages_in_words(stages), line)]
    title = _("{count} samples, one behind the other: the line is {times:.1f} times as fast").format(
        count=samples, times=alone.duration / line.duration
    )
    return HTML(gantt_svg(panels, title, _("time in milliseconds"), scale=MS))  # type: ignore[no-untyped-call]


# There and back


def largest_error(parts: Sequence[Mapping[str, Tensor]], whole: Mapping[str, Tensor]) -> float:
    """The largest difference of any gradient of the stages from the whole model's, over that one's largest entry."""
    joined = {name: gradient for part in parts for name, gradient in part.items()}
    assert joined.keys() == whole.keys(), "the stages do not make up the whole model"
    errors = ((joined[name] - g).abs().max() / g.abs().max() for name, g in whole.items())
    return max(error.item() for error in errors)


def paced(schedule: Schedule, cuts: Sequence[range], pace: Costs) -> Timeline:
    """On a rank: one paced step of a small GPT cut so, after one as fast as it goes, which opens the connections."""
    mesh = Mesh(pp=len(cuts))
    stage = mesh.coords.pp
    config = GPTConfig(layers=cuts[-1].stop, hidden=32, sequence=32)
    model = GPT(config, mesh, cuts[stage])
    batch = ByteText(None).batch(0, schedule.micro_batches, config.sequence)
    loss = token_loss(config, mesh)
    run_step(schedule, {stage: model}, batch, loss, mesh)
    return run_step(schedule, {stage: model}, batch, loss, mesh, pace).timeline


def naive_on_real_ranks(stages: int = 4, micro_batches: int = 2) -> HTML:
    """Run a GPT in stages, one micro-batch there and back before the next, and show it below the prediction."""
    schedule = naive(stages, micro_batches)
    measured = run(paced, stages, schedule, even_cuts(stages, stages), PACE, timeout=60)[0]
    panels = [
        Panel(_("predicted"), simulate(schedule, PACE)),
        Panel(_("measured on real processes (emulated pace)"), measured),
    ]
    title = _("The naive pipeline: {stages}, {micro_batches}").format(
        stages=stages_in_words(stages), micro_batches=micro_batches_in_words(micro_batches)
    )
    return HTML(gantt_svg(panels, title, _("time in milliseconds"), scale=MS))  # type: ignore[no-untyped-call]


# Layers that are not alike


def predict_head(name: str = "llama3-8b") -> Prediction:
    """Ask how many blocks' arithmetic the head is worth; then show block and head."""
    model = model_by_name(name)
    blocks = model.head_flops / model.block_flops
    question = _(
        "Llama 3 8B has {layers} blocks and a head that compares {hidden:,} features with {vocabulary:,} tokens. The "
        "head is one matrix. How many blocks' arithmetic does it take? (0.5 would be half a block.)"
    ).format(layers=model.layers, hidden=model.hidden, vocabulary=model.vocabulary)
    because = _("A block does {block:.2f} billion operations for a token, the head {head:.2f} billion.").format(
        block=model.block_flops / 1e9, head=model.head_flops / 1e9
    )
    operations = [(_("embedding"), 0.0), (_("one block"), model.block_flops), (_("head"), model.head_flops)]
    bars = tuple(Bar(label, (count / 1e9,), figure(count / 1e9)) for label, count in operations)
    axis = _("billion operations forward for a token (the embedding looks a row up)")
    chart = Chart((Part(_("operations"), FILL["F"]),), bars, "", axis)
    picture = bars_svg(chart, _("Llama 3 8B: the last layer is not like the others"))
    return Prediction("05-stages/head", question, _("blocks"), round(blocks, 1), because, picture)


class Bound(nn.Module):
    """A layer of a GPT as a function of its input alone, as it stands in a chain."""

    def __init__(self, layer: nn.Module, *more: object) -> None:
        super().__init__()
        self.layer, self.more = layer, more

    def forward(self, x: Tensor) -> Tensor:
        """What the layer makes of it."""
        result: Tensor = self.layer(x, *self.more)
        return result


def chain(model: GPT) -> list[nn.Module]:
    """A whole model as a chain of layers: the embedding, every block, the head."""
    assert model.embedding is not None
    assert model.head is not None
    blocks = (Bound(block, model.moment) for block in model.blocks.values())
    return [Bound(model.embedding, model.moment), *blocks, Bound(model.head)]


def layer_times(times: Sequence[LayerTime]) -> HTML:
    """How long each layer of such a chain took."""
    middle = [_("block {number}").format(number=number) for number in range(len(times) - 2)]
    labels = [_("embedding"), *middle, _("head")]
    bars = tuple(
        Bar(label, (t.forward * MS, t.backward * MS), seconds_in_words(t.total))
        for label, t in zip(labels, times, strict=True)
    )
    kinds = (Part(_("forward"), FILL["F"]), Part(_("backward"), FILL["B"]))
    chart = Chart(kinds, bars, "ms", _("milliseconds, measured on this machine"))
    return HTML(bars_svg(chart, _("Each layer by itself: the ends are not like the middle")))  # type: ignore[no-untyped-call]


# Unequal stages


def stage_costs(cuts: Sequence[range]) -> Costs:
    """Seconds of a micro-batch in each stage of the model whose head takes 2.5 blocks."""
    forward = [len(cut) * BLOCK for cut in cuts]
    forward[-1] += HEAD
    return Costs(forward=forward, backward=[2 * seconds for seconds in forward])


def predict_unequal(stages: int = 4, micro_batches: int = LINE) -> Prediction:
    """Ask for the idle share of a line whose stages have as many blocks each; then show it below one of equals."""
    cuts = even_cuts(BLOCKS, stages)
    costs = stage_costs(cuts)
    found = simulate(gpipe(stages, micro_batches), costs)
    mean = (BLOCKS * BLOCK + HEAD) / stages
    equal = simulate(gpipe(stages, micro_batches), Costs(forward=mean, backward=2 * mean))
    question = _(
        "{blocks} blocks of {block:g} ms and a head of {head:g} ms, forward. {stages} with {each} blocks each, so the "
        "last has the head besides. {micro_batches} follow each other. Equal stages would be idle {equal} of the "
        "time. And these?"
    ).format(
        blocks=BLOCKS,
        block=BLOCK * MS,
        head=HEAD * MS,
        stages=stages_in_words(stages),
        each=BLOCKS // stages,
        micro_batches=micro_batches_in_words(micro_batches),
        equal=percent(equal.bubble_of_total),
    )
    because = _(
        "The last stage takes {slow:g} ms, the others {fast:g} ms. They wait for it, micro-batch by micro-batch."
    )
    forward = [len(cut) * BLOCK * MS for cut in cuts]
    panels = [Panel(_("all stages equal"), equal), Panel(_("as many blocks in each"), found)]
    picture = gantt_svg(panels, _("The line waits for its slowest stage"), _("time in milliseconds"), scale=MS)
    says = because.format(slow=forward[-1] + HEAD * MS, fast=forward[0])
    return Prediction("05-stages/unequal", question, "%", round(100 * found.bubble_of_total, 1), says, picture)


def stages_on_real_ranks(cuts: Mapping[str, Sequence[range]], micro_batches: int = LINE) -> HTML:
    """Run the line for each named cut of the model's blocks, and show each below what was predicted."""
    panels = []
    for name, cut in cuts.items():
        schedule, costs = gpipe(len(cut), micro_batches), stage_costs(cut)
        measured = run(paced, len(cut), schedule, tuple(cut), costs, timeout=60)[0]
        panels.append(Panel(_("{cut}, predicted").format(cut=name), simulate(schedule, costs)))
        panels.append(Panel(_("{cut}, measured (emulated pace)").format(cut=name), measured))
    title = _("The same layers on the same ranks: only the cut differs")
    return HTML(gantt_svg(panels, title, _("time in milliseconds"), scale=MS))  # type: ignore[no-untyped-call]


def measured_cut(times: Sequence[LayerTime], cuts: Sequence[range]) -> str:
    """A cut of a chain in words: the layers of each stage, and how long each takes."""
    rows = []
    for stage, cut in enumerate(cuts):
        seconds = sum(times[layer].total for layer in cut)
        layers = plural("{count} layer", "{count} layers", len(cut))
        rows.append(_("stage {number}: {layers}, {time}").format(
            number=stage, layers=layers, time=seconds_in_words(seconds)
        ))  # fmt: skip
    return "\n".join(rows)


def head_in_blocks(name: str) -> tuple[float, float]:
    """Of a published model: the head's arithmetic and the embedding's weights, both in blocks."""
    model = model_by_name(name)
    return model.head_flops / model.block_flops, model.vocabulary_weights() / model.block_weights()


def gradients(model: nn.Module) -> dict[str, Tensor]:
    """A model's gradients by name, on the processor."""
    return {name: p.grad.detach().cpu() for name, p in model.named_parameters() if p.grad is not None}


def tokens(samples: int, length: int, vocabulary: int) -> Tensor:
    """Tokens of no meaning, the same every time."""
    return torch.randint(0, vocabulary, (samples, length), generator=torch.Generator().manual_seed(0))
