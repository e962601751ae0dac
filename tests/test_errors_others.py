"""Bad input to the functions around attention, and sizes that no memory holds."""

import numpy as np
import pytest
from helpers import assert_refused, normal

import attnmod as am

FLOATS = "expected float16, bfloat16, float32 or float64, got"
MASKED = "expected an array without a mask of its own, got MaskedArray"


@pytest.mark.parametrize("function", [am.attention_scores, am.key_weights])
def test_scores_check_their_arguments_as_attention_does(function):
    query, key = normal(8, 10, 64), normal(8, 12, 64)
    for error, text, changes in [
        (TypeError, f"query: {FLOATS} int64", {"query": np.ones((8, 10, 64), np.int64)}),
        (TypeError, "key: expected dtype float32 like query, got float16",
         {"key": normal(8, 12, 64, dtype="float16")}),
        (ValueError, "key: expected 64 features like query, got 3", {"key": normal(8, 12, 3)}),
        (ValueError, "enable_gqa: expected True for 8 query heads over 2 key heads, got False",
         {"key": normal(2, 12, 64)}),
        (ValueError, "attn_mask: expected a shape that broadcasts to (8, 10, 12), got (11, 12)",
         {"attn_mask": np.ones((11, 12), bool)}),
        (ValueError, "scale: expected a finite number, got nan", {"scale": np.nan}),
        (ValueError, "kv_lens: expected lengths from 0 to 12, got 13", {"kv_lens": 13}),
        (ValueError, "q_lens: expected a shape that broadcasts to (), got (2,)",
         {"q_lens": [1, 2]}),
        (TypeError, "window: expected a pair (left, right), since one number is ambiguous, got int",
         {"window": 4}),
        (ValueError, "num_threads: expected an int of at least 1, got 0", {"num_threads": 0}),
    ]:  # fmt: skip
        assert_refused(function, error, text, {"query": query, "key": key, **changes})


@pytest.mark.parametrize(
    ("stage", "error"), [("foo", ValueError), ("", ValueError), ("Raw", ValueError), (3, TypeError)]
)
def test_stage(stage, error):
    text = f"stage: expected 'raw', 'softcapped', 'biased' or 'weights', got {stage!r}"
    given = {"query": normal(2, 3), "key": normal(2, 3), "stage": stage}
    assert_refused(am.attention_scores, error, text, given)


@pytest.mark.parametrize(
    ("x", "axis", "error", "text"),
    [
        (normal(2, 3), 2, ValueError, "axis: expected an int from -2 to 1, got 2"),
        (normal(2, 3), -3, ValueError, "axis: expected an int from -2 to 1, got -3"),
        (normal(2, 3), 1.0, TypeError, "axis: expected an int, got float"),
        (normal(2, 3), None, TypeError, "axis: expected an int, got NoneType"),
        (normal(2, 3), True, TypeError, "axis: expected an int, got bool"),
        (np.float32(1), -1, ValueError, "x: expected at least 1 axis, got 0"),
        (np.zeros([1] * 17), 0, ValueError, "x: expected at most 16 axes, got 17"),
        ([1, 2], 0, TypeError, f"x: {FLOATS} int64"),
        (np.zeros(3, bool), 0, TypeError, f"x: {FLOATS} bool"),
        (np.zeros(3, complex), 0, TypeError, f"x: {FLOATS} complex128"),
        (np.ma.zeros(3), 0, TypeError, f"x: {MASKED}"),
    ],
)
def test_softmax(x, axis, error, text):
    assert_refused(am.softmax, error, text, {"x": x, "axis": axis})


OUT, LSE = np.zeros((3, 4), np.float32), np.zeros(3, np.float32)


