"""Lesson 07: the same bubble with less memory, loops and their messages, split backwards and their price; all run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from IPython.display import HTML

from course.widgets.pipeline import micro_batches_in_words
from course.widgets.predict import Prediction
from course.widgets.schedules import NAMES, TITLES, messages
from minipar import Mesh, run
from minipar.draw import FILL, Panel, gantt_svg, percent
from minipar.draw.bars import Bar, Chart, Part, bars_svg
from minipar.model import GPT, GPTConfig, token_loss
from minipar.pipeline import Costs, Timeline, by_name, even_cuts, gpipe, one_f_one_b, simulate
from minipar.pipeline import run as run_step
from minipar.train import ByteText
from minipar.words import _

RANKS, COUNT = 4, 8
UNIT = 0.02  # seconds of an F, an I or a W on a rank, in the real run
MS = 1000


def costs_of(name: str, unit: float = 1.0) -> Costs:
    """What an action takes where a rank's F, I and W take a unit: with two stages a rank each has half of that."""
    return Costs(forward=unit, input=unit, weight=unit).times(1 / by_name(name, RANKS, COUNT).virtual)


def predicted(name: str, unit: float = 1.0) -> Timeline:
    """The simulated step of a published schedule on four ranks with eight micro-batches."""
    return simulate(by_name(name, RANKS, COUNT), costs_of(name, unit))


def chart(names: Sequence[str], title: str) -> HTML:
    """Gantt charts of some schedules, one below the other."""
    panels = [Panel(_described(name), predicted(name)) for name in names]
    return HTML(gantt_svg(panels, title, _("time in forwards of a micro-batch")))  # type: ignore[no-untyped-call]


def _described(name: str) -> str:
    room = by_name(name, RANKS, COUNT).room
    return _("{name}, holds {room:g} micro-batches").format(name=TITLES[name], room=room)


# The same bubble with less memory


def predict_same() -> Prediction:
    """Ask for the bubble of 1F1B; then show it below GPipe."""
    known = simulate(gpipe(RANKS, COUNT))
    found = simulate(one_f_one_b(RANKS, COUNT))
    question = _(
        "{ranks} ranks, {count}. GPipe is idle {share:.1f} % of all time. 1F1B begins each backward as soon as it can. "
        "How many percent is it idle?"
    ).format(ranks=RANKS, count=micro_batches_in_words(COUNT), share=100 * known.bubble_of_total)
    because = _(
        "The line still fills and still empties, p − 1 pieces long each time. Only the order between has changed."
    )
    picture = chart(("gpipe", "1f1b"), _("GPipe and 1F1B: as long, but not as full")).data
    return Prediction("07-schedules/same", question, "%", round(100 * found.bubble_of_total, 1), because, picture)


def predict_live(count: int = 32) -> Prediction:
    """Ask how many micro-batches the first rank holds under 1F1B, where GPipe holds all."""
    known, found = gpipe(RANKS, count), one_f_one_b(RANKS, count)
    question = _(
        "{ranks} ranks, {count}. Under GPipe the first rank holds {held} of them at once. How many under 1F1B?"
    ).format(ranks=RANKS, count=micro_batches_in_words(count), held=known.peak_live[0])
    because = _(
        "It does {ranks} forwards before the first gradient is back. From then on each backward frees what the next "
        "forward takes. So it does not depend on the number of micro-batches."
    ).format(ranks=RANKS)
    return Prediction("07-schedules/live", question, _("micro-batches"), found.peak_live[0], because)


# Loops


