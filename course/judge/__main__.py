"""`python -m course.judge`: be the judge of one kernel; requests come on standard input, verdicts leave on output."""

from __future__ import annotations

import multiprocessing
import os
from multiprocessing import forkserver


def _own_pipes() -> tuple[int, int]:
    """The two pipes to the kernel, moved to where no process that is started from here inherits them."""
    pipes = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, 0)
    os.dup2(nothing, 1)
    return pipes


if __name__ == "__main__":
    requests, replies = _own_pipes()
    # The server that forks the ranks imports PyTorch while this process does.
    multiprocessing.get_context("forkserver").set_forkserver_preload(["minipar.preload"])
    forkserver.ensure_running()
    from course.judge.server import serve

    serve(requests, replies)
