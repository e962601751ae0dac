"""Bad sizes and values: the type of the error, the whole text, and inputs left as they were."""

import math

import numpy as np
import pytest
from helpers import arguments, assert_refused, normal

import attnmod as am

INF, NAN = math.inf, math.nan


SHAPES = {
    "query of no axis": ({"query": np.float32(1)}, "query: expected at least 2 axes, got 0"),
    "query of one axis": ({"query": normal(64)}, "query: expected at least 2 axes, got 1"),
    "key of one axis": ({"key": normal(64)}, "key: expected at least 2 axes, got 1"),
    "value of one axis": ({"value": normal(64)}, "value: expected at least 2 axes, got 1"),
    "seventeen axes": (
        {"query": normal(*[1] * 17)},
        "query: expected at most 16 axes, got 17",
    ),
    "features": (
        {"key": normal(2, 8, 12, 32)},
        "key: expected 64 features like query, got 32",
    ),
    "keys": ({"value": normal(2, 8, 11, 64)}, "value: expected 12 keys like key, got 11"),
    "heads of value": (
        {"value": normal(2, 4, 12, 64)},
        "value: expected 8 heads like key, got 4",
    ),
    "heads without enable_gqa": (
        {"key": normal(2, 2, 12, 64), "value": normal(2, 2, 12, 64)},
        "enable_gqa: expected True for 8 query heads over 2 key heads, got False",
    ),
    "one head without enable_gqa": (
        {"key": normal(2, 1, 12, 64), "value": normal(2, 1, 12, 64)},
        "enable_gqa: expected True for 8 query heads over 1 key heads, got False",
    ),
    "heads that do not divide": (
        {"key": normal(2, 3, 12, 64), "value": normal(2, 3, 12, 64), "enable_gqa": True},
        "key: expected a number of heads that divides 8 like query's heads, got 3",
    ),
    "more heads of key than of query": (
        {"key": normal(2, 16, 12, 64), "value": normal(2, 16, 12, 64), "enable_gqa": True},
        "key: expected a number of heads that divides 8 like query's heads, got 16",
    ),
    "no heads of key": (
        {"key": normal(2, 0, 12, 64), "value": normal(2, 0, 12, 64), "enable_gqa": True},
        "key: expected a number of heads that divides 8 like query's heads, got 0",
    ),
    "batches of key": (
        {"key": normal(3, 8, 12, 64)},
        "key: expected leading axes that broadcast with (2,), got (3,)",
    ),
    "batches of value": (
        {"value": normal(4, 3, 8, 12, 64)},
        "value: expected leading axes that broadcast with (2,), got (4, 3)",
    ),
    "mask": (
        {"attn_mask": np.ones((3, 10, 12), bool)},
        "attn_mask: expected a shape that broadcasts to (2, 8, 10, 12), got (3, 10, 12)",
    ),
    "mask of more axes": (
        {"attn_mask": np.ones((1, 2, 8, 10, 12), bool)},
        "attn_mask: expected a shape that broadcasts to (2, 8, 10, 12), got (1, 2, 8, 10, 12)",
    ),
    "mask of no keys": (
        {"attn_mask": np.ones((10, 0), bool)},
        "attn_mask: expected a shape that broadcasts to (2, 8, 10, 12), got (10, 0)",
    ),
    "slopes": (
        {"alibi_slopes": np.ones(7)},
        "alibi_slopes: expected a shape that broadcasts to (2, 8), got (7,)",
    ),
    "sinks": (
        {"sinks": np.ones((2, 8, 1))},
        "sinks: expected a shape that broadcasts to (2, 8), got (2, 8, 1)",
    ),
    "offset": (
        {"q_offset": [1, 2, 3]},
        "q_offset: expected a shape that broadcasts to (2,), got (3,)",
    ),
    "lengths of queries": (
        {"q_lens": [[1], [2]]},
        "q_lens: expected a shape that broadcasts to (2,), got (2, 1)",
    ),
    "lengths of keys": (
        {"kv_lens": [1, 2, 3]},
        "kv_lens: expected a shape that broadcasts to (2,), got (3,)",
    ),
    "out": (
        {"out": np.empty((2, 8, 10, 63), np.float32)},
        "out: expected shape (2, 8, 10, 64), got (2, 8, 10, 63)",
    ),
    "out of more axes": (
        {"out": np.empty((1, 2, 8, 10, 64), np.float32)},
        "out: expected shape (2, 8, 10, 64), got (1, 2, 8, 10, 64)",
    ),
}