def predict_messages() -> Prediction:
    """Ask how many times the messages of 1F1B an interleaved one has."""
    one, two = messages("1f1b", RANKS, COUNT), messages("interleaved", RANKS, COUNT)
    question = _(
        "1F1B on {ranks} ranks with {count} sends {messages} tensors in a step. Now each rank holds two stages of half "
        "the size, interleaved. How many tensors are sent?"
    ).format(ranks=RANKS, count=micro_batches_in_words(COUNT), messages=one)
    because = _(
        "There are {borders} borders in place of {fewer}, and each micro-batch crosses each one twice. All carry as "
        "many bytes as before: features are as wide in the middle of a stage as at its end."
    ).format(borders=2 * RANKS - 1, fewer=RANKS - 1)
    return Prediction("07-schedules/messages", question, _("tensors"), two, because)


# Split backwards


class Profiled(NamedTuple):
    """A model as its authors measured it: ms of F, I (they write B) and W, of a message; p and m."""

    model: str
    ranks: int
    micro_batches: int
    forward: float
    input: float
    weight: float
    send: float

    def bubble(self, name: str) -> float:
        """The simulated bubble rate of a schedule with these times."""
        costs = Costs(forward=self.forward, input=self.input, weight=self.weight, send=self.send)
        return simulate(by_name(name, self.ranks, self.micro_batches), costs).bubble_rate


SMALL = Profiled("1.5B", 8, 24, 18.522, 18.086, 9.337, 0.601)
LARGE = Profiled("6.2B", 8, 24, 29.718, 29.444, 19.927, 0.527)
"""Two models on A100s with 24 micro-batches. Source: Qi et al. 2024, Zero Bubble, Table 9."""

PRINTED: Mapping[tuple[str, str], float] = {
    ("1.5B", "1f1b"): 0.2431,
    ("1.5B", "zb-h1"): 0.1585,
    ("1.5B", "zb-h2"): 0.1083,
    ("6.2B", "1f1b"): 0.2347,
    ("6.2B", "zb-h1"): 0.1323,
    ("6.2B", "zb-h2"): 0.0698,
}
"""Bubble rates. Source: the same paper, Table 5."""

MEMORY: Mapping[str, tuple[int, float]] = {"1F1B": (30, 11.8), "ZB-1p": (32, 12.9), "ZB-2p": (59, 14.5)}
"""GB of a GPU, and samples a second and GPU, of the 1.5B model with 24 micro-batches. Source: the same, Table 4."""


def predict_backward(of: Profiled = LARGE) -> Prediction:
    """Ask how long a backward takes; then show its halves."""
    question = _(
        "A stage of a model with 6.2 billion weights, on A100s. The forward of a micro-batch takes {forward:.1f} ms. "
        "How long does its whole backward take?"
    ).format(forward=of.forward)
    truth = round(of.input + of.weight, 1)
    because = _(
        "{input:.1f} ms for the gradient of its input, which the stage before waits for, and {weight:.1f} ms for those "
        "of its weights, which nobody waits for."
    ).format(input=of.input, weight=of.weight)
    parts = (
        Part(_("forward"), FILL["F"]),
        Part(_("input gradient"), FILL["I"]),
        Part(_("weight gradient"), FILL["W"]),
    )
    bars = (
        Bar(_("forward"), (of.forward, 0, 0), f"{of.forward:.1f} ms"),
        Bar(_("backward"), (0, of.input, of.weight), f"{truth} ms"),
    )
    axis = _("milliseconds of a micro-batch in a stage (Zero Bubble, Table 9)")
    picture = bars_svg(Chart(parts, bars, "ms", axis), _("A backward has two halves"))
    return Prediction("07-schedules/backward", question, "ms", truth, because, picture)


def printed_table() -> str:
    """Simulated bubble rates beside those that the paper prints."""
    rows = []
    for of in (SMALL, LARGE):
        for name in ("1f1b", "zb-h1", "zb-h2"):
            rows.append(
                _("{model} {name:6} simulated {ours:5.2f} %, printed {theirs:5.2f} %").format(
                    model=of.model,
                    name=TITLES[name],
                    ours=100 * of.bubble(name),
                    theirs=100 * PRINTED[of.model, name],
                )
            )
    return "\n".join(rows)


