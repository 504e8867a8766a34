import time

import pytest
import torch
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

import minipar
from minipar import Mesh
from minipar.bench.measure import WARM_UPS, alternate, geometric_mean
from minipar.bench.tensor import PLAIN, bench, geomean_ratio
from tests.minipar.equality import relative_error


def test_every_model_is_timed_on_both_sides_and_unsplit() -> None:
    rows = bench(repeats=2, sizes=((1, 8, 64), (2, 8, 64)))
    two = [row for row in rows if row.tp == 2]
    assert [(row.model, row.batch) for row in two] == [(model, batch) for model in PLAIN for batch in (1, 2)]
    for row in rows:
        assert min(row.unsplit_seconds, row.minipar_seconds, row.torch_seconds) > 0
        assert row.ratio == row.minipar_seconds / row.torch_seconds
    assert min(row.ratio for row in rows) <= geomean_ratio(rows) <= max(row.ratio for row in rows)


@pytest.mark.parametrize("name", PLAIN)
def test_the_rival_does_the_right_thing(name: str) -> None:
    def on_rank() -> float:
        torch.manual_seed(0)
        whole, split = PLAIN[name](64).double(), PLAIN[name](64).double()
        split.load_state_dict(whole.state_dict())
        plan = {layer: (ColwiseParallel(), RowwiseParallel())[i % 2] for i, layer in enumerate(split.plan)}
        parallelize_module(split, init_device_mesh("cpu", (2,)), plan)
        x = torch.randn(2, 5, 64, dtype=torch.float64)
        return relative_error(split(x), whole(x))

    assert max(minipar.run(on_rank, 2, timeout=30, device="cpu")) < 1e-12


def test_the_slowest_rank_counts() -> None:
    def on_rank() -> dict[str, float]:
        mesh = Mesh(tp=2)
        return alternate({"way": lambda: time.sleep(0.05 * mesh.tp.rank)}, 3, mesh.tp)

    assert min(times["way"] for times in minipar.run(on_rank, 2, timeout=20, device="cpu")) >= 0.05


def test_ways_take_turns() -> None:
    called = []
    ways = {"a": lambda: called.append("a"), "b": lambda: called.append("b")}
    times = alternate(ways, 4, Mesh().tp)
    assert called == ["a", "b"] * (WARM_UPS + 4)
    assert times.keys() == ways.keys()
    assert geometric_mean([0.5, 2.0]) == pytest.approx(1)
