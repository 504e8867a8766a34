"""What a cluster can do, as plain data: arithmetic, memory, and the links inside a node and between nodes."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple


class Link(NamedTuple):
    """What a message costs: `alpha` in seconds a message, `beta` in seconds a byte that a rank sends."""

    alpha: float
    beta: float

    def send(self, size: float) -> float:
        """Seconds of a message of `size` bytes to another rank."""
        return self.alpha + size * self.beta

    def ring(self, size: float, ranks: int) -> float:
        """Seconds of an all-gather or a reduce-scatter of `size` bytes in all: n−1 messages of an n-th each.

        An all-reduce is one of each (Thakur et al. 2005, §4).
        """
        return (ranks - 1) * (self.alpha + size / ranks * self.beta)


@dataclass(frozen=True)
class Hardware:
    """Nodes of GPUs.

    flops: dense peak of one GPU in operations a second, in the type that the model computes in. memory: bytes of one
    GPU. bandwidth: of that memory, bytes a second. per_node: GPUs a node. inside: the link between two GPUs of a
    node; between: each GPU's share of the link out of its node.
    """

    name: str
    flops: float
    memory: float
    bandwidth: float
    per_node: int
    inside: Link
    between: Link
    source: str

    def __post_init__(self) -> None:
        """Refuse what no machine has."""
        for name in ("flops", "memory", "bandwidth", "per_node"):
            if not 0 < getattr(self, name) < math.inf:
                raise ValueError(f"{name}={getattr(self, name)}; it must be a finite number above 0")

    def inside_node(self, ranks: int, apart: int) -> bool:
        """Whether a group of `ranks` ranks whose neighbours' numbers are `apart` shares a node."""
        return (ranks - 1) * apart < self.per_node

    def link(self, ranks: int, apart: int) -> Link:
        """What a ring of such a group goes over: the link inside a node, or the ways out of the nodes."""
        return self.inside if self.inside_node(ranks, apart) else self.between


GB, GIB, TERA = 1e9, 2**30, 1e12

# Memory is what PyTorch reports of such a GPU: a little less than the data sheet's figure.
# Bus bandwidths are what large all-reduces reach, not what the data sheet says: 235 of 300 GB/s between A100s and
# 367 of 450 between H200s with rings (Bekman, ML Engineering, network/README.md); B200: 730 of 900 (same, 1 GiB).
# Latencies: small all-reduces of 8 ranks take about 40 µs there, a ring of 14 messages: 3 µs each; between nodes
# InfiniBand adds its own (0.6 µs a hop), and NCCL its proxies: about 10 µs a message.
A100 = Hardware(
    "a100-80gb",
    312 * TERA,
    79.1 * GIB,
    2.039e12,
    8,
    Link(3e-6, 1 / (235 * GB)),
    Link(10e-6, 1 / (25 * GB)),
    "NVIDIA A100 data sheet; DGX A100 with 8 HDR links of 200 Gb/s (Narayanan et al. 2021, §5)",
)
H100 = Hardware(
    "h100",
    989.4 * TERA,
    79.1 * GIB,
    3.35e12,
    8,
    Link(3e-6, 1 / (367 * GB)),
    Link(10e-6, 1 / (50 * GB)),
    "NVIDIA H100 white paper; DGX H100 with 8 NDR links of 400 Gb/s",
)
H200 = replace(
    H100, name="h200", memory=139.8 * GIB, bandwidth=4.8e12, source="NVIDIA H200 data sheet; links as of DGX H100"
)
B200 = replace(
    H100,
    name="b200",
    flops=2250 * TERA,
    memory=178.3 * GIB,
    bandwidth=8e12,
    inside=Link(3e-6, 1 / (730 * GB)),
    source="NVIDIA Blackwell data sheet (HGX B200); 8 links of 400 Gb/s a node",
)
# Cloud nodes: the same GPUs behind a slower way out.
A100_CLOUD = replace(
    A100,
    name="a100-cloud",
    between=Link(25e-6, 1 / (6.25 * GB)),
    source="A100 as above; a node's 400 Gb/s shared by 8 GPUs, as in AWS p4d and p4de (AWS instance types)",
)
H100_CLOUD = replace(
    H100,
    name="h100-cloud",
    between=Link(25e-6, 1 / (12.5 * GB)),
    source="H100 as above; a node's 800 Gb/s shared by 8 GPUs",
)
HARDWARE: Mapping[str, Hardware] = {one.name: one for one in (A100, H100, H200, B200, A100_CLOUD, H100_CLOUD)}


def hardware_by_name(name: str) -> Hardware:
    """The hardware with this name; `ValueError` that lists those there are."""
    if name.lower() not in HARDWARE:
        raise ValueError(f"hardware {name!r} is not one of {', '.join(HARDWARE)}")
    return HARDWARE[name.lower()]
