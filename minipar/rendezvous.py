"""Meet under torchrun: agree on a part of its store that no earlier attempt has written to.

After a failure torchrun starts all ranks again beside the same store, where the addresses of the dead ranks still lie
(PyTorch 2.13 keeps one store for all attempts; a count of attempts would differ between nodes).
"""

from __future__ import annotations

import os
import time
import uuid
from datetime import timedelta

from torch.distributed import PrefixStore, Store, TCPStore  # type: ignore[attr-defined]

CURRENT = "minipar/attempt"


def agent_store(rank: int, ranks: int, patience: timedelta) -> Store | None:
    """A fresh part of torchrun's store, the same for all ranks of this attempt; None where torchrun keeps no store.

    Raises `TimeoutError` where not all ranks come.
    """
    if os.environ.get("TORCHELASTIC_USE_AGENT_STORE") != "True":
        return None
    address, port = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
    store = TCPStore(address, port, ranks, is_master=False, timeout=patience)
    return PrefixStore(f"minipar/{meet(store, rank, ranks, patience)}", store)


def meet(store: Store, rank: int, ranks: int, patience: timedelta) -> str:
    """A name for this attempt that all its ranks know, and no rank of an earlier one knew.

    Rank 0 invents it, the others sign, and rank 0 repeats the signatures: who does not find its own had read the
    name of an attempt that is over, and reads again.
    """
    deadline = time.monotonic() + patience.total_seconds()
    signature = uuid.uuid4().hex
    if rank == 0:
        store.set(CURRENT, signature)
        keys = [f"{signature}/{other}" for other in range(1, ranks)]
        if keys:
            store.wait(keys, patience)
        store.set(f"{signature}/all", " ".join(store.get(key).decode() for key in keys))
        return signature
    name = ""
    while time.monotonic() < deadline:
        store.wait([CURRENT], patience)
        if (current := store.get(CURRENT).decode()) != name:
            name = current
            store.set(f"{name}/{rank}", signature)
        if store.check([f"{name}/all"]) and signature in store.get(f"{name}/all").decode().split():
            return name
        time.sleep(0.02)
    raise TimeoutError(f"rank {rank} waited {patience.total_seconds():g} s for the others to start")
