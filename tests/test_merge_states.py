"""merge_states: attention over two sets of keys, from the attention over each."""

import math

import numpy as np
import pytest
from helpers import (
    DTYPES,
    assert_within,
    dtype_named,
    make_qkv,
    normal,
    same_bits,
    stored,
    sum_error,
)

import attnmod as am
from attnmod import reference

INF = math.inf


def state(query, key, value, keys, **options):
    return am.scaled_dot_product_attention(
        query, key[..., keys, :], value[..., keys, :], return_lse=True, **options
    )


def check_merge(*states):
    got, want = am.merge_states(*states), reference.merge_states(*states)
    dtype = states[0].dtype
    off = (
        8 * sum_error(dtype, 2) * np.nan_to_num(np.abs(states[0]).astype(np.float64)).max(initial=0)
    )
    off += (
        8 * sum_error(dtype, 2) * np.nan_to_num(np.abs(states[2]).astype(np.float64)).max(initial=0)
    )
    assert got[0].dtype == dtype
    assert got[1].dtype == states[1].dtype
    lse = np.nan_to_num(np.abs(want[1]), posinf=0)
    grow = (1 + lse)[..., None]
    assert_within(got[0], want[0], off * grow + stored(dtype, want[0]), "out")
    assert_within(got[1], want[1], sum_error(dtype, 2) * (1 + lse) + stored(got[1].dtype, want[1]))
    return got


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("cut", [0, 1, 50, 96, 129, 130])
def test_halves_merge_to_the_whole(dtype, cut):
    query, key, value = make_qkv(2, 3, queries=20, keys=130, dtype=dtype)
    a, b = (state(query, key, value, keys) for keys in (slice(cut), slice(cut, None)))
    out, lse = check_merge(*a, *b)
    whole = reference.scaled_dot_product_attention(query, key, value, return_lse=True)
    bound = 32 * sum_error(dtype, 130) * np.abs(value.astype(np.float64)).max()
    assert_within(out, whole[0], bound + 3 * stored(dtype, np.full(1, 2.0)))
    assert_within(lse, whole[1], 32 * sum_error(dtype, 130))


@pytest.mark.parametrize("dtype", DTYPES)
def test_state_that_saw_no_key_is_the_identity(dtype):
    query, key, value = make_qkv(2, 3, queries=20, keys=30, dtype=dtype)
    whole = state(query, key, value, slice(None))
    none = state(query, key, value, slice(0))
    for merged in (am.merge_states(*whole, *none), am.merge_states(*none, *whole)):
        assert np.array_equal(merged[0], whole[0])
        assert same_bits(merged[1], whole[1])


def test_two_states_that_saw_no_key_give_another():
    out, lse = am.merge_states(*[np.zeros((3, 2)), np.full(3, -INF)] * 2)
    assert not out.any()
    assert np.all(lse == -INF)


def test_nan_in_a_state_that_saw_no_key_does_not_leak():
    out, lse = check_merge(
        np.full((1, 2), np.nan), np.array([-INF]), np.array([[1.0, 2.0]]), np.array([0.5])
    )
    assert out.tolist() == [[1.0, 2.0]]
    assert lse.tolist() == [0.5]


def test_nan_in_a_state_that_saw_keys_stays_in_its_rows():
    a = normal(3, 4), normal(3)
    b = normal(3, 4, seed=1), normal(3, seed=1)
    a[0][1, 2] = np.nan
    b[1][2] = np.nan
    out, _ = check_merge(*a, *b)
    wanted = np.zeros((3, 4), bool)
    wanted[1, 2] = wanted[2] = True
    assert np.array_equal(np.isnan(out), wanted)


