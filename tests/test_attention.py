"""scaled_dot_product_attention: shapes, heads, scale and what is added to the scores."""

import inspect
import math

import numpy as np
import pytest
from helpers import DTYPES, assert_within, check, make_qkv, normal, same_bits, stored, sum_error

import attnmod as am

INF = math.inf


def test_signature_is_that_of_torch_plus_keywords():
    parameters = inspect.signature(am.scaled_dot_product_attention).parameters
    positional = [name for name, p in parameters.items() if p.kind is p.POSITIONAL_OR_KEYWORD]
    assert positional == (
        ["query", "key", "value", "attn_mask", "dropout_p", "is_causal", "scale", "enable_gqa"]
    )
    assert [name for name, p in parameters.items() if p.kind is p.KEYWORD_ONLY] == (
        [
            "q_offset",
            "window",
            "softcap",
            "alibi_slopes",
            "sinks",
            "q_lens",
            "kv_lens",
            "rng",
            "return_weights",
            "return_lse",
            "out",
            "num_threads",
        ]
    )


# Around the widths of tiles and vectors (4 to 64 rows, 96 keys) and of the microkernel (6 rows).
@pytest.mark.parametrize("queries", [1, 2, 7, 16, 33, 64, 65, 130])
@pytest.mark.parametrize("keys", [1, 5, 95, 96, 97, 200])
def test_numbers_of_queries_and_keys_around_tiles(queries, keys):
    check(*make_qkv(2, queries=queries, keys=keys, features=20))
    check(*make_qkv(2, queries=queries, keys=keys, features=20), is_causal=True)


@pytest.mark.parametrize("features", [1, 2, 3, 6, 8, 17, 40, 64, 77, 128, 257])
@pytest.mark.parametrize("value_features", [1, 5, 7, 64, 130])
def test_head_sizes_and_value_sizes_are_independent(features, value_features):
    arrays = make_qkv(2, queries=9, keys=11, features=features, value_features=value_features)
    assert check(*arrays).shape == (2, 9, value_features)


@pytest.mark.parametrize("axis", ["batch", "heads", "queries", "keys", "features", "value"])
def test_dimension_of_size_zero(axis):
    size = dict.fromkeys(["batch", "heads", "queries", "keys", "features", "value"], 3) | {axis: 0}
    leading = size["batch"], size["heads"]
    query = normal(*leading, size["queries"], size["features"])
    key = normal(*leading, size["keys"], size["features"])
    value = normal(*leading, size["keys"], size["value"])
    out = check(query, key, value)
    assert out.shape == (*leading, size["queries"], size["value"])


def test_no_keys_at_all_gives_zero_output_and_lse_minus_infinity():
    query, key, value = make_qkv(2, queries=4, keys=0)
    out, weights, lse = am.scaled_dot_product_attention(
        query, key, value, return_weights=True, return_lse=True
    )
    assert weights.shape == (2, 4, 0)
    assert not out.any()
    assert np.all(lse == -INF)


@pytest.mark.parametrize(
    ("query", "key", "value", "result"),
    [
        ((4, 3), (5, 3), (5, 2), (4, 2)),
        ((4, 3), (6, 5, 3), (6, 5, 2), (6, 4, 2)),
        ((4, 3), (5, 3), (6, 5, 2), (6, 4, 2)),
        ((6, 4, 3), (5, 3), (5, 2), (6, 4, 2)),
        ((6, 4, 3), (5, 3), (6, 5, 2), (6, 4, 2)),
        ((1, 6, 4, 3), (7, 6, 5, 3), (7, 6, 5, 2), (7, 6, 4, 2)),
        ((6, 4, 3), (7, 6, 5, 3), (6, 5, 2), (7, 6, 4, 2)),
        ((7, 6, 4, 3), (5, 3), (6, 5, 2), (7, 6, 4, 2)),
        ((2, 1, 6, 4, 3), (3, 6, 5, 3), (2, 3, 6, 5, 2), (2, 3, 6, 4, 2)),
        ((2, 1, 2, 6, 4, 3), (3, 1, 6, 5, 3), (6, 5, 2), (2, 3, 2, 6, 4, 2)),
        ((0, 6, 4, 3), (1, 6, 5, 3), (6, 5, 2), (0, 6, 4, 2)),
    ],
)
def test_leading_axes_broadcast_as_in_matmul(query, key, value, result):
    arrays = normal(*query), normal(*key), normal(*value)
    assert check(*arrays).shape == result
    leading = result[:-2]
    out, weights, lse = am.scaled_dot_product_attention(
        *arrays, return_weights=True, return_lse=True
    )
    assert out.shape == result
    assert weights.shape == (*leading, 4, 5)
    assert lse.shape == (*leading, 4)


