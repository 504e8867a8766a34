"""Lesson 08: what each axis of a mesh sends, where its ranks lie, and a real step on links that are fast and slow."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from IPython.display import HTML

from course.widgets.mesh import ORDERS, SAMPLES, coordinates, group, orders, seconds_of, traffic
from course.widgets.predict import Prediction
from course.widgets.units import bytes_in_words, seconds_in_words
from minipar import Mesh
from minipar.draw.bars import Bar, Chart, Part, bars_svg
from minipar.draw.frame import figure, percent
from minipar.draw.mesh import AXES
from minipar.layout import Layout
from minipar.links import Link, Links
from minipar.mesh import Coords, rank_of
from minipar.model import GPTConfig
from minipar.pipeline import Costs, simulate
from minipar.plan import Bench, Model, Numbers, hardware_by_name, predict
from minipar.plan.generations import MEGATRON_2021
from minipar.recompute import Recompute
from minipar.words import _

GIB, WORK = 2**30, "#999999"
LARGE = {"dp": 2, "pp": 2, "tp": 8}
"""The mesh of 32 GPUs that the lesson weighs."""

OUT_OF_A_NODE = {2: 14167.25, 4: 13460.16, 8: 10888.53, 16: 6159.30, 32: 3609.73}
"""Tokens a second that one H100 got through, by tp: a 3B model with sequence parallelism, on nodes of 8.

Source: Ultra-Scale Playbook (Hugging Face 2025), the data of its figure on scaling of TP and SP.
"""


def axis_parts() -> tuple[Part, ...]:
    """The axes of a mesh as parts of a bar, each in its colour."""
    return tuple(Part(axis, AXES[axis]) for axis in ("tp", "pp", "dp"))


def predict_traffic() -> Prediction:
    """Ask how much more the tensor axis sends than the replicas; then show all three."""
    sent = {axis: traffic(axis, LARGE)[0] for axis in ("tp", "pp", "dp")}
    question = _(
        "A GPT of 22 billion weights on dp=2 × pp=2 × tp=8, {samples} samples a step. In dp a GPU sends the gradients "
        "of all its weights. How many times as many bytes does it send in tp?"
    ).format(samples=SAMPLES)
    because = _("In a step a GPU sends {tp} in tp, {dp} in dp and {pp} in pp.").format(
        **{axis: bytes_in_words(size) for axis, size in sent.items()}
    )
    bars = [
        Bar(axis, tuple(size / GIB if axis == other else 0.0 for other in sent), bytes_in_words(size))
        for axis, size in sent.items()
    ]
    chart = Chart(axis_parts(), tuple(bars), _("GiB"), _("GiB that a GPU sends in a step"))
    picture = bars_svg(chart, _("tp sends most by far, pp least"))
    return Prediction("08-mesh/traffic", question, _("times"), round(sent["tp"] / sent["dp"], 1), because, picture)


def predict_leaving() -> Prediction:
    """Ask what is left of a GPU's speed once its tensor group leaves the node; then show what was measured."""
    left = 100 * OUT_OF_A_NODE[16] / OUT_OF_A_NODE[8]
    question = _(
        "Nodes of 8 GPUs. With tp=8 a GPU gets through {speed:,.0f} tokens a second. "
        "With tp=16 a tensor group needs two nodes. How much of that speed is left?"
    ).format(speed=OUT_OF_A_NODE[8])
    because = _("From tp=4 to tp=8, inside a node, {share} were left. The step out of the node costs far more.").format(
        share=percent(OUT_OF_A_NODE[8] / OUT_OF_A_NODE[4])
    )
    parts = (Part(_("inside a node"), AXES["tp"]), Part(_("over several nodes"), AXES["tp"], hatched=True))
    bars = [
        Bar(f"tp={tp}", (speed, 0.0) if tp <= 8 else (0.0, speed), f"{speed:,.0f}")
        for tp, speed in OUT_OF_A_NODE.items()
    ]
    chart = Chart(parts, tuple(bars), _("tokens"), _("tokens a second of one GPU"))
    picture = bars_svg(chart, _("Measured on H100s: beyond 8 ranks, tp leaves the node"))
    return Prediction("08-mesh/leaving", question, "%", round(left, 1), because, picture)


def predict_order() -> Prediction:
    """Ask what it costs to put dp beside each other in place of tp; then show the time on links for three orders."""
    found = {order: on_links(LARGE, order) for order in ORDERS}
    totals = {order: sum(parts.values()) for order, parts in found.items()}
    question = _(
        "The same 32 H100s, the same cuts, the same bytes. Now GPUs beside each other are replicas, and tp goes over "
        "the nodes. How many times as long are a GPU's links busy in a step?"
    )
    because = _("{fast} with tp innermost, {slow} with dp innermost.").format(
        fast=seconds_in_words(totals[ORDERS[0]]), slow=seconds_in_words(totals[ORDERS[1]])
    )
    bars = [
        Bar(name, tuple(found[order][part.name] for part in axis_parts()), seconds_in_words(totals[order]))
        for name, order in zip(orders(), ORDERS, strict=True)
    ]
    chart = Chart(axis_parts(), tuple(bars), _("s"), _("seconds of a step in which a GPU's links are busy"))
    picture = bars_svg(chart, _("Whichever axis is innermost gets the fast links"))
    ratio = round(totals[ORDERS[1]] / totals[ORDERS[0]], 1)
    return Prediction("08-mesh/order", question, _("times"), ratio, because, picture)


def on_links(sizes: Mapping[str, int], order: tuple[str, ...]) -> dict[str, float]:
    """Seconds of a step that each axis's messages take, as the mesh explorer counts them."""
    return {axis: seconds_of(axis, dict(sizes), group(axis, dict(sizes), order)) for axis in ("tp", "pp", "dp")}


