"""Every published schedule under the name that commands take."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from minipar.pipeline.looped import breadth_first, dualpipe_v, interleaved, v_half, v_min, zb_v
from minipar.pipeline.schedule import Schedule
from minipar.pipeline.schedules import gpipe, naive, one_f_one_b, zb_h1, zb_h2

PLAIN: Mapping[str, Callable[[int, int], Schedule]] = {
    "naive": naive,
    "gpipe": gpipe,
    "1f1b": one_f_one_b,
    "zb-h1": zb_h1,
    "zb-h2": zb_h2,
    "zb-v": zb_v,
    "v-half": v_half,
    "v-min": v_min,
    "dualpipe-v": dualpipe_v,
}
"""Those that say themselves how many stages a rank has: functions of the ranks and of the micro-batches."""

LOOPED: Mapping[str, Callable[[int, int, int], Schedule]] = {"breadth-first": breadth_first, "interleaved": interleaved}
"""Those for any number of stages a rank, their third argument."""

NAMES = (*PLAIN, *LOOPED)


def by_name(name: str, ranks: int, micro_batches: int, virtual: int | None = None) -> Schedule:
    """The published schedule `name` for so many ranks; `virtual` stages a rank (2 by default) where it loops.

    Raises `ValueError` for a name that is none, and for `virtual` where the schedule does not loop.
    """
    if name in LOOPED:
        return LOOPED[name](ranks, micro_batches, 2 if virtual is None else virtual)
    if name not in PLAIN:
        raise ValueError(f"schedule {name!r} is not one of {', '.join(NAMES)}")
    schedule = PLAIN[name](ranks, micro_batches)
    if virtual not in (None, schedule.virtual):
        raise ValueError(
            f"{name} has {schedule.virtual} stage{'s' * (schedule.virtual > 1)} a rank, not {virtual}; "
            f"{' and '.join(LOOPED)} take any number"
        )
    return schedule