def test_sixteen_axes():
    arrays = [
        x.reshape(*[1] * 12, 2, 3, 4, 5) for x in make_qkv(2, 3, queries=4, keys=4, features=5)
    ]
    assert check(*arrays).shape == (*[1] * 12, 2, 3, 4, 5)


def test_results_come_as_out_weights_lse():
    arrays = make_qkv(2, queries=3, keys=5, value_features=7)
    shapes = {"out": (2, 3, 7), "weights": (2, 3, 5), "lse": (2, 3)}
    for weights in (False, True):
        for lse in (False, True):
            got = am.scaled_dot_product_attention(*arrays, return_weights=weights, return_lse=lse)
            wanted = ["out", *["weights"] * weights, *["lse"] * lse]
            got = got if isinstance(got, tuple) else (got,)
            assert [x.shape for x in got] == [shapes[name] for name in wanted]


@pytest.mark.parametrize("queries", [1, 5, 33])
def test_many_small_heads(queries):
    arrays = make_qkv(150, 3, queries=queries, keys=9)
    out = check(*arrays)
    for threads in (1, 2, 5):
        again = am.scaled_dot_product_attention(*arrays, num_threads=threads)
        assert same_bits(again, out)


def test_lists_are_taken_as_arrays():
    out = am.scaled_dot_product_attention([[1.0], [0.0]], [[0.0], [0.0]], [[2.0], [4.0]])
    assert out.dtype == np.float64
    assert out.tolist() == [[3.0], [3.0]]


def test_inputs_are_not_modified():
    arrays = make_qkv(2, queries=5, keys=5)
    mask = normal(5, 5)
    copies = [x.copy() for x in (*arrays, mask)]
    am.scaled_dot_product_attention(*arrays, mask, is_causal=True, return_weights=True)
    assert all(same_bits(x, copy) for x, copy in zip((*arrays, mask), copies, strict=True))


@pytest.mark.parametrize("scale", [None, 1.0, 0.25, 0.0, -1.5, np.float32(0.5), 2])
def test_scale(scale):
    check(*make_qkv(2, queries=5, keys=9), scale=scale)


def test_scale_of_zero_takes_the_mean_of_the_values():
    query, key, value = make_qkv(2, queries=3, keys=50)
    out = am.scaled_dot_product_attention(query, key, value, scale=0.0)
    mean = value.astype(np.float64).mean(axis=-2, keepdims=True) + np.zeros((2, 3, 1))
    assert_within(
        out, mean, sum_error("float32", 50) * np.abs(value).max() + stored("float32", mean)
    )


@pytest.mark.parametrize("dtype", DTYPES)
def test_scores_of_thousands_do_not_overflow(dtype):
    query, key, value = make_qkv(2, queries=20, keys=130, features=8, dtype=dtype)
    out = check(query, key, value, scale=1000.0)
    assert np.isfinite(out.astype(np.float64)).all()


# Heads


@pytest.mark.parametrize(("heads", "kv_heads"), [(8, 2), (6, 3), (5, 1), (4, 4), (71, 1)])
@pytest.mark.parametrize("queries", [1, 3, 20])
def test_query_head_reads_the_key_head_of_its_group(heads, kv_heads, queries):
    query, key, value = make_qkv(2, heads, queries=queries, keys=13, kv_heads=kv_heads)
    check(query, key, value)
    check(query, key, value, is_causal=True, q_offset=13 - queries)


def test_grouped_heads_differ_from_each_other():
    query = np.ones((4, 1, 1), np.float32)
    value = np.array([[[1.0]], [[2.0]]], np.float32)
    out = am.scaled_dot_product_attention(query, np.zeros_like(value), value, enable_gqa=True)
    assert out.ravel().tolist() == [1, 1, 2, 2]


def test_array_without_head_axis_serves_all_heads_without_enable_gqa():
    query, key, value = normal(4, 5, 3), normal(7, 3), normal(7, 2)
    assert check(query, key, value, enable_gqa=False).shape == (4, 5, 2)
    assert check(query, key, np.stack([value] * 4), enable_gqa=False).shape == (4, 5, 2)


