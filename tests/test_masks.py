"""Which pairs of query and key take part: masks, causality, windows, lengths, and what may leak."""

import math

import numpy as np
import pytest
from helpers import (
    DTYPES,
    assert_within,
    check,
    dtype_named,
    make_qkv,
    normal,
    same_bits,
    stored,
    sum_error,
)

import attnmod as am

INF, NAN = math.inf, math.nan


def random_bool(*shape, keep=0.6):
    return np.random.default_rng([7, *shape]).random(shape) < keep


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    "shape", [(), (1,), (110,), (20, 1), (20, 110), (2, 20, 110), (3, 1, 1, 110), (3, 2, 20, 110)]
)
def test_mask_broadcasts_to_the_scores(dtype, shape):
    arrays = make_qkv(3, 2, queries=20, keys=110, dtype=dtype)
    check(*arrays, np.asarray(random_bool(*shape)))
    check(*arrays, np.asarray(normal(*shape)))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("mask_dtype", DTYPES)
def test_float_mask_of_any_float_dtype_keeps_the_dtype_of_the_result(dtype, mask_dtype):
    arrays = make_qkv(2, queries=20, keys=30, dtype=dtype)
    mask = normal(20, 30, dtype=mask_dtype)
    mask[random_bool(20, 30, keep=0.3)] = -INF
    assert check(*arrays, mask).dtype == dtype_named(dtype)


@pytest.mark.parametrize("keep", [0.0, 0.02, 0.5, 1.0])
def test_bool_mask_is_true_where_a_pair_takes_part(keep):
    query, key, value = make_qkv(2, queries=70, keys=200)
    mask = random_bool(2, 70, 200, keep=keep)
    check(query, key, value, mask)
    weights = am.attention_scores(query, key, mask, stage="weights")
    assert np.array_equal(weights > 0, mask)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("queries", [3, 300])
