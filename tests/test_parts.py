"""Few queries against many keys: features lie in the lanes, and keys are split and merged."""

import numpy as np
import pytest
from helpers import DTYPES, check, make_qkv, normal, same_bits

import attnmod as am

# One row, a few that fit half a vector, one vector, several vectors: each with keys in many parts.
SHAPES = {
    "one query": ((1, 1), {"queries": 1, "keys": 5000}),
    "a group of heads": ((2, 8), {"queries": 1, "keys": 3100, "kv_heads": 2}),
    "some queries": ((1, 2), {"queries": 3, "keys": 2500, "features": 33, "value_features": 17}),
    "many queries": ((3,), {"queries": 37, "keys": 4097, "features": 20, "value_features": 5}),
}
OPTIONS = {
    "plain": {},
    "bottom-right causal": {"is_causal": True, "q_offset": 2400},
    "window inside one part": {"window": (100, 50), "q_offset": 1500},
    "window over parts": {"window": (1500, 0), "q_offset": 2400},
    "lengths": {"kv_lens": 1100, "q_lens": 1},
    "no keys": {"kv_lens": 0},
    "sinks": {"sinks": np.float64(0.5)},
    "sinks without keys": {"sinks": np.float64(0.5), "kv_lens": 0},
    "softcap": {"softcap": 2.0},
    "dropout": {"dropout_p": 0.3, "rng": 11},
}


def arrays(shape, dtype="float32"):
    leading, sizes = SHAPES[shape]
    return make_qkv(*leading, dtype=dtype, **sizes)


@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("shape", SHAPES)
def test_options_hold_over_all_parts(shape, options):
    check(*arrays(shape), **OPTIONS[options])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SHAPES)
def test_dtypes(shape, dtype):
    check(*arrays(shape, dtype))


@pytest.mark.parametrize("kind", [bool, np.float32])
@pytest.mark.parametrize("shape", SHAPES)
def test_mask(shape, kind):
    query, key, value = arrays(shape)
    mask = normal(query.shape[-2], key.shape[-2], seed=3)
    check(query, key, value, mask > 0 if kind is bool else mask)


@pytest.mark.parametrize("threads", [1, 2, 3, 8])
@pytest.mark.parametrize("shape", SHAPES)
def test_threads_and_strides_do_not_change_a_bit(shape, threads):
    query, key, value = arrays(shape)
    want = am.scaled_dot_product_attention(query, key, value, enable_gqa=True, num_threads=1)
    turned = (np.array(x.swapaxes(-1, -2), order="C").swapaxes(-1, -2) for x in (key, value))
    got = am.scaled_dot_product_attention(query, *turned, enable_gqa=True, num_threads=threads)
    assert same_bits(got, want)


@pytest.mark.parametrize("poison", [np.nan, np.inf])
@pytest.mark.parametrize("shape", SHAPES)
def test_poison_in_one_part_stays_out_of_rows_that_mask_it(shape, poison):
    query, key, value = arrays(shape)
    mask = np.ones(key.shape[-2], bool)
    mask[2000] = False
    clean = am.scaled_dot_product_attention(query, key, value, mask, enable_gqa=True)
    key[..., 2000, 1] = poison
    value[..., 2000, 1] = poison
    assert same_bits(check(query, key, value, mask), clean)


@pytest.mark.parametrize("shape", SHAPES)
def test_nan_in_a_visible_value_reaches_its_column(shape):
    query, key, value = arrays(shape)
    value[..., 2000, 1] = np.nan
    out = check(query, key, value)
    assert np.isnan(out[..., 1]).all()
    assert not np.isnan(out[..., 0]).any()
