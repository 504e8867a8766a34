"""Which device and which backend a rank gets, and why: decided in one place and always stated."""

from __future__ import annotations

import os
from dataclasses import dataclass

import torch

DEVICE_VARIABLE = "MINIPAR_DEVICE"


@dataclass(frozen=True)
class Placement:
    """Where one rank computes and how it talks.

    `staged` is true where tensors live on a GPU but travel through host memory,
    because several ranks share that GPU and NCCL allows one rank for each.
    """

    device: torch.device
    backend: str
    why: str
    staged: bool = False

    def __str__(self) -> str:
        route = " through host memory" if self.staged else ""
        return f"{self.device} with {self.transport}{route} ({self.why})"

    @property
    def wire(self) -> torch.device:
        """Where a tensor must be for a collective to take it."""
        return torch.device("cpu") if self.transport == "gloo" else self.device

    @property
    def transport(self) -> str:
        """The library that carries this rank's tensors: ``"nccl"`` or ``"gloo"``."""
        return "nccl" if "nccl" in self.backend else "gloo"


def choose(local_rank: int, local_ranks: int, device: str | None, gpus: int) -> Placement:
    """Place rank `local_rank` of the `local_ranks` on this machine, which has `gpus` GPUs.

    `device` is ``"cpu"``, ``"cuda"`` or None (a GPU where there is one).
    Raises `ValueError` for another name, or for ``"cuda"`` on a machine without one.
    """
    if device not in (None, "cpu", "cuda"):
        raise ValueError(f"device is {device!r}; it can be 'cpu', 'cuda' or None (a GPU where there is one)")
    if device == "cuda" and gpus == 0:
        raise ValueError("device='cuda', but PyTorch sees no GPU here; leave device out, or say 'cpu'")
    if device == "cpu" or gpus == 0:
        why = "asked for" if device == "cpu" else "no GPU here"
        return Placement(torch.device("cpu"), "gloo", why)
    if gpus >= local_ranks:
        return Placement(torch.device("cuda", local_rank), "cpu:gloo,cuda:nccl", "a GPU for each rank")
    why = f"{local_ranks} ranks share {gpus} GPU{'s' if gpus > 1 else ''}"
    return Placement(torch.device("cuda", local_rank % gpus), "gloo", why, staged=True)


def local_ranks() -> tuple[int, int]:
    """This rank's number on its machine and how many ranks that machine has, as torchrun names them."""
    rank, ranks = os.environ.get("RANK", "0"), os.environ.get("WORLD_SIZE", "1")
    return int(os.environ.get("LOCAL_RANK", rank)), int(os.environ.get("LOCAL_WORLD_SIZE", ranks))


def gpus() -> int:
    """How many GPUs PyTorch sees here."""
    return torch.cuda.device_count() if torch.cuda.is_available() else 0


def place() -> Placement:
    """The placement of the calling rank; ``MINIPAR_DEVICE=cpu`` or ``cuda`` overrules the choice."""
    return choose(*local_ranks(), os.environ.get(DEVICE_VARIABLE) or None, gpus())
