"""The workbench: a learner writes a schedule of their own and sees whether it runs, its chart, bubble and memory."""

from __future__ import annotations

from typing import Any

import anywidget
import traitlets

from course.exercises.ladder import Rung, rungs
from course.quiz.schedule_answer import DoesNotRun
from course.widgets.front import script, style
from course.widgets.pipeline import micro_batches_in_words
from minipar.draw import Panel, gantt_svg, percent
from minipar.pipeline import Schedule
from minipar.words import _, plural


def task(rung: Rung) -> str:
    """What the rung asks for, in a sentence or two."""
    size = _("{ranks} ranks with {stages} each, {count}.").format(
        ranks=rung.ranks,
        stages=plural("{count} stage", "{count} stages", rung.each),
        count=micro_batches_in_words(rung.micro_batches),
    )
    wanted = _("Bubble at most {bubble}, room for {room:g} micro-batches.").format(
        bubble=percent(rung.bubble, 1), room=rung.room
    )
    last = rung.ranks * rung.each - 1
    stage = _("For a stage that is not the rank's own number write `F0@{last}`.").format(last=last)
    return " ".join([size, wanted, *([stage] if rung.each > 1 else [])])


def judged(rung: Rung, text: str) -> dict[str, Any]:
    """What to show for a text: sentences, whether the rung holds, and a picture where the schedule runs."""
    try:
        schedule = rung.read(text)
    except (ValueError, DoesNotRun) as error:
        return {"sentences": [str(error)], "holds": False, "picture": ""}
    timeline = rung.timed(schedule)
    bubble, room = rung.beats(schedule), rung.fits(schedule)
    sentences = [
        _("{sign} The bubble is {yours}; at most {most} is wanted.").format(
            sign=_sign(bubble), yours=percent(timeline.bubble_rate, 1), most=percent(rung.bubble, 1)
        ),
        _("{sign} Micro-batches held at once: {yours:g}; there is room for {most:g}.").format(
            sign=_sign(room), yours=schedule.room, most=rung.room
        ),
    ]
    if bubble and room:
        sentences.append(_("This rung holds. Copy it into your function below."))
    return {"sentences": sentences, "holds": bubble and room, "picture": picture(rung, schedule)}


def picture(rung: Rung, schedule: Schedule) -> str:
    """The Gantt chart of a schedule on a rung."""
    title = _("Rung {number}: your schedule").format(number=rung.number)
    return gantt_svg([Panel("", rung.timed(schedule))], title, _("time in units"))


def _sign(good: bool) -> str:
    return "✓" if good else "✗"


def written(schedule: Schedule) -> str:
    """A schedule as a learner writes it: one line a rank."""
    own = range(schedule.ranks)
    return "\n".join(
        " ".join(f"{a.kind}{a.micro_batch}" + ("" if a.stage in own else f"@{a.stage}") for a in row)
        for row in schedule.actions
    )


class OwnSchedule(anywidget.AnyWidget):
    """A choice of rungs, a text with a line a rank, and what comes of it, anew with each change of either.

    `rung` counts from 0. `text` is what is written; the page keeps one text for each rung.
    """

    _esm = script("own_schedule")
    _css = style("quiz")
    tasks = traitlets.List(traitlets.Unicode()).tag(sync=True)
    words = traitlets.Dict().tag(sync=True)
    rung = traitlets.Int(0).tag(sync=True)
    text = traitlets.Unicode("").tag(sync=True)
    outcome = traitlets.Dict().tag(sync=True)

    def __init__(self, text: str = "") -> None:
        self._rungs = rungs()
        words = {
            "rung": _("Rung"),
            "lines": _("Your schedule, one line a rank"),
            "help": _("F is a forward, B a whole backward; or I and W, its halves. `F2` is of micro-batch 2."),
        }
        super().__init__(
            tasks=[task(rung) for rung in self._rungs], words=words, text=text, outcome=judged(self._rungs[0], text)
        )
        self.observe(self._changed, ["rung", "text"])

    def _changed(self, _change: dict[str, Any]) -> None:
        place = min(max(self.rung, 0), len(self._rungs) - 1)
        self.outcome = judged(self._rungs[place], self.text)


def own_schedule(text: str = "F0 B0 F1 B1 F2 B2\nF0 B0 F1 B1 F2 B2") -> OwnSchedule:
    """The workbench on the first rung, with a schedule that runs but waits."""
    return OwnSchedule(text)
