"""Plain values: everything that a learner's function may return comes through, and no bytes can do anything else."""

import math
import pickle
import random
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from course.judge.plain import DTYPES, Other, Part, decode, encode

SCALARS = st.none() | st.booleans() | st.integers(-(2**80), 2**80) | st.floats(allow_nan=False) | st.text()
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner) | st.lists(inner).map(tuple) | st.dictionaries(st.text() | st.integers(), inner),
    max_leaves=20,
)


@given(VALUES)
def test_values_come_through_as_they_were(value: Any) -> None:
    assert decode(encode(value)) == value


def same(a: Tensor, b: Tensor) -> bool:
    return a.dtype == b.dtype and a.shape == b.shape and bool(torch.equal(a, b))


@pytest.mark.parametrize("name", DTYPES)
@pytest.mark.parametrize("shape", [(), (0,), (3,), (2, 0, 4), (2, 3, 4)])
def test_tensors_of_every_type_and_shape_come_through_bitwise(name: str, shape: tuple[int, ...]) -> None:
    tensor = (torch.randn(shape) * 100).to(DTYPES[name])
    assert same(decode(encode(tensor)), tensor)


def test_views_and_gradients_do_not_matter() -> None:
    whole = torch.arange(24.0, dtype=torch.float64).reshape(4, 6).requires_grad_()
    for view in (whole.T, whole[:, ::2], whole[1:3].T, whole.expand(2, 4, 6), torch.nn.Parameter(whole.detach())):
        assert same(decode(encode(view)), view.detach())
    lazily = torch.randn(3, dtype=torch.complex128).conj()
    assert same(decode(encode(lazily)), lazily.resolve_conj())


def test_several_tensors_in_lists_keep_their_places() -> None:
    value = decode(encode({"a": [torch.ones(2), (torch.zeros(3, dtype=torch.int64), 1.5)], "b": torch.ones(2, 2)}))
    assert same(value["a"][0], torch.ones(2))
    assert same(value["a"][1][0], torch.zeros(3, dtype=torch.int64))
    assert same(value["b"], torch.ones(2, 2))


def test_special_numbers_come_through() -> None:
    got = decode(encode([math.inf, -math.inf, math.nan, -0.0, 5e-324]))
    assert got[:2] == [math.inf, -math.inf]
    assert math.isnan(got[2])
    assert math.copysign(1, got[3]) == -1
    assert got[4] == 5e-324


class Anything:
    pass


@pytest.mark.parametrize("value", [Anything(), Anything, len, {1, 2}, b"bytes", torch.ones(2).to_sparse(), 1j])
def test_of_everything_else_only_the_name_of_its_type_is_told(value: object) -> None:
    assert decode(encode(value)) == Other(type(value).__name__)


def test_parts_of_the_mesh_come_through() -> None:
    assert decode(encode([Part("tp"), Part("mesh")])) == [Part("tp"), Part("mesh")]


def test_a_list_that_holds_itself_is_an_error() -> None:
    endless: list[Any] = []
    endless.append(endless)
    with pytest.raises(ValueError, match="lists within lists"):
        encode(endless)


def test_no_bytes_make_it_do_anything_but_read_or_raise_a_value_error() -> None:
    chance, good = random.Random(1), encode([torch.ones(3, 2), {"a": (1, 2.0, None, "x")}])
    for _ in range(3000):
        data = bytearray(good)
        for _ in range(chance.randint(1, 4)):
            data[chance.randrange(len(data))] = chance.randrange(256)
        cut = bytes(data[: chance.choice([len(data), chance.randrange(len(data))])])
        try:
            decode(cut)
        except ValueError:
            continue


@pytest.mark.parametrize(
    "header",
    [
        b'["tensor","float64",[1000000000000],8]',
        b'["tensor","float64",[-1],-8]',
        b'["tensor","float64",[true],8]',
        b'["tensor","object",[1],8]',
        b'["tensor","float64",[1]]',
        b'["tensor","float64",[2],16]',
        b'["tensor","float64",[' + b"1," * 40 + b"1],8]",
        b'["part","ledger"]',
        b'["is",{"a":1}]',
        b'["other",1]',
        b'["what",1]',
        b'["int","0x' + b"f" * 10 + b'g"]',
        b'["dict",[[1]]]',
        b'["dict",[[["list",[]],["is",null]]]]',
        b"[" * 5000,
        b"{}",
        b"7",
        b"\xff",
    ],
)
def test_a_header_that_lies_is_a_value_error(header: bytes) -> None:
    with pytest.raises(ValueError, match="cannot be read"):
        decode(len(header).to_bytes(8, "little") + header + b"\0" * 8)


def test_a_pickle_is_not_opened() -> None:
    with pytest.raises(ValueError, match="cannot be read"):
        decode(pickle.dumps(print))
