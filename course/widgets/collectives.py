"""The collectives explorer: a ring all-reduce step by step, and what it costs by latency and bandwidth."""

from __future__ import annotations

from course.widgets.explorer import Control, Explorer, View
from course.widgets.units import bytes_in_words, seconds_in_words
from minipar.draw.ring import ring_svg
from minipar.plan import hardware_by_name
from minipar.ring import ALL_GATHER, REDUCE_SCATTER, begin, steps
from minipar.words import _

MOST_RANKS = 8
SIZES = tuple(4**power for power in range(5, 16))  # bytes, from 1 KiB to 1 GiB
LINK = hardware_by_name("h100").inside


def look(ranks: int, step: int, size: int) -> View:
    """The ring after so many steps (at most all that there are), and what the whole takes."""
    all_steps = list(steps(ranks))
    step = min(step, len(all_steps))
    now = all_steps[step - 1] if step else None
    held = now.held if now else begin(ranks)
    title = _("Step {step} of {all}: {phase}") if now else _("Before the first step: each rank has its own summands")
    phases = {REDUCE_SCATTER: _("reduce-scatter"), ALL_GATHER: _("all-gather")}
    title = title.format(step=step, all=len(all_steps), phase=phases[now.phase] if now else "")
    whole = SIZES[size]
    time, waits = 2 * LINK.ring(whole, ranks), 2 * LINK.ring(0, ranks)
    latency = waits / time if time else 0.0
    facts = (
        (_("each rank sends in all"), bytes_in_words(2 * (ranks - 1) / ranks * whole)),
        (_("that is, of the tensor"), _("{share:.0f} %").format(share=200 * (ranks - 1) / ranks)),
        (_("takes, between H100s of a node"), seconds_in_words(time)),
        (_("of that, latency"), _("{share:.0f} %").format(share=100 * latency)),
    )
    return View(ring_svg(held, title, now), facts)


def collectives(ranks: int = 4) -> Explorer:
    """Sliders for ranks, step and the tensor's size over a ring all-reduce."""
    return Explorer(
        (
            Control("ranks", _("Ranks"), 1, MOST_RANKS, ranks),
            Control("step", _("Steps done"), 0, 2 * (MOST_RANKS - 1), 0),
            Control(
                "size", _("Size of the tensor"), 0, len(SIZES) - 1, 5, names=tuple(bytes_in_words(s) for s in SIZES)
            ),
        ),
        look,
    )
