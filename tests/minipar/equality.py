"""What the tests share: tensors are compared by their largest difference over the largest entry expected."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hypothesis import Phase, settings
from torch import Tensor

# For properties that start ranks: to shrink a failure, Hypothesis would start them hundreds of times.
few = settings(max_examples=4, deadline=None, phases=[Phase.explicit, Phase.reuse, Phase.generate])


def relative_error(ours: Tensor, expected: Tensor) -> float:
    """max |ours - expected| over max |expected|; 0 where both are zero, infinite where only `expected` is."""
    assert (ours.shape, ours.dtype) == (expected.shape, expected.dtype)
    if not expected.numel():
        return 0.0
    difference, scale = (ours - expected).abs().max().item(), expected.abs().max().item()
    return difference / scale if scale else float(difference and "inf")


def assert_close(ours: Sequence[Tensor], expected: Sequence[Tensor], within: float = 1e-12) -> None:
    """Each tensor equals its counterpart to `within`."""
    assert len(ours) == len(expected)
    assert_close_by_name(dict(enumerate(ours)), dict(enumerate(expected)), within)


def assert_close_by_name(ours: Mapping, expected: Mapping, within: float = 1e-12) -> None:
    """The same names, and each tensor equals its namesake to `within`."""
    assert ours.keys() == expected.keys()
    errors = {name: relative_error(ours[name], expected[name]) for name in expected}
    assert not {name: error for name, error in errors.items() if not error <= within}, errors
