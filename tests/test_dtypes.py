"""The four dtypes: what comes out, and how far from the exact result it may be."""

import numpy as np
import pytest
from helpers import DTYPES, UNIT_ROUNDOFF, check, dtype_named, make_qkv

import attnmod as am
from attnmod import reference


@pytest.mark.parametrize("dtype", DTYPES)
def test_results_have_the_dtype_of_the_query_and_lse_is_float32_or_float64(dtype):
    arrays = make_qkv(2, queries=3, keys=4, dtype=dtype)
    out, weights, lse = am.scaled_dot_product_attention(
        *arrays, return_weights=True, return_lse=True
    )
    assert out.dtype == weights.dtype == dtype_named(dtype)
    assert lse.dtype == (np.float64 if dtype == "float64" else np.float32)
    assert am.attention_scores(*arrays[:2]).dtype == dtype_named(dtype)
    assert am.key_weights(*arrays[:2]).dtype == dtype_named(dtype)
    assert am.softmax(arrays[0]).dtype == dtype_named(dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    ("queries", "keys", "features"), [(1, 1000, 64), (65, 97, 40), (130, 300, 64), (5, 2, 257)]
)
def test_error_is_within_rounding_of_the_exact_result(dtype, queries, keys, features):
    check(*make_qkv(2, queries=queries, keys=keys, features=features, dtype=dtype))


# A number rounded once is off by a quarter of an ULP on average; a second rounding would show.
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_mean_error_of_a_small_dtype_is_that_of_one_rounding(dtype):
    arrays = make_qkv(4, queries=100, keys=200, features=64, dtype=dtype)
    want = reference.scaled_dot_product_attention(*arrays)
    got = am.scaled_dot_product_attention(*arrays).astype(np.float64)
    ulp = 2 * UNIT_ROUNDOFF[dtype] * 2 ** np.floor(np.log2(np.abs(want)))
    assert abs(np.mean(np.abs(got - want) / ulp) - 0.25) <= 4 * 0.25 / np.sqrt(got.size)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_result_of_a_small_dtype_is_that_of_float32_rounded(dtype):
    arrays = make_qkv(2, queries=40, keys=100, dtype=dtype)
    wide = am.scaled_dot_product_attention(*(x.astype(np.float32) for x in arrays))
    got = am.scaled_dot_product_attention(*arrays)
    assert np.array_equal(got, wide.astype(dtype_named(dtype)))


def all_finite(dtype):
    numbers = np.arange(2**16, dtype=np.uint16).view(dtype_named(dtype))
    return numbers[np.isfinite(numbers.astype(np.float32))]


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_every_number_of_a_small_dtype_is_read_and_written_exactly(dtype):
    numbers = all_finite(dtype)[None]
    zero = np.zeros((1, 1), numbers.dtype)
    assert np.array_equal(am.scaled_dot_product_attention(zero, zero, numbers), numbers)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_ties_round_to_even(dtype):
    # Two keys of equal weight: the mean of two neighbours lies in the middle, exactly.
    numbers = np.sort(all_finite(dtype).astype(np.float32))
    pairs = np.stack([numbers[:-1], numbers[1:]])
    pairs = pairs[:, np.abs(pairs).max(axis=0) < np.finfo(np.float32).max / 2]
    zero = np.zeros((2, 1), dtype_named(dtype))
    out = am.scaled_dot_product_attention(zero, zero, pairs.astype(zero.dtype))
    want = (pairs.sum(axis=0) / 2).astype(zero.dtype)
    assert np.array_equal(out, np.stack([want, want]))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_scores_round_to_nearest_even(dtype):
    # A product of two numbers of a small dtype is exact in float32, and rounds once.
    rng = np.random.default_rng(1)
    a, b = (
        (rng.standard_normal((300, 1)) * 2.0 ** rng.integers(-9, 5, (300, 1))).astype(
            dtype_named(dtype)
        )
        for _ in range(2)
    )
    exact = a.astype(np.float32) * b.astype(np.float32).T
    got = am.attention_scores(a, b, scale=1.0)
    assert np.array_equal(got.view(np.uint16), exact.astype(got.dtype).view(np.uint16))


def test_float16_result_beyond_its_range_is_infinite():
    one = np.full((1, 1), 300, np.float16)
    assert am.attention_scores(one, one, scale=1.0)[0, 0] == np.inf
    assert am.attention_scores(one, -one, scale=1.0)[0, 0] == -np.inf


@pytest.mark.parametrize("dtype", DTYPES)
def test_subnormal_numbers_are_kept(dtype):
    tiny = {"float16": 2.0**-20, "bfloat16": 2.0**-130, "float32": 2.0**-130, "float64": 2.0**-1030}
    value = np.full((3, 2), tiny[dtype]).astype(dtype_named(dtype))
    zero = np.zeros((3, 2), dtype_named(dtype))
    out = am.scaled_dot_product_attention(zero, zero, value)
    assert np.all(np.abs(out.astype(np.float64) / tiny[dtype] - 1) <= 2 * UNIT_ROUNDOFF["bfloat16"])
