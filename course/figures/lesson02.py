"""Lesson 02: what collectives leave on each rank, what they send, and how long they take, predicted and measured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape

from IPython.display import HTML
from torch import Tensor

from course.widgets.home import STYLE
from course.widgets.predict import Prediction
from course.widgets.units import seconds_in_words
from minipar.alphabeta import ALL_REDUCE, fit
from minipar.draw import Axis, Curve, curves_svg
from minipar.ledger import Traffic
from minipar.plan import hardware_by_name
from minipar.words import _

LESSON = "02-collectives"
DEVICE = "h100"
LINK = hardware_by_name(DEVICE).inside
KIB = 1024


def sent(ranks: int, size: float) -> float:
    """Bytes that each rank of a ring sends in an all-reduce of `size` bytes."""
    return Traffic(ALL_REDUCE, "tp", ranks, 1, 1).sent * size


def predict_bytes(ranks: int = 8) -> Prediction:
    """Ask what each rank sends in an all-reduce."""
    question = _("{ranks} ranks sum a tensor of 1 GiB, in a ring. How many GiB does each rank send?").format(
        ranks=ranks
    )
    because = _("It sends {steps} messages, each an {ranks}th of the tensor.").format(
        steps=2 * (ranks - 1), ranks=ranks
    )
    return Prediction(f"{LESSON}/bytes", question, "GiB", sent(ranks, 1.0), because)


def predict_more_ranks(few: int = 8, many: int = 64) -> Prediction:
    """Ask how much more each rank sends when there are more of them."""
    times = sent(many, 1.0) / sent(few, 1.0)
    because = _(
        "{few} ranks send {a:.3g} times the tensor, {many} ranks {b:.3g} times: more messages, but smaller ones."
    ).format(few=few, many=many, a=sent(few, 1.0), b=sent(many, 1.0))
    asked = _("{many} ranks in place of {few}, the tensor stays. How many times as much does each rank send?")
    question = asked.format(many=many, few=few)
    return Prediction(f"{LESSON}/more-ranks", question, _("times"), round(times, 3), because)


def predict_many_small(count: int = 1000, ranks: int = 8) -> Prediction:
    """Ask how much longer many small all-reduces take than a large one of the same bytes."""
    small, large = count * 2 * LINK.ring(KIB, ranks), 2 * LINK.ring(count * KIB, ranks)
    question = _(
        "{ranks} {device} GPUs in one node. They sum {count:,} tensors of 1 KiB, one after the other. Or they sum one "
        "tensor of {count:,} KiB. How many times as long does the first take?"
    ).format(ranks=ranks, device=DEVICE.upper(), count=count)
    because = _(
        "{small} against {large}, with a latency of {alpha} a message. Nearly all of the first is latency."
    ).format(small=seconds_in_words(small), large=seconds_in_words(large), alpha=seconds_in_words(LINK.alpha))
    return Prediction(f"{LESSON}/many-small", question, _("times"), round(small / large), because)


def across_ranks(results: Sequence[Mapping[str, Tensor | None]]) -> HTML:
    """A table of what each rank has, a column a rank; every text in it is escaped."""
    heads = "".join(f"<th scope='col'>{escape(_('rank {number}').format(number=n))}</th>" for n in range(len(results)))
    rows = "".join(
        f"<tr><th scope='row'><code>{escape(name)}</code></th>"
        + "".join(f"<td>{escape(_numbers(result[name]))}</td>" for result in results)
        + "</tr>"
        for name in results[0]
    )
    table = f"<table><thead><tr><th></th>{heads}</tr></thead><tbody>{rows}</tbody></table>"
    return HTML(f"<style>{STYLE}</style><div class='course-home'>{table}</div>")  # type: ignore[no-untyped-call]


def _numbers(tensor: Tensor | None) -> str:
    return "–" if tensor is None else " ".join(f"{number:g}" for number in tensor.flatten().tolist())


def ledger(rows: Sequence[Traffic]) -> str:
    """The ledger's lines, with what they are about and what a rank sends for them, in bytes."""
    heads = _("operation"), _("calls"), _("bytes of the tensors"), _("bytes sent by each rank")
    lines = [(row.operation, str(row.calls), f"{row.bytes:,}", f"{row.sent:,.0f}") for row in rows]
    widths = [max(len(line[column]) for line in (heads, *lines)) for column in range(len(heads))]

    def row(line: Sequence[str]) -> str:
        first, *numbers = zip(line, widths, strict=True)
        return "   ".join([first[0].ljust(first[1]), *(cell.rjust(width) for cell, width in numbers)])

    return "\n".join(map(row, (heads, *lines)))


def times_picture(times: Sequence[Mapping[int, float]]) -> HTML:
    """The measured seconds of an all-reduce for each size on each rank, the slowest counting, over the fitted costs."""
    slowest = {size: max(rank[size] for rank in times) for size in times[0]}
    costs = fit("tp", len(times), ALL_REDUCE, slowest)
    title = _("α = {alpha} a message, 1 / β = {speed:.2g} GB/s").format(
        alpha=seconds_in_words(costs.alpha), speed=1e-9 / costs.beta if costs.beta else float("inf")
    )
    low, high = min(slowest), max(slowest)
    smooth = [low * (high / low) ** (step / 60) for step in range(61)]
    curves = [
        Curve(_("the formula, fitted"), [(size, 1e3 * costs.seconds(size)) for size in smooth]),
        Curve(_("measured"), [(size, 1e3 * seconds) for size, seconds in slowest.items()], measured=True),
    ]
    x, y = Axis(_("bytes of the tensor"), log=True), Axis(_("milliseconds"), log=True)
    return HTML(curves_svg(curves, title, x, y))  # type: ignore[no-untyped-call]
