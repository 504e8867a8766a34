"""Between layers: stages, schedules, what they cost, and running them."""

from minipar.pipeline.partition import even_cuts
from minipar.pipeline.run import StepResult, run
from minipar.pipeline.schedule import Action, Schedule, ScheduleError, check, parse
from minipar.pipeline.schedules import gpipe, naive
from minipar.pipeline.simulate import Costs, simulate
from minipar.pipeline.timeline import Span, Timeline

__all__ = [
    "Action",
    "Costs",
    "Schedule",
    "ScheduleError",
    "Span",
    "StepResult",
    "Timeline",
    "check",
    "even_cuts",
    "gpipe",
    "naive",
    "parse",
    "run",
    "simulate",
]