# What is added to the scores


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("softcap", [0.5, 5.0, 50.0])
def test_softcap(dtype, softcap):
    check(*make_qkv(2, queries=20, keys=30, dtype=dtype), softcap=softcap, scale=2.0)


def test_softcap_none_and_zero_are_off():
    arrays = make_qkv(2, queries=5, keys=6)
    plain = am.scaled_dot_product_attention(*arrays)
    for off in (None, 0, 0.0):
        assert same_bits(plain, am.scaled_dot_product_attention(*arrays, softcap=off))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("options", [{}, {"is_causal": True}, {"q_offset": 37}, {"q_offset": -4}])
def test_alibi(dtype, options):
    arrays = make_qkv(2, 4, queries=20, keys=110, dtype=dtype)
    check(*arrays, alibi_slopes=2.0 ** -np.arange(1, 5), **options)


def test_alibi_slopes_may_differ_by_batch_and_be_a_list_or_one_number():
    arrays = make_qkv(3, 2, queries=4, keys=5)
    check(*arrays, alibi_slopes=np.linspace(-0.5, 1, 6).reshape(3, 2))
    check(*arrays, alibi_slopes=[0.5, 0.25])
    check(*arrays, alibi_slopes=0.5)


def test_alibi_measures_the_distance_from_the_offset():
    key = np.zeros((4, 1))
    scores = am.attention_scores(
        np.zeros((2, 1)), key, stage="biased", alibi_slopes=0.5, q_offset=1
    )
    assert scores.tolist() == [[-0.5, 0, -0.5, -1], [-1, -0.5, 0, -0.5]]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("sinks", [[0.0, -3.0], [30.0, 2.0], [-INF, 1.0]])
def test_sinks(dtype, sinks):
    check(*make_qkv(3, 2, queries=20, keys=100, dtype=dtype), sinks=sinks)


def test_sink_takes_its_share_of_the_weight_and_no_value():
    one = np.ones((1, 1, 1))
    out, weights, lse = am.scaled_dot_product_attention(
        np.zeros((1, 1, 1)), one, one, sinks=[math.log(3)], return_weights=True, return_lse=True
    )
    bound = sum_error("float64", 2) * 4
    assert_within(out, np.full((1, 1, 1), 0.25), bound)
    assert_within(weights, np.full((1, 1, 1), 0.25), bound)
    assert_within(lse, np.full((1, 1), math.log(4)), bound)


def test_row_without_keys_has_the_sink_as_its_lse():
    query, key, value = make_qkv(2, queries=3, keys=4)
    options = {"sinks": [1.5, -INF], "kv_lens": 0}
    out = check(query, key, value, **options)
    _, lse = am.scaled_dot_product_attention(query, key, value, return_lse=True, **options)
    assert not out.any()
    assert lse.tolist() == [[1.5] * 3, [-INF] * 3]


def test_softcap_comes_before_bias_and_alibi_and_these_before_the_masks():
    query, key, value = make_qkv(2, queries=6, keys=7)
    bias = 5 * normal(6, 7)
    options = {"softcap": 1.0, "scale": 4.0, "alibi_slopes": [0.5, 2.0], "is_causal": True}
    check(query, key, value, bias, **options)


def test_everything_at_once():
    query, key, value = make_qkv(3, 6, queries=37, keys=130, kv_heads=2)
    check(
        query, key, value, normal(3, 1, 37, 130), dropout_p=0.3, rng=5, is_causal=True, scale=0.4,
        q_offset=np.array([80, 93, 120]), window=(70, 5), softcap=8.0, alibi_slopes=[0.01] * 6,
        sinks=normal(6), q_lens=[37, 20, 0], kv_lens=np.array([130, 99, 64]),
    )  # fmt: skip


@pytest.mark.parametrize("shape", [(2, 0, 3), (2, 4, 0), (0, 4, 3)])
def test_empty_out_is_taken(shape):
    heads, queries, features = shape
    query, key, value = (
        np.ones((heads, queries, 3)),
        np.ones((heads, 5, 3)),
        np.ones((heads, 5, features)),
    )
    out = np.empty(shape)
    assert am.scaled_dot_product_attention(query, key, value, out=out) is out
