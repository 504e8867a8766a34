"""How a training is shown while it runs."""

from __future__ import annotations

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from minipar.train import StepReport
from minipar.train.job import Begun, Evaluated, Job, Notice, Report
from minipar.words import _


class Show:
    """The progress of a training, as a bar where there is a terminal and as lines where there is none."""

    def __init__(self, console: Console, job: Job) -> None:
        self.console, self.job = console, job
        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[numbers]}"),
            TimeRemainingColumn(),
        )
        self.bar = Progress(*columns, console=console, disable=not console.is_terminal)
        self.task = self.bar.add_task(_("training"), total=job.recipe.steps, numbers="")
        self.last: StepReport | None = None

    def __enter__(self) -> Show:
        self.bar.start()
        return self

    def __exit__(self, *_exception: object) -> None:
        self.bar.stop()

    def hear(self, said: Report) -> None:
        """Show what the ranks report."""
        if isinstance(said, StepReport):
            self.last = said
            numbers = self._numbers(said)
            self.bar.update(self.task, completed=said.step + 1, numbers=numbers)
            every = max(1, self.job.recipe.steps // 10)
            if not self.console.is_terminal and ((said.step + 1) % every == 0 or said.step == 0):
                self._say(_("step {step}: {numbers}").format(step=said.step + 1, numbers=numbers))
        elif isinstance(said, Evaluated):
            held = _("step {step}: held-out loss {loss:.3f}, {bits:.2f} bits a byte")
            self._say(held.format(step=said.step, loss=said.loss, bits=said.bits))
        elif isinstance(said, Notice):
            self._say(said.text, "yellow")
        elif isinstance(said, Begun):
            where = _("{layout}; {where}") if not said.step else _("{layout}; {where}; goes on from step {step}")
            self._say(where.format(layout=self.job.layout, where=said.where, step=said.step), "dim")

    def _say(self, text: str, style: str = "") -> None:
        self.console.print(text, style=style, markup=False, highlight=False, soft_wrap=True)

    def _numbers(self, step: StepReport) -> str:
        parts = [
            _("loss {loss:.3f}").format(loss=step.loss),
            _("{tokens:,.0f} tokens/s").format(tokens=step.tokens_per_second),
        ]
        if self.job.layout.pp > 1:
            parts.append(_("idle {bubble:.0%}").format(bubble=step.bubble))
        if step.mfu is not None:
            parts.append(_("MFU {mfu:.1%}").format(mfu=step.mfu))
        return ", ".join(parts)