@pytest.mark.parametrize(
    ("states", "error", "text"),
    [
        ((OUT, LSE, OUT.astype("f8"), LSE), TypeError,
         "out_b: expected dtype float32 like out_a, got float64"),
        ((OUT, LSE, OUT, LSE.astype("f8")), TypeError,
         "lse_b: expected dtype float32 like lse_a, got float64"),
        ((OUT, LSE, OUT[:2], LSE), ValueError,
         "out_b: expected shape (3, 4) like out_a, got (2, 4)"),
        ((OUT, LSE, OUT, LSE[:2]), ValueError, "lse_b: expected shape (3,) like lse_a, got (2,)"),
        ((OUT, LSE[:2], OUT, LSE[:2]), ValueError, "lse_a: expected shape (3,), got (2,)"),
        ((OUT, OUT, OUT, OUT), ValueError, "lse_a: expected shape (3,), got (3, 4)"),
        ((OUT.astype(int), LSE, OUT.astype(int), LSE), TypeError, f"out_a: {FLOATS} int64"),
        ((OUT.astype(complex), LSE, OUT.astype(complex), LSE), TypeError,
         f"out_a: {FLOATS} complex128"),
        ((OUT, LSE.astype(int), OUT, LSE.astype(int)), TypeError,
         "lse_a: expected float32 or float64, got int64"),
        ((np.ma.zeros((3, 4), "f4"), LSE, OUT, LSE), TypeError, f"out_a: {MASKED}"),
    ],
)  # fmt: skip
def test_merge_states(states, error, text):
    names = ("out_a", "lse_a", "out_b", "lse_b")
    assert_refused(am.merge_states, error, text, dict(zip(names, states, strict=True)))


@pytest.mark.parametrize(
    ("threads", "error", "found"),
    [(0, ValueError, "0"), (-1, ValueError, "-1"), (1.5, TypeError, "float"),
     (None, TypeError, "NoneType"), (True, TypeError, "bool"), ("2", TypeError, "str")],
)  # fmt: skip
def test_set_num_threads(threads, error, found):
    before = am.get_num_threads()
    text = f"n: expected an int of at least 1, got {found}"
    assert_refused(am.set_num_threads, error, text, {"n": threads})
    assert am.get_num_threads() == before


# Sizes. Views of one number, of any shape, cost no memory: all must be refused before anything is
# read or written.


def one(*shape):
    return np.broadcast_to(np.float32(1), shape)


@pytest.mark.parametrize(
    ("query", "key", "value", "found"),
    [
        ((2**40, 1), (2**40, 1), (2**40, 1), ("scores", (2**40, 2**40))),
        ((2**40, 1), (1, 1), (1, 2**40), ("outputs", (2**40, 2**40))),
        ((2**31, 1, 1, 1, 1), (2**31, 1, 1, 1), (1, 1, 1), ("scores", (2**31, 2**31, 1, 1, 1))),
        ((2**30, 2**20, 2**10, 1), (2**30, 2**20, 1, 1), (2**20, 1, 1),
         ("scores", (2**30, 2**20, 2**10, 1))),
    ],
)  # fmt: skip
def test_product_of_sizes_that_overflows_is_a_memory_error(query, key, value, found):
    with pytest.raises(MemoryError) as raised:
        am.scaled_dot_product_attention(one(*query), one(*key), one(*value))
    what, shape = found
    assert str(raised.value) == f"query: expected {what} that can be counted, got shape {shape}"


def test_results_that_no_memory_holds_are_a_memory_error():
    with pytest.raises(MemoryError, match="Unable to allocate"):
        am.scaled_dot_product_attention(one(2**50, 1), one(1, 1), one(1, 1))
    with pytest.raises(MemoryError, match="Unable to allocate"):
        am.attention_scores(one(2**25, 1), one(2**25, 1))


@pytest.mark.parametrize("features", [2**40, 2**60])
def test_scratch_that_no_memory_holds_is_a_memory_error(features):
    wide, narrow = one(1, features), one(1, 1)
    with pytest.raises(MemoryError) as raised:
        am.scaled_dot_product_attention(wide, wide, narrow)
    assert str(raised.value) == "attnmod: not enough memory for scratch"


def test_what_numpy_refuses_is_refused_by_name():
    with pytest.raises(ValueError, match=r"^key: expected an array, got what NumPy refuses: "):
        am.scaled_dot_product_attention(one(1, 1), [[1.0], [1.0, 2.0]], one(1, 1))