def test_sinks_given_to_one_part_count_once():
    query, key, value = make_qkv(2, 4, queries=20, keys=50, dtype="float64")
    sinks = normal(4, dtype="float64")
    first = state(query, key, value, slice(20), sinks=sinks)
    rest = state(query, key, value, slice(20, None))
    out, lse = am.merge_states(*first, *rest)
    want = reference.scaled_dot_product_attention(query, key, value, sinks=sinks, return_lse=True)
    assert_within(out, want[0], 32 * sum_error("float64", 50) * np.abs(value).max())
    assert_within(lse, want[1], 32 * sum_error("float64", 50))


def test_part_whose_rows_see_only_the_sink_merges_exactly():
    query, key, value = make_qkv(2, 4, queries=20, keys=50, dtype="float64")
    sinks = normal(4, dtype="float64")
    only_sink = state(query, key, value, slice(10), sinks=sinks, kv_lens=0)
    keys = state(query, key, value, slice(None))
    out, lse = am.merge_states(*only_sink, *keys)
    want = reference.scaled_dot_product_attention(query, key, value, sinks=sinks, return_lse=True)
    assert_within(out, want[0], 32 * sum_error("float64", 50) * np.abs(value).max())
    assert_within(lse, want[1], 32 * sum_error("float64", 50))


def test_order_of_merging_matters_only_by_rounding():
    query, key, value = make_qkv(2, queries=9, keys=30, dtype="float64")
    a, b, c = (state(query, key, value, keys) for keys in (slice(9), slice(9, 11), slice(11, 30)))
    left = am.merge_states(*am.merge_states(*a, *b), *c)
    right = am.merge_states(*a, *am.merge_states(*b, *c))
    assert_within(left[0], right[0], 32 * sum_error("float64", 30) * np.abs(value).max())
    assert_within(left[1], right[1], 32 * sum_error("float64", 30))


@pytest.mark.parametrize("lse", [0.0, 1000.0, -1000.0, 1e30])
def test_lse_of_any_size(lse):
    a = normal(3, 4), np.full(3, lse, np.float32)
    b = normal(3, 4, seed=1), np.full(3, lse - 1, np.float32)
    check_merge(*a, *b)


@pytest.mark.parametrize("shape", [(4,), (3, 4), (2, 3, 4), (2, 1, 2, 3, 4)])
def test_any_number_of_axes(shape):
    check_merge(
        normal(*shape), normal(*shape[:-1]), normal(*shape, seed=1), normal(*shape[:-1], seed=1)
    )


def test_layout_does_not_change_a_bit():
    states = normal(6, 5, 4), normal(6, 5), normal(6, 5, 4, seed=1), normal(6, 5, seed=1)
    want = am.merge_states(*states)
    for got in (
        am.merge_states(*map(np.asfortranarray, states)),
        am.merge_states(*(x[::-1].copy()[::-1] for x in states)),
        am.merge_states(*(x.astype(x.dtype.newbyteorder()) for x in states)),
    ):
        assert all(same_bits(np.ascontiguousarray(a), b) for a, b in zip(got, want, strict=True))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_small_dtypes_keep_their_dtype_beside_a_float32_lse(dtype):
    states = (
        normal(2, 3, dtype=dtype),
        normal(2),
        normal(2, 3, dtype=dtype, seed=1),
        normal(2, seed=1),
    )
    out, lse = am.merge_states(*states)
    assert out.dtype == dtype_named(dtype)
    assert lse.dtype == np.float32


def test_wide_outs_keep_their_precision_beside_narrow_lses():
    a = normal(3, 4, dtype="float64"), np.zeros(3, np.float32)
    b = normal(3, 4, dtype="float64", seed=1), np.zeros(3, np.float32)
    out, _ = am.merge_states(*a, *b)
    assert np.array_equal(out, (a[0] + b[0]) / 2)


def test_nan_of_a_part_whose_weight_vanishes_is_still_seen():
    out, _ = am.merge_states(
        np.ones((1, 2)), np.zeros(1), np.full((1, 2), np.nan), np.array([-800.0])
    )
    assert np.isnan(out).all()
