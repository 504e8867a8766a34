"""Where a rank computes: a table of the cases, and the rule for every number of ranks and GPUs."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minipar.devices import DEVICE_VARIABLE, choose, place


@pytest.mark.parametrize(
    ("local_rank", "local_ranks", "device", "gpus", "said"),
    [
        (0, 1, None, 0, "cpu with gloo (no GPU here)"),
        (3, 4, "cpu", 4, "cpu with gloo (asked for)"),
        (3, 4, "cpu", 0, "cpu with gloo (asked for)"),
        (3, 4, None, 4, "cuda:3 with nccl (a GPU for each rank)"),
        (1, 2, "cuda", 8, "cuda:1 with nccl (a GPU for each rank)"),
        (3, 4, None, 1, "cuda:0 with gloo through host memory (4 ranks share 1 GPU)"),
        (3, 4, "cuda", 2, "cuda:1 with gloo through host memory (4 ranks share 2 GPUs)"),
    ],
)
def test_a_placement_says_which_and_why(
    local_rank: int, local_ranks: int, device: str | None, gpus: int, said: str
) -> None:
    assert str(choose(local_rank, local_ranks, device, gpus)) == said


@given(ranks=st.integers(1, 16), device=st.sampled_from([None, "cpu", "cuda"]), gpus=st.integers(0, 16))
def test_nccl_where_each_rank_has_its_own_gpu_staged_where_they_share_and_cpu_otherwise(
    ranks: int, device: str | None, gpus: int
) -> None:
    if device == "cuda" and gpus == 0:
        with pytest.raises(ValueError, match="device='cuda'"):
            choose(0, ranks, device, gpus)
        return
    placements = [choose(r, ranks, device, gpus) for r in range(ranks)]
    used = {str(p.device) for p in placements}
    on_gpus = device != "cpu" and gpus > 0
    own = on_gpus and gpus >= ranks
    assert {p.transport for p in placements} == {"nccl" if own else "gloo"}
    assert {p.staged for p in placements} == {on_gpus and not own}
    assert used == ({f"cuda:{i}" for i in range(min(ranks, gpus))} if on_gpus else {"cpu"})


@given(device=st.text("cpuda:0 ").filter(lambda name: name not in ("cpu", "cuda")), gpus=st.integers(0, 4))
def test_another_name_is_an_error_that_repeats_it(device: str, gpus: int) -> None:
    with pytest.raises(ValueError, match="it can be 'cpu', 'cuda' or None") as error:
        choose(0, 1, device, gpus)
    assert repr(device) in str(error.value)


def test_the_environment_overrules_the_choice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(DEVICE_VARIABLE, "cpu")
    assert str(place()) == "cpu with gloo (asked for)"
    monkeypatch.setenv(DEVICE_VARIABLE, "tpu")
    with pytest.raises(ValueError, match="'tpu'"):
        place()
