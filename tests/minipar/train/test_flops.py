"""How much arithmetic a token takes, counted by PyTorch on the model itself; peaks by a GPU's name."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from minipar import Mesh
from minipar.model import GPT, GPTConfig, token_loss
from minipar.train import flops
from minipar.train.flops import PEAKS, mfu, peak_flops, peak_of, training_flops

CONFIGS = [
    GPTConfig(),
    GPTConfig(vocabulary=300, sequence=24, hidden=48, layers=3, heads=6, kv_heads=2, gated=True),
    GPTConfig(vocabulary=17, sequence=10, hidden=24, layers=1, heads=4, kv_heads=1, tied=True),
    GPTConfig(sequence=12, hidden=16, layers=2, heads=2, gated=True, tied=True, dropout=0.1),
]


@pytest.mark.parametrize("config", CONFIGS)
@pytest.mark.parametrize("shorter", [0, 3])
def test_pytorch_counts_as_many_in_the_models_forward_and_backward(config: GPTConfig, shorter: int) -> None:
    model, sequence = GPT(config, Mesh()), config.sequence - shorter
    tokens = torch.randint(config.vocabulary, (3, sequence))
    with sdpa_kernel(SDPBackend.MATH):  # the counter does not know the CPU's fused attention
        with FlopCounterMode(display=False) as forward:
            loss = token_loss(config, Mesh())(model(tokens), tokens)
        with FlopCounterMode(display=False) as backward:
            loss.backward()
    a_token = training_flops(config, sequence)
    assert 3 * forward.get_total_flops() == tokens.numel() * a_token
    assert forward.get_total_flops() + backward.get_total_flops() == tokens.numel() * a_token


@given(st.integers(1, 4), st.integers(1, 8), st.integers(1, 100), st.integers(1, 2000))
def test_it_is_the_formula_of_narayanan_without_recompute(layers: int, heads: int, sequence: int, vocab: int) -> None:
    hidden = 8 * heads
    config = GPTConfig(vocab, sequence, hidden, layers, heads)
    published = 72 * layers * hidden**2 * (1 + sequence / (6 * hidden) + vocab / (12 * layers * hidden))
    assert training_flops(config) == pytest.approx(published, rel=1e-12)


@pytest.mark.parametrize("config", CONFIGS)
def test_it_is_the_formula_of_chowdhery(config: GPTConfig) -> None:
    matrices = [name for name, p in GPT(config, Mesh()).named_parameters() if p.dim() == 2 and "position" not in name]
    looked_up = set() if config.tied else {"embedding.token.weight"}
    weights = sum(GPT(config, Mesh()).get_parameter(name).numel() for name in set(matrices) - looked_up)
    size = config.hidden // config.heads
    assert training_flops(config) == 6 * weights + 12 * config.layers * config.heads * size * config.sequence


def test_a_shorter_sequence_takes_less_for_its_scores_only() -> None:
    config = GPTConfig(sequence=64, hidden=32, layers=5)
    assert training_flops(config, 64) == training_flops(config)
    assert training_flops(config, 64) - training_flops(config, 14) == 5 * 3 * 4 * 32 * 50


@pytest.mark.parametrize("sequence", [0, -1, 65])
def test_a_sequence_that_the_model_cannot_take_is_refused(sequence: int) -> None:
    with pytest.raises(ValueError, match=f"sequence={sequence}; the model takes 1 to 64 tokens"):
        training_flops(GPTConfig(), sequence)


def test_a_model_that_cannot_be_is_refused() -> None:
    with pytest.raises(ValueError, match="hidden=10 is not divisible by heads=4"):
        training_flops(GPTConfig(hidden=10))


NAMES = [
    ("Tesla V100-SXM2-32GB", 125, None, 15.7),
    ("Tesla V100-PCIE-16GB", 112, None, 14),
    ("Tesla V100S-PCIE-32GB", 130, None, 16.4),
    ("NVIDIA A100-SXM4-80GB", 312, 312, 156),
    ("A100-SXM4-40GB", 312, 312, 156),
    ("NVIDIA A100 80GB PCIe", 312, 312, 156),
    ("NVIDIA A100-PCIE-40GB", 312, 312, 156),
    ("NVIDIA H100 80GB HBM3", 989.4, 989.4, 494.7),
    ("NVIDIA H100 PCIe", 756, 756, 378),
    ("NVIDIA H200", 989.4, 989.4, 494.7),
    ("NVIDIA L4", 121, 121, 60),
    ("NVIDIA L40S", 362.05, 362.05, 183),
    ("NVIDIA GeForce RTX 4090", 165.2, 165.2, 82.6),
    ("NVIDIA B200", 2250, 2250, 1100),
]


@pytest.mark.parametrize(("name", "fp16", "bf16", "float32"), NAMES)
def test_a_gpu_is_known_by_the_name_that_its_driver_gives(
    name: str, fp16: float, bf16: float | None, float32: float
) -> None:
    found = [peak_of(name, dtype, tf32=True) for dtype in (torch.float16, torch.bfloat16, torch.float32)]
    assert found == [None if tera is None else pytest.approx(tera * 1e12) for tera in (fp16, bf16, float32)]


def test_every_known_gpu_is_tested_under_its_name_and_is_faster_with_fewer_bits() -> None:
    assert {flops._model(name) for name, *_ in NAMES} == PEAKS.keys()
    for peak in PEAKS.values():
        assert peak.fp32 <= (peak.tf32 or peak.fp16) < peak.fp16 or peak.tf32 is None
        assert peak.bf16 in (None, peak.fp16)


@pytest.mark.parametrize(
    "name",
    [
        "NVIDIA H100 80GB HBM3 MIG 1g.10gb",
        "NVIDIA A100-SXM4-40GB MIG 3g.20gb",
        "NVIDIA GeForce RTX 4090 Laptop GPU",
        "NVIDIA GeForce RTX 4090 D",
        "NVIDIA H100 80GB HBM2e",
        "NVIDIA H200 NVL",
        "NVIDIA L40",
        "NVIDIA A100X",
        "NVIDIA GH200 480GB",
        "AMD Instinct MI300X",
        "NVIDIA",
        "",
    ],
)
def test_the_peak_of_another_gpu_is_not_guessed(name: str) -> None:
    assert peak_of(name, torch.bfloat16) is None


def test_float32_without_tf32_has_the_peak_of_the_ordinary_cores() -> None:
    assert peak_of("NVIDIA H200", torch.float32) == pytest.approx(66.9e12)
    assert peak_of("Tesla V100-SXM2-16GB", torch.float32, tf32=True) == pytest.approx(15.7e12)
    assert peak_of("NVIDIA H200", torch.float64) is None


@pytest.fixture
def h200(monkeypatch: pytest.MonkeyPatch) -> torch.device:
    """A device that says it is an H200."""
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: {"cuda:1": "NVIDIA H200"}[str(device)])
    return torch.device("cuda", 1)


def test_a_device_is_asked_for_its_name_and_pytorch_for_tf32(h200: torch.device) -> None:
    assert peak_flops(h200, torch.bfloat16) == pytest.approx(989.4e12)
    assert peak_flops(h200, torch.float32) == pytest.approx(66.9e12)
    before = torch.get_float32_matmul_precision()
    try:
        torch.set_float32_matmul_precision("high")
        assert peak_flops(h200, torch.float32) == pytest.approx(494.7e12)
    finally:
        torch.set_float32_matmul_precision(before)


def test_mfu_is_the_arithmetic_of_all_tokens_over_the_peak_of_all_devices(h200: torch.device) -> None:
    config = GPTConfig()
    full = 4 * 989.4e12 / training_flops(config)  # tokens a second
    assert mfu(full, config, h200, torch.bfloat16, ranks=4) == pytest.approx(1, rel=1e-12)
    assert mfu(full / 4, config, h200, torch.bfloat16, ranks=2) == pytest.approx(0.5, rel=1e-12)


def test_a_cpu_has_no_known_peak_and_no_mfu() -> None:
    cpu = torch.device("cpu")
    assert peak_flops(cpu, torch.float32) is None
    assert mfu(1e6, GPTConfig(), cpu, torch.float32, ranks=1) is None


def test_no_ranks_are_refused(h200: torch.device) -> None:
    with pytest.raises(ValueError, match="ranks=0; it must be at least 1"):
        mfu(1.0, GPTConfig(), h200, torch.bfloat16, ranks=0)