@dataclass(frozen=True)
class Placed(Links):
    """Links of ranks whose places are chosen: `places` has each rank's, and nodes are filled in their order."""

    places: tuple[int, ...] = ()

    def of(self, source: int, to: int) -> Link:
        """The link between two ranks, wherever they are."""
        return super().of(self.places[source], self.places[to])


@dataclass(frozen=True)
class Linked(Layout):
    """A layout whose ranks talk over emulated links."""

    links: Links | None = None

    def mesh(self) -> Mesh:
        """The mesh, on a rank."""
        return Mesh(self.dp, self.pp, self.tp, self.links)


def linked(layout: Layout, order: Sequence[str], inside: Link, between: Link, ranks_per_node: int = 2) -> Linked:
    """The layout with its ranks laid onto nodes in this order of the axes, the innermost first."""
    sizes = {"dp": layout.dp, "pp": layout.pp, "tp": layout.tp}
    places = [0] * layout.ranks
    for place in range(layout.ranks):
        places[rank_of(Coords(**coordinates(place, sizes, tuple(order))), layout.dp, layout.tp)] = place
    links = Placed(inside, between, ranks_per_node, tuple(places))
    return Linked(layout.schedule, layout.dp, layout.tp, links=links)


def seconds_of_links(layout: Linked, config: GPTConfig, batch: int) -> dict[str, float]:
    """Seconds that a step of `minipar train` waits for its links, by axis.

    An action of a stage has two all-reduces a block; the schedule is simulated with them and with its messages; the
    gradients' sum, in float32, comes after it.
    """
    assert layout.links is not None
    links, stages = layout.links, layout.schedule.stages
    micro_batch = batch // layout.dp // layout.schedule.micro_batches
    features = 4 * micro_batch * config.sequence * config.hidden
    own, blocks = Coords(0, 0, 0), config.layers // stages

    def ring(axis: str, size: int, bytes_reduced: float) -> float:
        ranks = [rank_of(own._replace(**{axis: i}), layout.dp, layout.tp) for i in range(size)]
        if size == 1:
            return 0.0
        return links.collective(ranks, 2 * (size - 1) / size * bytes_reduced, 2 * (size - 1))

    action = 2 * blocks * ring("tp", layout.tp, features)
    ends = [rank_of(own._replace(pp=i), layout.dp, layout.tp) for i in range(min(2, layout.pp))]
    send = links.of(ends[0], ends[-1]).seconds(features)
    alone = simulate(layout.schedule, Costs(action, action)).duration
    whole = simulate(layout.schedule, Costs(action, action, send)).duration
    sizes = Model(config.layers, config.hidden, config.heads, config.vocabulary, config.sequence, qkv_bias=False)
    weights = blocks * sizes.block_weights(layout.tp) + sizes.vocabulary_weights(layout.tp)
    return {"tp": alone, "pp": whole - alone, "dp": ring("dp", layout.dp, 4 * weights)}


def beside(
    measured: Mapping[str, float], layouts: Mapping[str, Linked], config: GPTConfig, batch: int, alone: float
) -> HTML:
    """Steps on emulated links: what was predicted by part, and below it what was measured.

    alone: seconds of the step where links take no time; it is measured, and the prediction begins with it.
    """
    parts = (Part(_("the step without links"), None), *axis_parts(), Part(_("measured"), WORK))
    bars = []
    for axis, layout in layouts.items():
        by_axis = seconds_of_links(layout, config, batch)
        predicted, real = alone + sum(by_axis.values()), measured[axis]
        sizes = tuple(by_axis[part.name] for part in axis_parts())
        name = _("{axis} inside: predicted").format(axis=axis)
        bars.append(Bar(name, (alone, *sizes, 0.0), seconds_in_words(predicted)))
        bars.append(Bar(_("measured"), (0.0, 0.0, 0.0, 0.0, real), seconds_in_words(real)))
    first = min(measured.values())
    title = _("One mesh, three placements: {slow} times as long at worst").format(
        slow=figure(max(measured.values()) / first)
    )
    chart = Chart(parts, tuple(bars), _("s"), _("seconds of a step (links are emulated)"))
    return HTML(bars_svg(chart, title))  # type: ignore[no-untyped-call]


def tensor_or_pipeline(batch: int = 32) -> HTML:
    """Predict Megatron's experiment of 2021 (§5.4.1): 64 A100s, 162 billion weights, tp against pp."""
    model = Model(layers=32, hidden=20480, heads=128, vocabulary=51200, sequence=2048)
    bench = Bench(hardware_by_name("a100-80gb"), MEGATRON_2021)
    found = {}
    for tp in (2, 4, 8, 16, 32):
        layout = Numbers(1, 64 // tp, tp, 1, batch, recompute=Recompute.FULL)
        found[layout] = predict(model, layout, bench)
    times = {layout: one.time for layout, one in found.items()}
    parts = (
        Part(_("work"), WORK),
        Part(_("waiting for tp"), AXES["tp"]),
        Part(_("bubble and messages of pp"), AXES["pp"]),
    )
    bars = []
    for layout, time in times.items():
        waiting = time.bubble + time.messages
        links = 1.5 * time.links  # as in forward and backward, and half of it again where a forward is repeated
        label = f"tp={layout.tp} pp={layout.pp}"
        sizes = (time.total - waiting - links, links, waiting)
        bars.append(Bar(label, sizes, f"{figure(time.total)} s"))
    best = min(times, key=lambda layout: times[layout].total)
    title = _("Predicted for 64 A100s in nodes of 8: tp={tp} is fastest").format(tp=best.tp)
    return HTML(bars_svg(Chart(parts, tuple(bars), _("s"), _("seconds of a step")), title))  # type: ignore[no-untyped-call]