@pytest.mark.parametrize("case", SHAPES)
def test_shape(case):
    changes, text = SHAPES[case]
    assert_refused(am.scaled_dot_product_attention, ValueError, text, arguments(**changes))


VALUES = {
    "nan scale": ({"scale": NAN}, "scale: expected a finite number, got nan"),
    "infinite scale": ({"scale": -INF}, "scale: expected a finite number, got -inf"),
    "negative softcap": (
        {"softcap": -1.0},
        "softcap: expected a positive number that float32 holds, or 0 or None for none, got -1",
    ),
    "nan softcap": (
        {"softcap": NAN},
        "softcap: expected a positive number that float32 holds, or 0 or None for none, got nan",
    ),
    "infinite softcap": (
        {"softcap": INF},
        "softcap: expected a positive number that float32 holds, or 0 or None for none, got inf",
    ),
    "negative dropout": (
        {"dropout_p": -0.5},
        "dropout_p: expected a number from 0 to 1, got -0.5",
    ),
    "dropout above one": (
        {"dropout_p": 1.5},
        "dropout_p: expected a number from 0 to 1, got 1.5",
    ),
    "nan dropout": ({"dropout_p": NAN}, "dropout_p: expected a number from 0 to 1, got nan"),
    "window below minus one": (
        {"window": (-2, 0)},
        "window: expected sides of None, -1 or more, got (-2, 0)",
    ),
    "negative length": ({"kv_lens": -1}, "kv_lens: expected lengths from 0 to 12, got -1"),
    "length above the keys": (
        {"kv_lens": [12, 13]},
        "kv_lens: expected lengths from 0 to 12, got 13",
    ),
    "negative length of queries": (
        {"q_lens": [3, -5]},
        "q_lens: expected lengths from 0 to 10, got -5",
    ),
    "length above the queries": ({"q_lens": 11}, "q_lens: expected lengths from 0 to 10, got 11"),
    "no threads": ({"num_threads": 0}, "num_threads: expected an int of at least 1, got 0"),
    "one side": ({"window": (1,)}, "window: expected a pair (left, right), got 1 numbers"),
    "three sides": (
        {"window": (1, 2, 3)},
        "window: expected a pair (left, right), got 3 numbers",
    ),
    "scale beyond any float": ({"scale": 10**400}, "scale: expected a finite number, got inf"),
    "scale beyond float32": (
        {"scale": 1e39},
        "scale: expected a finite number that float32 holds, got 1e+39",
    ),
    "softcap beyond float32": (
        {"softcap": 1e39},
        "softcap: expected a positive number that float32 holds, or 0 or None for none, got 1e+39",
    ),
    "softcap too small for float32": (
        {"softcap": 1e-40},
        "softcap: expected a positive number that float32 holds, or 0 or None for none, got 1e-40",
    ),
    "nan slope": (
        {"alibi_slopes": [np.nan] * 8},
        "alibi_slopes: expected finite numbers that float32 holds, got nan",
    ),
    "slope beyond float32": (
        {"alibi_slopes": [0.5] * 7 + [-1e39]},
        "alibi_slopes: expected finite numbers that float32 holds, got -1e+39",
    ),
    "offset beyond 64 bits": (
        {"q_offset": 2**63},
        "q_offset: expected an integer of 64 bits, got 9223372036854775808",
    ),
    "unsigned offset beyond 63 bits": (
        {"q_offset": np.array([1, 2**63], np.uint64)},
        "q_offset: expected integers below 2**63, got 9223372036854775808",
    ),
    "length beyond 64 bits": (
        {"kv_lens": -(2**64)},
        "kv_lens: expected an integer of 64 bits, got -18446744073709551616",
    ),
    "negative seed": ({"rng": -1}, "rng: expected a seed from 0 to 2**64 - 1, got -1"),
    "seed beyond 64 bits": (
        {"rng": 2**64},
        "rng: expected a seed from 0 to 2**64 - 1, got 18446744073709551616",
    ),
    "negative threads": ({"num_threads": -3}, "num_threads: expected an int of at least 1, got -3"),
}


@pytest.mark.parametrize("case", VALUES)
def test_value(case):
    changes, text = VALUES[case]
    assert_refused(am.scaled_dot_product_attention, ValueError, text, arguments(**changes))
