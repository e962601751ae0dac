"""attention_scores, key_weights, and the weights that attention returns."""

import math

import numpy as np
import pytest
from helpers import (
    DTYPES,
    assert_within,
    check_key_weights,
    check_scores,
    make_qkv,
    normal,
    same_bits,
    stored,
    sum_error,
)

import attnmod as am
from attnmod import reference

INF = math.inf
STAGES = ("raw", "softcapped", "biased", "weights")
EVERYTHING = {
    "is_causal": True, "scale": 0.7, "enable_gqa": True, "q_offset": [60, 100], "window": (90, 3),
    "softcap": 3.0, "alibi_slopes": [0.1, 0.2, 0.3, 0.4], "sinks": [0.0, 1.0, -1.0, -INF],
    "q_lens": [37, 20], "kv_lens": [100, 130],
}  # fmt: skip


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("stage", STAGES)
def test_each_stage_with_every_option(stage, dtype):
    query, key, _ = make_qkv(2, 4, queries=37, keys=130, kv_heads=2, dtype=dtype)
    check_scores(query, key, stage=stage, attn_mask=normal(1, 37, 130), **EVERYTHING)


@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize("shape", [(5, 8), (3, 5, 8), (2, 3, 5, 8), (1, 2, 2, 3, 5, 8)])
def test_stages_of_two_to_six_axes(stage, shape):
    query, key = normal(*shape), normal(*shape[:-2], 9, 8, seed=1)
    assert check_scores(query, key, stage=stage).shape == (*shape[:-2], 5, 9)


def test_default_stage_is_raw():
    query, key, _ = make_qkv(2, queries=4, keys=5)
    got = am.attention_scores(query, key, softcap=1.0, is_causal=True)
    assert same_bits(got, am.attention_scores(query, key, stage="raw"))


def test_raw_and_softcapped_scores_know_no_masks():
    query, key, _ = make_qkv(2, queries=4, keys=5)
    mask = np.zeros((4, 5), bool)
    for stage in ("raw", "softcapped"):
        options = {"stage": stage, "softcap": 2.0}
        plain = am.attention_scores(query, key, **options)
        masked = am.attention_scores(query, key, mask, kv_lens=2, q_lens=1, **options)
        assert same_bits(plain, masked)


def test_masked_scores_are_minus_infinity_and_masked_weights_zero():
    query, key, _ = make_qkv(2, queries=4, keys=5)
    key[:, 4] = math.nan
    masked = ~np.tri(4, 5, dtype=bool)
    biased = am.attention_scores(query, key, stage="biased", is_causal=True)
    weights = am.attention_scores(query, key, stage="weights", is_causal=True)
    assert np.array_equal(np.isneginf(biased), np.broadcast_to(masked, biased.shape))
    assert np.array_equal(weights == 0, np.broadcast_to(masked, biased.shape))


@pytest.mark.parametrize("keys", [0, 1])
@pytest.mark.parametrize("queries", [0, 1])
@pytest.mark.parametrize("features", [0, 1])
def test_scores_of_empty_arrays(queries, keys, features):
    query, key = np.zeros((2, queries, features)), np.zeros((2, keys, features))
    for stage in STAGES:
        got = am.attention_scores(query, key, stage=stage)
        assert same_bits(got, reference.attention_scores(query, key, stage=stage))
    assert same_bits(am.key_weights(query, key), reference.key_weights(query, key))


# Weights


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("keys", [1, 97, 1000])
def test_weights_of_a_row_sum_to_one(dtype, keys):
    arrays = make_qkv(2, queries=20, keys=keys, dtype=dtype)
    _, weights = am.scaled_dot_product_attention(*arrays, return_weights=True)
    weights = weights.astype(np.float64)
    bound = sum_error(dtype, keys) + stored(dtype, weights).sum(-1)
    assert_within(weights.sum(-1), np.ones((2, 20)), bound)


@pytest.mark.parametrize("stage_of", ["scores", "attention"])
def test_weights_lie_between_zero_and_one(stage_of):
    query, key, value = make_qkv(2, queries=50, keys=130)
    if stage_of == "scores":
        weights = am.attention_scores(query, key, stage="weights", scale=30.0)
    else:
        _, weights = am.scaled_dot_product_attention(
            query, key, value, scale=30.0, return_weights=True
        )
    assert weights.min() >= 0
    assert weights.max() <= 1 + 2 * sum_error("float32", 130)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_weights_times_values_are_the_output(dtype):
    query, key, value = make_qkv(2, queries=20, keys=130, dtype=dtype)
    out, weights = am.scaled_dot_product_attention(
        query, key, value, is_causal=True, dropout_p=0.2, rng=3, return_weights=True
    )
    product = weights.astype(np.float64) @ value.astype(np.float64)
    assert_within(out, product, 2 * sum_error(dtype, 130) * np.abs(value).max() * 1.25)


def test_scores_and_attention_have_the_same_weights():
    query, key, value = make_qkv(2, queries=20, keys=130)
    _, weights = am.scaled_dot_product_attention(
        query, key, value, is_causal=True, return_weights=True
    )
    assert same_bits(weights, am.attention_scores(query, key, stage="weights", is_causal=True))


# key_weights


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("queries", "keys"), [(1, 1), (3, 97), (37, 130), (200, 5), (130, 300)])
def test_key_weights_are_the_sums_over_queries(dtype, queries, keys):
    query, key, _ = make_qkv(2, 4, queries=queries, keys=keys, kv_heads=2, dtype=dtype)
    assert check_key_weights(query, key).shape == (2, 4, keys)


@pytest.mark.parametrize("dtype", DTYPES)
def test_key_weights_with_every_option(dtype):
    query, key, _ = make_qkv(2, 4, queries=37, keys=130, kv_heads=2, dtype=dtype)
    check_key_weights(query, key, attn_mask=normal(1, 37, 130), **EVERYTHING)


def test_key_weights_sum_to_the_number_of_rows_with_keys():
    query, key, _ = make_qkv(3, queries=70, keys=130)
    got = am.key_weights(query, key, q_lens=50).astype(np.float64)
    assert_within(got.sum(-1), np.full(3, 50.0), 50 * (sum_error("float32", 130 * 70)))


def test_key_weights_of_two_axes():
    query, key = normal(5, 3), normal(7, 3)
    assert am.key_weights(query, key).shape == (7,)


def test_poison_in_a_key_reaches_the_rows_that_see_it():
    query, key, _ = make_qkv(1, queries=4, keys=6)
    key[0, 2] = math.nan
    got = am.key_weights(query, key, is_causal=True)
    want = reference.key_weights(query, key, is_causal=True)
    assert np.array_equal(np.isnan(got), np.isnan(want))
    assert np.array_equal(got[0, 4:], [0, 0])
