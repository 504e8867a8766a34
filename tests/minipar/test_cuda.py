"""On a GPU the same as on the CPU: by NCCL where each rank has one, through host memory where they share."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

import minipar
from minipar import Mesh, comm
from minipar.manifest import gather, manifest
from minipar.model import GPT, GPTConfig, token_loss
from minipar.pipeline import even_cuts, gpipe, run
from minipar.train import ByteText
from tests.minipar.equality import assert_close_by_name

GPUS = torch.cuda.device_count() if torch.cuda.is_available() else 0
pytestmark = pytest.mark.skipif(GPUS == 0, reason="needs a GPU")

CONFIG = GPTConfig(sequence=8, hidden=32, layers=4, heads=4, vocabulary=259)


def trained(pp: int, tp: int, sequence_parallel: bool, device: str) -> dict[str, Tensor]:
    """The unsplit weights after three steps."""

    def on_rank() -> tuple[str, dict[str, Tensor], Any]:
        mesh, text = Mesh(pp=pp, tp=tp), ByteText()
        layers = even_cuts(CONFIG.layers, pp)[mesh.pp.rank]
        model = GPT(CONFIG, mesh, layers, dtype=torch.float64, sequence_parallel=sequence_parallel)
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, eps=1e-6)
        for step in range(3):
            optimizer.zero_grad()
            batch = text.batch(step * 4, 4, CONFIG.sequence)
            run(gpipe(pp, 2), {mesh.pp.rank: model}, batch, token_loss(CONFIG, mesh), mesh)
            optimizer.step()
        here = next(model.parameters()).device.type
        return here, gather(model.named_parameters(), manifest(model), mesh.tp), mesh.placement

    whole: dict[str, Tensor] = {}
    for here, tensors, placement in minipar.run(on_rank, pp * tp, timeout=60, device=device):
        assert here == device
        assert placement.transport == ("nccl" if device == "cuda" and pp * tp <= GPUS else "gloo")
        assert {tensor.device.type for tensor in tensors.values()} == {"cpu"}, "results come back on the CPU"
        assert all(torch.equal(whole[name], tensors[name]) for name in whole.keys() & tensors.keys())
        whole |= tensors
    return whole


@pytest.mark.parametrize(("pp", "tp"), [(1, 1), (1, 2), (2, 1), (2, 2)])
@pytest.mark.parametrize("sequence_parallel", [False, True])
def test_training_on_gpus_equals_training_on_the_cpu(pp: int, tp: int, sequence_parallel: bool) -> None:
    # The two devices' own matmuls and exponentials differ in the last digits.
    on_gpu, on_cpu = (trained(pp, tp, sequence_parallel, device) for device in ("cuda", "cpu"))
    assert_close_by_name(on_gpu, on_cpu, within=1e-10)
    assert_close_by_name(on_gpu, trained(1, 1, False, "cuda"), within=1e-12)


def test_a_cuda_result_comes_back_on_the_cpu() -> None:
    tensors = minipar.run(lambda: torch.ones(2, device="cuda"), 2, device="cuda", timeout=30)
    assert [tensor.device.type for tensor in tensors] == ["cpu", "cpu"]


def test_every_collective_works_on_gpu_tensors() -> None:
    def on_rank() -> list[list[float]]:
        mesh = Mesh(tp=2)
        x = torch.full((2,), 1.0 + mesh.tp.rank, device=mesh.device)
        results = [
            comm.all_reduce(x, mesh.tp),
            comm.all_gather(x, mesh.tp),
            comm.reduce_scatter(x, mesh.tp),
            comm.broadcast(x, mesh.tp, source=1),
            comm.all_reduce_max(x, mesh.tp),
        ]
        assert {result.device.type for result in results} == {"cuda"}
        return [result.tolist() for result in results]

    expected = [[3.0, 3.0], [1.0, 1.0, 2.0, 2.0], [3.0], [2.0, 2.0], [2.0, 2.0]]
    assert minipar.run(on_rank, 2, device="cuda", timeout=30) == [expected] * 2
