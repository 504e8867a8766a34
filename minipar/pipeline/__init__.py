"""Between layers: stages, schedules, what they cost, and running them."""

from typing import TYPE_CHECKING

from minipar.lazy import at_first_use
from minipar.pipeline.looped import breadth_first, dualpipe_v, interleaved, v_half, v_min, zb_v
from minipar.pipeline.lower import Compute, Receive, Send, Skip, lower
from minipar.pipeline.names import by_name
from minipar.pipeline.partition import balanced_cuts, even_cuts
from minipar.pipeline.schedule import Action, Schedule, ScheduleError, check, parse
from minipar.pipeline.schedules import gpipe, naive, one_f_one_b, zb_h1, zb_h2
from minipar.pipeline.simulate import Costs, simulate
from minipar.pipeline.timeline import Parts, Span, Timeline, chrome_trace, difference

if TYPE_CHECKING:
    from minipar.pipeline.norm import DeferredBatchNorm, commit_batch_norms, defer_batch_norms
    from minipar.pipeline.profile import LayerTime, layer_seconds
    from minipar.pipeline.run import StepResult, evaluate, run
    from minipar.pipeline.ties import Tie

__all__ = [
    "Action",
    "Compute",
    "Costs",
    "DeferredBatchNorm",
    "LayerTime",
    "Parts",
    "Receive",
    "Schedule",
    "ScheduleError",
    "Send",
    "Skip",
    "Span",
    "StepResult",
    "Tie",
    "Timeline",
    "balanced_cuts",
    "breadth_first",
    "by_name",
    "check",
    "chrome_trace",
    "commit_batch_norms",
    "defer_batch_norms",
    "difference",
    "dualpipe_v",
    "evaluate",
    "even_cuts",
    "gpipe",
    "interleaved",
    "layer_seconds",
    "lower",
    "naive",
    "one_f_one_b",
    "parse",
    "run",
    "simulate",
    "v_half",
    "v_min",
    "zb_h1",
    "zb_h2",
    "zb_v",
]

at_first_use(
    __name__,
    norm=["DeferredBatchNorm", "commit_batch_norms", "defer_batch_norms"],
    profile=["LayerTime", "layer_seconds"],
    run=["StepResult", "evaluate", "run"],
    ties=["Tie"],
)
