"""Bad types, and bad out=: the type of the error, the whole text, and inputs left as they were."""

import ml_dtypes
import numpy as np
import pytest
from helpers import arguments, assert_refused, normal

import attnmod as am

FLOATS = "expected float16, bfloat16, float32 or float64, got"


def masked_array(name):
    text = f"{name}: expected an array without a mask of its own, got MaskedArray"
    return {f"MaskedArray as {name}": ({name: np.ma.zeros((2, 8, 10, 64), np.float32)}, text)}


NOT_FLOAT = ["int64", "uint8", "bool", "complex64", "object", "datetime64[s]"]
INTEGERS = ["q_offset", "q_lens", "kv_lens"]
MASK = "attn_mask: expected bool (True takes part) or a float dtype (added to the scores), got"
PAIR = "window: expected a pair (left, right)"
TYPES = {
    **{f"{dtype} query": (
        {"query": np.zeros((2, 8, 10, 64), dtype)}, f"query: {FLOATS} {dtype}",
    ) for dtype in NOT_FLOAT},
    **{f"{dtype} key": (
        {"key": np.zeros((2, 8, 12, 64), dtype)}, f"key: {FLOATS} {dtype}",
    ) for dtype in NOT_FLOAT},
    **{f"{dtype} value": (
        {"value": np.zeros((2, 8, 12, 64), dtype)}, f"value: {FLOATS} {dtype}",
    ) for dtype in NOT_FLOAT},
    "None as query": ({"query": None}, f"query: {FLOATS} object"),
    "eight-bit floats": (
        {"value": np.zeros((2, 8, 12, 64), ml_dtypes.float8_e4m3fn)},
        f"value: {FLOATS} float8_e4m3fn",
    ),
    "key of another dtype": (
        {"key": np.zeros((2, 8, 12, 64))},
        "key: expected dtype float32 like query, got float64",
    ),
    "value of another dtype": (
        {"value": np.zeros((2, 8, 12, 64), ml_dtypes.bfloat16)},
        "value: expected dtype float32 like query, got bfloat16",
    ),
    **{f"{dtype} mask": (
        {"attn_mask": np.ones((10, 12), dtype)}, f"{MASK} {dtype}",
    ) for dtype in ["int64", "uint8", "complex64", "object"]},
    **masked_array("query"), **masked_array("key"), **masked_array("value"),
    **masked_array("attn_mask"), **masked_array("sinks"), **masked_array("kv_lens"),
    **masked_array("out"),
    "int as window": ({"window": 4}, f"{PAIR}, since one number is ambiguous, got int"),
    "numpy int as window": (
        {"window": np.int64(4)}, f"{PAIR}, since one number is ambiguous, got numpy.int64",
    ),
    "str as window": ({"window": "ab"}, f"{PAIR}, got str"),
    "float as window": ({"window": 3.5}, f"{PAIR}, got float"),
    "set as window": ({"window": {1, 2}}, f"{PAIR}, got set"),
    "float in window": ({"window": (1.0, 2)}, "window: expected sides of None or int, got float"),
    "bool in window": ({"window": (1, True)}, "window: expected sides of None or int, got bool"),
    **{f"float as {name}": (
        {name: 1.0}, f"{name}: expected integers, got float64",
    ) for name in INTEGERS},
    **{f"bool as {name}": (
        {name: True}, f"{name}: expected integers, got bool",
    ) for name in INTEGERS},
    **{f"objects as {name}": (
        {name: np.array([1, 2], object)}, f"{name}: expected integers, got object",
    ) for name in INTEGERS},
    **{f"complex {name}": (
        {name: [1j]}, f"{name}: expected real numbers, got complex128",
    ) for name in ["alibi_slopes", "sinks"]},
    **{f"bool {name}": (
        {name: [True]}, f"{name}: expected real numbers, got bool",
    ) for name in ["alibi_slopes", "sinks"]},
    **{f"str as {name}": (
        {name: "1"}, f"{name}: expected a number, got str",
    ) for name in ["scale", "softcap", "dropout_p"]},
    **{f"bool as {name}": (
        {name: True}, f"{name}: expected a number, got bool",
    ) for name in ["scale", "softcap", "dropout_p"]},
    "array as scale": (
        {"scale": np.array([2.0])}, "scale: expected a number, got numpy.ndarray",
    ),
    "None as dropout_p": ({"dropout_p": None}, "dropout_p: expected a number, got NoneType"),
    **{f"int as {name}": (
        {name: 1}, f"{name}: expected True or False, got int",
    ) for name in ["is_causal", "enable_gqa", "return_weights", "return_lse"]},
    **{f"{type(x).__name__} as num_threads": (
        {"num_threads": x}, f"num_threads: expected an int of at least 1, got {type(x).__name__}",
    ) for x in [1.5, "2", True]},
    "array as num_threads": (
        {"num_threads": np.array([2])},
        "num_threads: expected an int of at least 1, got numpy.ndarray",
    ),
    "number in an array as window": (
        {"window": np.array(5)}, "window: expected a pair (left, right), got numpy.ndarray",
    ),
    "matrix as window": (
        {"window": np.zeros((2, 2), int)},
        "window: expected a pair (left, right), got numpy.ndarray",
    ),
    "bytes as window": (
        {"window": bytearray(b"ab")}, "window: expected a pair (left, right), got bytearray",
    ),
    **{f"{type(rng).__name__} as rng": (
        {"rng": rng},
        f"rng: expected an int, a numpy.random.Generator or None, got {type(rng).__name__}",
    ) for rng in [1.5, True, "a", np.random.RandomState(0)]},
    "list as out": ({"out": [1]}, "out: expected a NumPy array, got list"),
    "out of another dtype": (
        {"out": np.empty((2, 8, 10, 64))}, "out: expected dtype float32 like query, got float64",
    ),
    "byte-swapped out": (
        {"out": np.empty((2, 8, 10, 64), ">f4")}, "out: expected dtype float32 like query, got >f4",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", TYPES)
def test_type(case):
    changes, text = TYPES[case]
    assert_refused(am.scaled_dot_product_attention, TypeError, text, arguments(**changes))


# out


def test_out_that_is_read_only_is_refused():
    out = np.empty((2, 8, 10, 64), np.float32)
    out.flags.writeable = False
    text = "out: expected a writeable array, got a read-only one"
    assert_refused(am.scaled_dot_product_attention, ValueError, text, arguments(out=out))


@pytest.mark.parametrize("name", ["query", "key", "value", "attn_mask"])
@pytest.mark.parametrize("where", ["all", "first element", "last element"])
def test_out_that_shares_memory_with_an_input_is_refused(name, where):
    given = arguments(attn_mask=normal(10, 12))
    size, memory = given[name].size, np.zeros(50_000, np.float32)
    given["out"] = memory[20_000:30_240].reshape(2, 8, 10, 64)
    start = {"all": 20_000, "first element": 20_001 - size, "last element": 30_239}[where]
    shared = memory[start : start + size].reshape(given[name].shape)
    shared[...] = given[name]
    given[name] = shared
    text = f"out: expected memory of its own, got memory shared with {name}"
    assert_refused(am.scaled_dot_product_attention, ValueError, text, given)


@pytest.mark.parametrize("strides", [(0, 0, 0, 4), (40000, 4000, 252, 4), (20480, 2560, 0, 4)])
def test_out_whose_elements_overlap_each_other_is_refused(strides):
    out = np.lib.stride_tricks.as_strided(np.zeros(10**6, np.float32), (2, 8, 10, 64), strides)
    text = (
        "out: expected elements that each have their own memory, got a view in which they overlap"
    )
    assert_refused(am.scaled_dot_product_attention, ValueError, text, arguments(out=out))


def test_out_of_a_refused_call_is_not_written():
    out = np.full((2, 8, 10, 64), 7, np.float32)
    with pytest.raises(ValueError, match="kv_lens"):
        am.scaled_dot_product_attention(**arguments(out=out, kv_lens=99))
    assert np.all(out == 7)
