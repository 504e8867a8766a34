"""Ranks meet in a store that earlier attempts have left things in."""

from __future__ import annotations

import threading
import time
from datetime import timedelta

import pytest
import torch.distributed as dist

from minipar.rendezvous import meet

PATIENCE = timedelta(seconds=10)


def met(store: dist.Store, ranks: list[int], world: int, late: float = 0.0) -> dict[int, str]:
    """What each of these ranks calls the attempt; rank 0 comes late."""
    names: dict[int, str] = {}

    def come(rank: int) -> None:
        if rank == 0:
            time.sleep(late)
        names[rank] = meet(store, rank, world, PATIENCE)

    threads = [threading.Thread(target=come, args=[rank]) for rank in ranks]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(15)
    return names


@pytest.mark.parametrize("world", [1, 2, 4])
def test_all_ranks_of_an_attempt_have_one_name_and_the_next_has_another(world: int) -> None:
    store = dist.HashStore()
    attempts = [met(store, list(range(world)), world, late) for late in (0.0, 0.2, 0.2)]
    assert all(sorted(names) == list(range(world)) for names in attempts)
    assert [len(set(names.values())) for names in attempts] == [1, 1, 1]
    assert len({names[0] for names in attempts}) == 3


def test_an_attempt_that_died_before_all_had_come_misleads_nobody() -> None:
    store = dist.HashStore()
    store.set("minipar/attempt", "dead")
    for rank in (1, 2):
        store.set(f"dead/{rank}", f"old {rank}")
    store.set("dead/all", "old1 old2")
    assert len(set(met(store, [0, 1, 2], 3, late=0.3).values())) == 1


def test_a_rank_that_never_comes_is_waited_for_no_longer_than_asked() -> None:
    store = dist.HashStore()
    store.set("minipar/attempt", "dead")
    with pytest.raises(TimeoutError, match=r"rank 1 waited 0\.2 s for the others to start"):
        meet(store, 1, 2, timedelta(seconds=0.2))
