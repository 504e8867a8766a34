"""The block explorer: a transformer block over tensor ranks, where they talk, and what each sends and keeps."""

from __future__ import annotations

from course.widgets.explorer import Control, Explorer, View
from course.widgets.units import bytes_in_words
from minipar.draw.block import Box, Half, Talk, block_svg
from minipar.ledger import Traffic
from minipar.plan import Model, Numbers, model_by_name
from minipar.plan.activations import kept, unfused
from minipar.words import _, plural

MODELS = ("gpt-1.7b", "gpt-22b", "gpt3-175b")
DEGREES = (1, 2, 4, 8)
HALF = 2  # bytes of a number


def sent(model: Model, tp: int, sequence_parallel: bool) -> tuple[float, float]:
    """Bytes that each rank sends for one block and one sequence: in the forward, and in the backward.

    Two all-reduces of the features each; or two all-gathers and two reduce-scatters. Then the backward gathers the
    inputs of the column splits again, as a rank keeps its own tokens alone (Korthikanti et al. 2022, §4.2.2), and
    sums the gradients of what works on tokens: two norms and the biases of two row splits, six numbers a feature.
    """

    def wire(operation: str, calls: int, numbers: int) -> float:
        return Traffic(operation, "tp", tp, calls, calls * HALF * numbers).sent

    features = model.sequence * model.hidden
    if not sequence_parallel:
        return wire("all-reduce", 2, features), wire("all-reduce", 2, features)
    both = wire("all-gather", 2, features) + wire("reduce-scatter", 2, features)
    return both, both + wire("all-gather", 2, features) + wire("all-reduce", 1, 6 * model.hidden)


def activations(model: Model, tp: int, sequence_parallel: bool) -> float:
    """Bytes that a rank keeps of one block for one sequence: in half precision, without fused attention."""
    layout = Numbers(tp=tp, sequence_parallel=sequence_parallel and tp > 1)
    return model.sequence * kept(unfused(model), layout, HALF * model.hidden)


def halves(tp: int, sequence_parallel: bool) -> list[Half]:
    """Attention and feed-forward, step by step."""
    apart = "tokens" if sequence_parallel and tp > 1 else ""
    if tp == 1:
        f, g = Talk("f", "", ""), Talk("g", "", "")
    elif sequence_parallel:
        gather, scatter = _("all-gather"), _("reduce-scatter")
        f, g = Talk("f", gather, scatter), Talk("g", scatter, gather)
    else:
        f, g = Talk("f", "", _("all-reduce")), Talk("g", _("all-reduce"), "")
    inner = {
        _("attention"): (_("to q, k, v"), _("heads"), _("projection")),
        _("feed-forward"): (_("up"), _("GELU"), _("down")),
    }
    before, after = Box(_("norm"), apart), Box(_("dropout, sum"), apart)
    return [
        Half(half, (before, f, *(Box(name, "features") for name in names), g, after)) for half, names in inner.items()
    ]


def look(model: int, tp: int, sequence: int) -> View:
    """The picture and the numbers for these positions of the sliders."""
    sizes, n = model_by_name(MODELS[model]), DEGREES[tp]
    title = _("A block of {model} over {ranks}").format(
        model=MODELS[model], ranks=plural("{count} rank", "{count} ranks", n)
    )
    here, alone = activations(sizes, n, bool(sequence)), activations(sizes, 1, False)
    forward, backward = sent(sizes, n, bool(sequence))
    facts = (
        (_("weights on a rank"), bytes_in_words(HALF * sizes.block_weights(n))),
        (_("each rank sends for a sequence, forward"), bytes_in_words(forward)),
        (_("and backward"), bytes_in_words(backward)),
        (
            _("a rank keeps for the backward"),
            _("{size}, {share:.0f} % of one rank alone").format(size=bytes_in_words(here), share=100 * here / alone),
        ),
    )
    return View(block_svg(title, halves(n, bool(sequence)), n), facts)


def block(model: str = "gpt-22b", tp: int = 4) -> Explorer:
    """Sliders for the model, the tensor ranks and sequence parallelism over the picture of a block."""
    return Explorer(
        (
            Control("model", _("Model"), 0, len(MODELS) - 1, MODELS.index(model), names=MODELS),
            Control("tp", _("Tensor ranks"), 0, len(DEGREES) - 1, DEGREES.index(tp), names=tuple(map(str, DEGREES))),
            Control("sequence", _("Sequence parallelism"), 0, 1, 0, names=(_("off"), _("on"))),
        ),
        look,
    )
