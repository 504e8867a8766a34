"""Lesson 04: a block over tensor ranks beside the whole one: its errors, what is sent, and what is kept."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from IPython.display import HTML
from torch import Tensor

from course.figures.lesson03 import table
from course.figures.one_block import Ran, run_block
from course.widgets.predict import Prediction
from course.widgets.units import bytes_in_words
from minipar import run
from minipar.ledger import Traffic
from minipar.plan import Bench, Numbers, hardware_by_name, model_by_name, predict
from minipar.plan.generations import usual_software
from minipar.words import _, plural

LESSON = "04-transformer"
MODEL, DEVICE, RANKS = "gpt-22b", "h100", 8


def predict_speedup() -> Prediction:
    """Ask how many times as fast eight tensor ranks are as one."""
    hardware = hardware_by_name(DEVICE)
    bench, model = Bench(hardware, usual_software(hardware)), model_by_name(MODEL)
    one, many = (predict(model, Numbers(tp=tp), bench).step_seconds for tp in (1, RANKS))
    question = _(
        "{model} on {device} GPUs, one sequence at a time. (That one GPU could not hold it shall not matter here.) "
        "How many times as fast is a step over {ranks} tensor ranks as on one?"
    ).format(model=MODEL, device=DEVICE.upper(), ranks=RANKS)
    because = _("The planner says {one:.2f} s on one and {many:.2f} s on {ranks}, {share:.0f} % of the ideal.").format(
        one=one, many=many, ranks=RANKS, share=100 * one / many / RANKS
    )
    return Prediction(f"{LESSON}/speedup", question, _("times"), round(one / many, 1), because)


def predict_sequence() -> Prediction:
    """Ask how many times as much a forward sends with sequence parallelism."""
    apart = Traffic("all-gather", "tp", RANKS, 1, 8).sent + Traffic("reduce-scatter", "tp", RANKS, 1, 8).sent
    question = _(
        "Each all-reduce becomes an all-gather and a reduce-scatter. How many times as many bytes does a block's "
        "forward send with sequence parallelism as without?"
    )
    because = _("An all-reduce is a reduce-scatter and an all-gather. The two only stand in different places now.")
    truth = apart / Traffic("all-reduce", "tp", RANKS, 1, 8).sent
    return Prediction(f"{LESSON}/sequence", question, _("times"), truth, because)


def predict_logits(tokens: int = 8192, vocabulary: int = 128256) -> Prediction:
    """Ask how much less the split cross entropy sends than a gather of the logits."""
    gathered = Traffic("all-gather", "tp", RANKS, 1, 4 * tokens * vocabulary).sent
    numbers = Traffic("all-reduce", "tp", RANKS, 1, 4 * tokens * 3).sent
    question = _(
        "{tokens:,} tokens, a vocabulary of {words:,}, float32, {ranks} ranks. To gather the logits each rank sends "
        "{size}. How many times less is sent if ranks exchange three numbers a token?"
    ).format(tokens=tokens, words=vocabulary, ranks=RANKS, size=bytes_in_words(gathered))
    because = _("Three all-reduced numbers a token are {size}. And no rank ever holds all logits.").format(
        size=bytes_in_words(numbers)
    )
    return Prediction(f"{LESSON}/logits", question, _("times"), round(gathered / numbers), because)


@dataclass(frozen=True)
class Errors:
    """The largest difference from the whole block, as a share of the largest entry, in the worst tensor."""

    result: float
    dx: float
    weights: float


def errors(ran: Sequence[Ran], whole: Ran, sequence_parallel: bool) -> Errors:
    """How far the ranks together are from the whole block."""
    result, dx = (
        _worst([getattr(one, name) for one in ran], getattr(whole, name), sequence_parallel)
        for name in ("result", "dx")
    )
    weights = max(_error(one.gradients[name], wanted) for one in ran for name, wanted in whole.gradients.items())
    return Errors(result, dx, weights)


def _worst(parts: Sequence[Tensor], whole: Tensor, sequence_parallel: bool) -> float:
    """Of slices that are one tensor together; or of the worst rank, where each has all of it."""
    return max(_error(ours, whole) for ours in ([torch.cat(list(parts), 1)] if sequence_parallel else parts))


def _error(ours: Tensor, theirs: Tensor) -> float:
    return ((ours.double() - theirs.double()).abs().max() / theirs.double().abs().max()).item()


def block_beside_whole(*layouts: tuple[int, bool]) -> HTML:
    """Run one block whole and in each layout (tensor ranks, sequence parallel), and show them beside each other."""
    whole = run(run_block, 1, 1, False, torch.float64)[0]
    rows = []
    for tp, sequence_parallel in layouts:
        ran = run(run_block, tp, tp, sequence_parallel, torch.float64)
        found = errors(ran, whole, sequence_parallel)
        kept = max(one.kept for one in ran)
        name = plural("{count} rank", "{count} ranks", tp)
        rows.append(
            (
                _("{ranks}, sequence parallel").format(ranks=name) if sequence_parallel else name,
                f"{found.result:.0e}",
                f"{found.dx:.0e}",
                f"{found.weights:.0e}",
                bytes_in_words(max(one.forward for one in ran)),
                bytes_in_words(max(one.backward for one in ran)),
                f"{bytes_in_words(kept)} ({100 * kept / whole.kept:.0f} %)",
            )
        )
    heads = (
        _("block over"),
        _("error of the result"),
        _("of dx"),
        _("of weight gradients"),
        _("a rank sends, forward"),
        _("backward"),
        _("and keeps"),
    )
    return table(heads, rows)


def rounding(tp: int = 4) -> HTML:
    """The block over `tp` ranks beside the whole one, in three kinds of number."""
    rows = []
    for dtype in (torch.float64, torch.float32, torch.bfloat16):
        whole = run(run_block, 1, 1, False, dtype)[0]
        found = errors(run(run_block, tp, tp, False, dtype), whole, False)
        rows.append((str(dtype).removeprefix("torch."), *(f"{e:.0e}" for e in (found.result, found.dx, found.weights))))
    return table((_("numbers"), _("error of the result"), _("of dx"), _("of weight gradients")), rows)
