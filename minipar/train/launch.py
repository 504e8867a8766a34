"""Start a training on ranks, and start it again from its last checkpoint when one of them is lost."""

from __future__ import annotations

import os
from collections.abc import Callable

from minipar.train.job import Job, Notice, Outcome, Report, train_on_rank
from minipar.world import RankFailed, run


def launch(
    job: Job,
    restarts: int = 0,
    timeout: float = 300.0,
    device: str | None = None,
    on_report: Callable[[Report], None] = lambda _: None,
) -> Outcome:
    """Train on fresh ranks of this machine, or under torchrun in the ranks that are there.

    restarts: how many times a lost or hanging rank may end the ranks, which are then started anew and go on from
        the last checkpoint. Under torchrun its own ``--max-restarts`` does that.
    timeout: seconds without a finished step after which the ranks count as hanging.

    Raises `ValueError` for what cannot work, before a rank starts; `RankFailed` when no restart is left.
    """
    job.check()
    if not timeout > 0:
        raise ValueError(f"timeout={timeout:g}; it must be above 0 seconds")
    if restarts < 0:
        raise ValueError(f"restarts={restarts}; it must be at least 0")
    if restarts and job.checkpoints is None:
        raise ValueError(f"restarts={restarts}, but there is no folder for checkpoints to go on from")
    if restarts and "WORLD_SIZE" in os.environ:
        raise ValueError(f"restarts={restarts}, but the ranks were started by torchrun; use its --max-restarts")

    def hear(rank: int, said: Report) -> None:
        if rank == 0:
            on_report(said)

    left = restarts
    while True:
        try:
            outcome: Outcome = run(
                train_on_rank,
                job.layout.ranks,
                job,
                timeout=timeout,
                renewed=True,
                device=device,
                on_report=hear,
            )[0]
            return outcome
        except RankFailed as failure:
            if not left:
                raise
            left -= 1
            on_report(Notice(f"{failure.message.splitlines()[0]}; starting again ({left} restarts left)"))