def predict_price() -> Prediction:
    """Ask for the memory of the schedule with almost no bubble; then show memory and speed."""
    (little, slow), (much, fast) = MEMORY["1F1B"], MEMORY["ZB-2p"]
    question = _(
        "The authors of Zero Bubble trained a model of 1.5 billion weights on 8 A100s. Under 1F1B a GPU held {little} "
        "GB. ZB-2p, with almost no bubble, was {times:.0f} % faster. How many GB did it hold?"
    ).format(little=little, times=100 * (fast / slow - 1))
    because = _("To have something to do at every moment, ranks go ahead with more forwards, and keep all of them.")
    part = Part(_("memory of a GPU"), FILL["W"])
    bars = tuple(
        Bar(name, (size,), _("{size} GB, {speed} samples a second and GPU").format(size=size, speed=speed))
        for name, (size, speed) in MEMORY.items()
    )
    axis = _("GB at the peak (Zero Bubble, Table 4)")
    picture = bars_svg(Chart((part,), bars, "GB", axis), _("The bubble is sold for memory"))
    return Prediction("07-schedules/price", question, "GB", much, because, picture)


# All of them, on real ranks


def paced_steps(names: Sequence[str]) -> dict[str, Timeline]:
    """On a rank: a paced step of a small GPT under each schedule, after one as fast as it goes."""
    mesh = Mesh(pp=RANKS)
    config = GPTConfig(layers=2 * RANKS, hidden=32, sequence=16)
    batch, loss = ByteText(None).batch(0, COUNT, config.sequence), token_loss(config, mesh)
    measured = {}
    for name in names:
        schedule = by_name(name, RANKS, COUNT)
        cuts = even_cuts(config.layers, schedule.stages)
        held = [stage for stage, rank in enumerate(schedule.holder) if rank == mesh.coords.pp]
        stages = {stage: GPT(config, mesh, cuts[stage]) for stage in held}
        run_step(schedule, stages, batch, loss, mesh)
        measured[name] = run_step(schedule, stages, batch, loss, mesh, costs_of(name, UNIT)).timeline
    return measured


def measured_steps(names: Sequence[str] = NAMES) -> dict[str, Timeline]:
    """Run these schedules on four real ranks, the time of each action emulated; by name."""
    measured: dict[str, Timeline] = run(paced_steps, RANKS, tuple(names), timeout=120)[0]
    return measured


def laid_over(measured: Mapping[str, Timeline]) -> HTML:
    """The measured bubble of every schedule as a bar, with a mark where it was predicted."""
    parts = (Part(_("measured"), FILL["F"]),)
    bars = []
    for name, timeline in measured.items():
        said = predicted(name, UNIT).bubble_of_total
        words = _("{measured}, predicted {predicted}").format(
            measured=percent(timeline.bubble_of_total), predicted=percent(said)
        )
        bars.append(Bar(TITLES[name], (100 * timeline.bubble_of_total,), words, limit=100 * said))
    chart = Chart(
        parts,
        tuple(bars),
        "%",
        _("idle share of all time, in percent, on real ranks (emulated pace)"),
        limit=_("predicted"),
    )
    return HTML(bars_svg(chart, _("Every schedule: predicted, and measured"), tallest=18))  # type: ignore[no-untyped-call]


def beside(measured: Mapping[str, Timeline], name: str) -> HTML:
    """The Gantt chart of one of the measured steps below its prediction."""
    panels = [
        Panel(_("predicted"), predicted(name, UNIT)),
        Panel(_("measured on real processes (emulated pace)"), measured[name]),
    ]
    title = _("{name} on {ranks} ranks, {count}").format(
        name=TITLES[name], ranks=RANKS, count=micro_batches_in_words(COUNT)
    )
    return HTML(gantt_svg(panels, title, _("time in milliseconds"), scale=MS))  # type: ignore[no-untyped-call]
