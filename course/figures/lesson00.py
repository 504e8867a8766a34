"""Lesson 00: one rank and four in a Gantt chart, predicted and on real processes; a product cut by columns."""

from __future__ import annotations

from IPython.display import HTML

from course.widgets.pipeline import axis, each, look, micro_batches_in_words, stages_in_words, title
from course.widgets.predict import Prediction
from minipar import demo
from minipar.draw import Panel, column_split_svg, gantt_svg
from minipar.pipeline import Costs, gpipe, simulate
from minipar.words import _

PACE = Costs(forward=0.12, backward=0.24)  # seconds for the whole batch in a stage, in a real run


def stage_alone() -> HTML:
    """One rank with the whole model and the whole batch: never idle."""
    panel = Panel("", simulate(gpipe(1, 1)))
    return HTML(gantt_svg([panel], _("One rank, the whole model"), axis()))  # type: ignore[no-untyped-call]


def predict_bubble(stages: int, micro_batches: int) -> Prediction:
    """Ask for the bubble of GPipe with these degrees; after the answer, show it."""
    view = look(stages, micro_batches)
    question = _("{stages}, {micro_batches}: how much of the time are the ranks idle, on average?").format(
        stages=stages_in_words(stages), micro_batches=micro_batches_in_words(micro_batches)
    )
    timeline = simulate(gpipe(stages, micro_batches))
    because = _("The ranks together have {total:g} units of time and work in {busy:g} of them.").format(
        total=timeline.ranks * timeline.duration, busy=timeline.busy
    )
    item = f"00-start/bubble-{stages}-{micro_batches}"
    return Prediction(item, question, "%", round(100 * timeline.bubble_of_total, 1), because, view.picture)


def column_split() -> HTML:
    """The picture of a matrix multiplication cut by columns."""
    return HTML(column_split_svg())  # type: ignore[no-untyped-call]


def on_real_ranks(stages: int = 4, micro_batches: int = 1) -> HTML:
    """Run a GPT cut into `stages` stages, a process each, and show the measured timeline below the predicted one.

    The messages are real; the time of each action is emulated, so that it also shows on a machine with few cores.
    """
    result = demo.bubble(micro_batches, stages=stages, pace=each(PACE, micro_batches), repeats=1)
    panels = [
        Panel(_("predicted"), result.predicted),
        Panel(_("measured on real processes (emulated pace)"), result.measured),
    ]
    return HTML(gantt_svg(panels, title(stages, micro_batches), _("time in milliseconds"), scale=1000))  # type: ignore[no-untyped-call]
