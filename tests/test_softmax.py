"""softmax: any axis, any strides, and what infinities and NaN do."""

import math

import numpy as np
import pytest
from helpers import DTYPES, assert_within, largest, normal, same_bits, stored, sum_error

import attnmod as am
from attnmod import reference

INF, NAN = math.inf, math.nan


def check_softmax(x, axis=-1):
    got, want = am.softmax(x, axis), reference.softmax(x, axis)
    assert got.dtype == x.dtype
    off = sum_error(x.dtype, x.shape[axis]) + 2 * sum_error(x.dtype, 1) * largest(x)
    assert_within(got, want, off * np.nan_to_num(want) + stored(x.dtype, want))
    return got


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("length", [1, 2, 15, 16, 17, 96, 97, 1000])
def test_lengths_around_tiles(dtype, length):
    check_softmax(normal(7, length, dtype=dtype))
    check_softmax(normal(70, length, dtype=dtype))


@pytest.mark.parametrize("axis", [0, 1, 2, 3, -1, -2, -4])
def test_any_axis(axis):
    check_softmax(normal(3, 20, 1, 5), axis)


def test_axis_is_the_last_by_default_and_may_be_named():
    x = normal(4, 5)
    assert same_bits(am.softmax(x), am.softmax(x, axis=-1))
    assert same_bits(am.softmax(x, 0), am.softmax(x, axis=0))


def test_vector():
    assert check_softmax(normal(9)).shape == (9,)


@pytest.mark.parametrize("dtype", DTYPES)
def test_sum_is_one(dtype):
    got = am.softmax(normal(30, 500, dtype=dtype)).astype(np.float64)
    assert_within(got.sum(-1), np.ones(30), sum_error(dtype, 500) + stored(dtype, got).sum(-1))


@pytest.mark.parametrize("dtype", DTYPES)
def test_large_numbers_do_not_overflow(dtype):
    check_softmax(normal(10, 50, dtype=dtype) * 10000)
    top = float(np.float32(3e38)) if dtype in ("float32", "bfloat16") else 60000.0
    x = np.array([[top, top, -top]]).astype(normal(1, dtype=dtype).dtype)
    assert am.softmax(x).tolist() == [[0.5, 0.5, 0.0]]


@pytest.mark.parametrize("dtype", DTYPES)
def test_infinities_and_nan(dtype):
    x = np.array([[1, -INF, 2], [-INF, -INF, -INF], [NAN, 0, 1], [INF, 0, 1], [0, 1, 2]]).astype(
        normal(1, dtype=dtype).dtype
    )
    got = check_softmax(x)
    assert got[0, 1] == 0
    assert not got[1].astype(np.float64).any()
    assert np.isnan(got[2:4].astype(np.float64)).all()
    assert np.isfinite(got[4].astype(np.float64)).all()


@pytest.mark.parametrize("shape", [(0,), (0, 3), (3, 0), (2, 0, 3)])
def test_empty(shape):
    assert am.softmax(np.zeros(shape)).shape == shape


def test_layout_does_not_change_a_bit():
    x = normal(4, 6, 50)
    want = am.softmax(x)
    gaps = np.full((8, 6, 100), np.nan, np.float32)
    gaps[::2, :, ::2] = x
    raw = np.zeros(x.nbytes + 1, np.uint8)
    unaligned = np.ndarray(x.shape, x.dtype, raw, offset=1)
    unaligned[...] = x
    repeated = np.broadcast_to(x[:1], x.shape)
    for view in (
        np.asfortranarray(x), gaps[::2, :, ::2], unaligned, x[::-1, :, ::-1].copy()[::-1, :, ::-1],
        x.astype(">f4"),
    ):  # fmt: skip
        assert same_bits(am.softmax(view), want)
    assert same_bits(am.softmax(repeated), np.broadcast_to(want[:1], x.shape).copy())
    assert same_bits(np.ascontiguousarray(am.softmax(x.T, axis=0).T), want)


def test_input_is_not_modified():
    x = normal(5, 6)
    copy = x.copy()
    am.softmax(x, 0)
    assert same_bits(x, copy)
