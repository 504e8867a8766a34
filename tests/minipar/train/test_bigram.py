"""The model of pairs of bytes that a trained model is compared with."""

from __future__ import annotations

import math

import pytest
import torch

from minipar.tensor.random import stream
from minipar.train.data import ByteText
from tests.minipar.train.bigram import bigram_bits


def text(data: bytes) -> torch.Tensor:
    return torch.tensor(list(data), dtype=torch.uint8)


def test_a_pattern_of_two_bytes_costs_almost_nothing() -> None:
    assert 0 < bigram_bits(text(b"ab" * 5000), text(b"ab" * 50)) < 1e-3


def test_random_bytes_cost_eight_bits_each() -> None:
    train, held_out = torch.randint(256, (2, 200_000), generator=stream("bytes"), dtype=torch.uint8)
    assert bigram_bits(train, held_out) == pytest.approx(8, abs=0.05)


def test_bits_are_those_of_the_counts() -> None:
    """A coin of 3 to 1 after each byte: the entropy of a choice, 0.811 bits."""
    coins = torch.rand(400_000, generator=stream("coins")) < 0.25
    train, held_out = (coins.to(torch.uint8) + 65).chunk(2)
    entropy = -(0.25 * math.log2(0.25) + 0.75 * math.log2(0.75))
    assert bigram_bits(train, held_out) == pytest.approx(entropy, abs=0.01)


def test_a_byte_that_was_never_seen_has_a_price() -> None:
    assert 10 < bigram_bits(text(b"ab" * 5000), text(b"az")) < 40


def test_on_english_a_pair_tells_more_than_a_byte() -> None:
    train, held_out = (part.bytes for part in ByteText().split(0.1))
    shares = torch.bincount(train.long(), minlength=256).double() + 1
    single = -(shares / shares.sum())[held_out.long()].log2().mean().item()
    pairs = bigram_bits(train, held_out)
    assert 2 < pairs < single - 0.5

    seen = torch.bincount(train[:-1].long() * 256 + train[1:].long(), minlength=256**2).view(256, 256).double() + 1
    add_one = -(seen / seen.sum(1, keepdim=True))[held_out[:-1].long(), held_out[1:].long()].log2().mean().item()
    assert pairs < add_one, "the smoothing is worth its lines"
