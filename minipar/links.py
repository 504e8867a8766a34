"""Paced compute: an action that takes a chosen time, so that a laptop shows the rhythm of a cluster.

The action really runs; then its rank sleeps until the chosen time is over. Ranks that sleep need no
core, so many of them fit on two. What is paced is always said to be emulated.
"""

from __future__ import annotations

import time


def hold(started: float, seconds: float) -> None:
    """Sleep until `seconds` after `started` (by `time.perf_counter`); return at once if that is past."""
    left = started + seconds - time.perf_counter()
    if left > 0:
        time.sleep(left)