def test_mask_in_blocks_hides_whole_tiles(queries, dtype):
    query, key, value = make_qkv(2, queries=queries, keys=500, dtype=dtype)
    block = np.minimum(np.arange(queries) * 4 // queries, 2)  # nobody sees the last 125 keys
    mask = block[:, None] == np.arange(500) // 125
    mask[queries // 2] = False
    key[:, 375:], value[:, 375:] = NAN, INF
    check(query, key, value, mask)
    check(query, key, value, np.where(mask, 0.25, -INF))
    check(query, key, value, mask, is_causal=True, q_offset=130)


@pytest.mark.parametrize("mask", [np.ones(300, bool), np.zeros((70, 300), np.float32)])
def test_mask_that_hides_nothing_changes_no_bit(mask):
    arrays = make_qkv(2, queries=70, keys=300)
    options = {"return_weights": True, "return_lse": True}
    masked = am.scaled_dot_product_attention(*arrays, mask, **options)
    for got, want in zip(masked, am.scaled_dot_product_attention(*arrays, **options), strict=True):
        assert same_bits(got, want)


def test_mask_of_minus_infinity_is_that_of_false():
    arrays = make_qkv(2, queries=20, keys=40)
    mask = random_bool(20, 40)
    assert same_bits(
        am.scaled_dot_product_attention(*arrays, mask),
        am.scaled_dot_product_attention(*arrays, np.where(mask, 0, -INF).astype(np.float32)),
    )


@pytest.mark.parametrize("dtype", DTYPES)
def test_row_without_keys_is_zero_with_lse_minus_infinity(dtype):
    query, key, value = make_qkv(2, queries=5, keys=9, dtype=dtype)
    mask = random_bool(5, 9)
    mask[2] = False
    for masked in (mask, np.where(mask, 0.0, -INF)):
        check(query, key, value, masked)
        out, weights, lse = am.scaled_dot_product_attention(
            query, key, value, masked, return_weights=True, return_lse=True
        )
        assert not out[:, 2].astype(float).any()
        assert not weights[:, 2].astype(float).any()
        assert np.all(lse[:, 2] == -INF)
        assert np.all(np.isfinite(lse[:, [0, 1, 3, 4]]))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_mask_of_the_least_number_is_finite_and_so_hides_a_key_only_behind_others(dtype):
    query, key, value = make_qkv(1, queries=4, keys=150, dtype=dtype)
    mask = np.zeros((4, 150), dtype)
    mask[0] = mask[1, 1:] = mask[2, :100] = mask[3, 50:] = np.finfo(dtype).min
    want = [value[0].mean(0), value[0, 0]]
    out = am.scaled_dot_product_attention(query, key, value, mask)[0]
    bound = sum_error(dtype, 150) * np.abs(value).max()
    for row, mean in enumerate(want):
        mean = mean.astype(np.float64)
        assert_within(out[row], mean, bound + stored(dtype, mean), f"row {row}")
    hidden = am.scaled_dot_product_attention(query, key, value, mask == 0)[0]
    assert same_bits(out[2:], hidden[2:])


# Positions


@pytest.mark.parametrize(("queries", "keys"), [(5, 5), (3, 9), (9, 3), (70, 130), (130, 70)])
def test_causal_is_top_left(queries, keys):
    query, key, value = make_qkv(2, queries=queries, keys=keys)
    check(query, key, value, is_causal=True)
    weights = am.attention_scores(query, key, stage="weights", is_causal=True)
    assert np.array_equal(weights > 0, np.broadcast_to(np.tri(queries, keys) > 0, weights.shape))


@pytest.mark.parametrize(("queries", "keys"), [(3, 9), (9, 3), (70, 130), (1, 300)])
def test_offset_of_the_difference_makes_causal_bottom_right(queries, keys):
    query, key, value = make_qkv(2, queries=queries, keys=keys)
    check(query, key, value, is_causal=True, q_offset=keys - queries)
    weights = am.attention_scores(
        query, key, stage="weights", is_causal=True, q_offset=keys - queries
    )
    visible = np.tri(queries, keys, keys - queries) > 0
    assert np.array_equal(weights > 0, np.broadcast_to(visible, weights.shape))


def test_causal_and_mask_both_hold():
    query, key, value = make_qkv(2, queries=20, keys=20)
    mask = random_bool(20, 20)
    both = am.attention_scores(query, key, mask, stage="weights", is_causal=True)
    assert np.array_equal(both[0] > 0, mask & (np.tri(20) > 0))
    check(query, key, value, mask, is_causal=True)


@pytest.mark.parametrize(
    "offset", [[0, 5, -7], [3], 4, np.int32(2), np.array([[1], [2]], np.int16)]
)
def test_offset_may_differ_by_batch(offset):
    arrays = make_qkv(2, 3, 2, queries=4, keys=9)
    check(*arrays, is_causal=True, q_offset=offset)
    check(*arrays, window=(2, 1), q_offset=offset)


@pytest.mark.parametrize("offset", [2**63 - 1, -(2**63), 2**62, 10**6, -(10**6)])
def test_offset_of_any_size(offset):
    arrays = make_qkv(2, queries=70, keys=9)
    check(*arrays, is_causal=True, q_offset=offset)
    check(*arrays, window=(3, None), q_offset=offset)
    check(*arrays, window=(None, 3), q_offset=offset)
    check(*arrays, window=(2**63 - 1, 2**63 - 1), q_offset=offset)


@pytest.mark.parametrize("left", [None, -1, 0, 1, 5, 100, 2**62])
@pytest.mark.parametrize("right", [None, -1, 0, 1, 5, 100, 2**62])
def test_window_is_inclusive_and_open_where_none_or_minus_one(left, right):
    query, key, value = make_qkv(2, queries=70, keys=130)
    check(query, key, value, window=(left, right))
    weights = am.attention_scores(query, key, stage="weights", window=(left, right))
    i, j = np.mgrid[:70, :130]
    visible = np.ones((70, 130), bool)
    if left not in (None, -1):
        visible &= j >= i - left
    if right not in (None, -1):
        visible &= j <= i + right
    assert np.array_equal(weights[0] > 0, visible)


def test_window_may_be_a_list_and_combines_with_causal():
    arrays = make_qkv(2, queries=70, keys=130)
    both = check(*arrays, window=[10, 5], is_causal=True)
    assert same_bits(both, am.scaled_dot_product_attention(*arrays, window=(10, 0)))


# Lengths


@pytest.mark.parametrize("kv_lens", [[130, 0, 64], 97, np.array([1, 2, 3], np.uint8), [[5]]])
def test_keys_past_their_length_take_no_part(kv_lens):
    shape = (3, 2) if np.ndim(kv_lens) < 2 else (4, 3, 2)
    query, key, value = make_qkv(*shape, queries=20, keys=130)
    check(query, key, value, kv_lens=kv_lens)
    weights = am.attention_scores(query, key, stage="weights", kv_lens=kv_lens)
    visible = np.arange(130) < np.asarray(kv_lens)[..., None, None, None]
    assert np.array_equal(weights > 0, np.broadcast_to(visible, weights.shape))


@pytest.mark.parametrize("q_lens", [[20, 0, 7], 19, np.array([1, 2, 3], np.int8)])
def test_rows_past_their_length_are_zero_with_lse_minus_infinity(q_lens):
    query, key, value = make_qkv(3, 2, queries=20, keys=30)
    check(query, key, value, q_lens=q_lens)
    out, lse = am.scaled_dot_product_attention(query, key, value, q_lens=q_lens, return_lse=True)
    past = np.arange(20) >= np.asarray(q_lens)[..., None, None]
    past = np.broadcast_to(past, lse.shape)
    assert not out[past].any()
    assert np.all(lse[past] == -INF)
    assert np.all(np.isfinite(lse[~past]))


def test_lengths_combine_with_causal_and_grouped_heads():
    query, key, value = make_qkv(2, 8, queries=9, keys=130, kv_heads=2)
    lens = np.array([40, 130])
    check(query, key, value, kv_lens=lens, q_offset=lens - 9, is_causal=True, q_lens=[9, 5])


def test_lengths_of_two_dimensional_inputs_are_one_number():
    query, key, value = normal(4, 3), normal(6, 3), normal(6, 2)
    check(query, key, value, kv_lens=3, q_lens=2, q_offset=1, is_causal=True)


# Leaks. Key 3 is poisoned and masked for query 2 in each of these ways.

WAYS_TO_MASK = {
    "bool mask": {"attn_mask": np.arange(7) != 3},
    "float mask": {"attn_mask": np.where(np.arange(7) != 3, 0.5, -INF)},
    "causal": {"is_causal": True},
    "window": {"window": (None, 0)},
    "kv_lens": {"kv_lens": 3},
    "q_lens": {"q_lens": 2},
}


@pytest.mark.parametrize("way", WAYS_TO_MASK)
@pytest.mark.parametrize("poison", [NAN, INF, -INF])
@pytest.mark.parametrize("dtype", DTYPES)
def test_poison_in_a_masked_key_and_value_does_not_leak(way, poison, dtype):
    query, key, value = make_qkv(2, queries=3, keys=7, dtype=dtype)
    clean = check(query, key, value, **WAYS_TO_MASK[way])
    key[:, 3] = poison
    value[:, 3] = poison
    poisoned = check(query, key, value, **WAYS_TO_MASK[way])
    assert same_bits(poisoned[:, 2], clean[:, 2])


@pytest.mark.parametrize("poison", [NAN, INF, -INF])
@pytest.mark.parametrize("keys", [7, 200])
def test_poison_in_a_visible_value_reaches_its_rows_and_columns_only(poison, keys):
    query, key, value = make_qkv(2, queries=70, keys=keys)
    clean = am.scaled_dot_product_attention(query, key, value, is_causal=True)
    value[1, 5, 2] = poison
    out = check(query, key, value, is_causal=True)
    assert np.array_equal(out[1, 5:, 2], np.full(65, poison), equal_nan=True)
    out[1, 5:, 2] = clean[1, 5:, 2]
    assert same_bits(out, clean)


def test_nan_in_a_visible_key_reaches_its_rows_only():
    query, key, value = make_qkv(2, queries=70, keys=200)
    clean = am.scaled_dot_product_attention(query, key, value, is_causal=True)
    key[1, 5, 2] = NAN
    out = check(query, key, value, is_causal=True)
    assert np.isnan(out[1, 5:]).all()
    out[1, 5:] = clean[1, 5:]
    assert same_bits(out, clean)


def test_nan_in_a_query_reaches_its_row_only():
    query, key, value = make_qkv(2, queries=70, keys=20)
    clean = am.scaled_dot_product_attention(query, key, value)
    query[0, 9, 1] = NAN
    out = check(query, key, value)
    assert np.isnan(out[0, 9]).all()
    out[0, 9] = clean[0, 9]
    assert same_bits(out, clean)


@pytest.mark.parametrize("poison", [NAN, INF])
def test_nan_and_infinity_in_a_float_mask_reach_their_rows_only(poison):
    query, key, value = make_qkv(2, queries=70, keys=20)
    mask = normal(70, 20)
    clean = am.scaled_dot_product_attention(query, key, value, mask)
    mask[3, 4] = poison
    out = check(query, key, value, mask)
    assert np.isnan(out[:, 3]).all()
    out[:, 3] = clean[:, 3]
    assert same_bits(out, clean)


def test_poison_in_uninitialised_padding_of_a_batch_does_not_leak():
    query, key, value = make_qkv(3, 2, queries=70, keys=200)
    lens = np.array([10, 96, 200])
    for batch, length in enumerate(lens):
        key[batch, :, length:] = NAN
        value[batch, :, length:] = INF
        query[batch, :, length:] = NAN
    out = check(query, key, value, kv_lens=lens, q_lens=np.minimum(lens, 70))
    assert np.isfinite(out).all()


def test_masked_key_stays_masked_however_steep_its_slope():
    query, key, value = make_qkv(1, queries=3, keys=6)
    for mask in (np.arange(6) < 2, np.where(np.arange(6) < 2, 0.0, -np.inf)):
        check(query, key, value, mask, alibi_slopes=[1e38])
        check(query, key, value, mask, alibi_slopes=[-1e38])
