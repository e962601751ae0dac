"""Memory layouts: the same values give the same bits however they lie in memory."""

import itertools

import ml_dtypes
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
    sum_error,
)

import attnmod as am


def contiguous(x):
    return np.array(x, order="C")


def fortran(x):
    return np.array(x, order="F")


def heads_inside(x):
    """(..., H, L, E) that lies in memory as (..., L, H, E)."""
    if x.ndim < 3:
        return contiguous(x)
    return np.array(np.swapaxes(x, -3, -2), order="C").swapaxes(-3, -2)


def transposed(x):
    return np.array(np.swapaxes(x, -1, -2), order="C").swapaxes(-1, -2)


def reversed_axes(x):
    backwards = (slice(None, None, -1),) * x.ndim
    return np.array(x[backwards], order="C")[backwards]


def with_gaps(x):
    """Every second element along each axis of a larger array, which holds nan between them."""
    larger = np.full([2 * n for n in x.shape], np.nan).astype(x.dtype)
    view = larger[(slice(None, None, 2),) * x.ndim]
    view[...] = x
    return view


def off_by_one_byte(x):
    buffer = np.zeros(x.nbytes + 1, np.uint8)
    view = np.ndarray(x.shape, x.dtype, buffer, offset=1)
    view[...] = x
    return view


def packed_field(x):
    """A field of a packed structure: odd strides, odd addresses."""
    records = np.zeros((*x.shape, 3 + x.itemsize), np.uint8)
    view = np.ndarray(x.shape, x.dtype, records, offset=3, strides=records.strides[:-1])
    view[...] = x
    return view


def read_only(x):
    view = contiguous(x)
    view.flags.writeable = False
    return view


def byte_swapped(x):
    return x.astype(x.dtype.newbyteorder())


LAYOUTS = [
    fortran, heads_inside, transposed, reversed_axes, with_gaps, off_by_one_byte, packed_field,
    read_only,
]  # fmt: skip
layouts = pytest.mark.parametrize("layout", LAYOUTS, ids=lambda layout: layout.__name__)


@pytest.mark.parametrize("dtype", DTYPES)
@layouts
def test_layout_of_the_inputs_does_not_change_a_bit(layout, dtype):
    arrays = make_qkv(2, 3, queries=37, keys=130, features=10, value_features=7, dtype=dtype)
    want = check(*arrays, is_causal=True, q_offset=93)
    for which in range(3):
        others = list(arrays)
        others[which] = layout(arrays[which])
        got = am.scaled_dot_product_attention(*others, is_causal=True, q_offset=93)
        assert same_bits(got, want), f"argument {which}"
    assert same_bits(
        am.scaled_dot_product_attention(*map(layout, arrays), is_causal=True, q_offset=93), want
    )


# One query row against many keys goes its own way through memory.
@pytest.mark.parametrize("dtype", DTYPES)
@layouts
def test_layout_does_not_change_a_bit_for_a_single_query(layout, dtype):
    arrays = make_qkv(2, 3, queries=1, keys=300, features=64, dtype=dtype)
    want = check(*arrays)
    assert same_bits(am.scaled_dot_product_attention(*map(layout, arrays)), want)


@layouts
def test_layout_does_not_change_a_bit_of_rows_too_long_for_the_cache(layout):
    arrays = make_qkv(1, queries=3, keys=200, features=3000, value_features=2000)
    want = check(*arrays)
    assert same_bits(am.scaled_dot_product_attention(*map(layout, arrays)), want)


@pytest.mark.parametrize("mask_dtype", ["bool", *DTYPES])
@layouts
def test_layout_of_the_mask_does_not_change_a_bit(layout, mask_dtype):
    arrays = make_qkv(2, 3, queries=37, keys=130)
    mask = normal(2, 3, 37, 130)
    mask = mask > 0 if mask_dtype == "bool" else mask.astype(dtype_named(mask_dtype))
    want = check(*arrays, mask)
    assert same_bits(am.scaled_dot_product_attention(*arrays, layout(mask)), want)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_byte_swapped_arrays_give_the_same_bits_in_native_order(dtype):
    arrays = make_qkv(2, 3, queries=37, keys=130, dtype=dtype)
    mask = normal(37, 130, dtype=dtype)
    want = check(*arrays, mask)
    swapped = [byte_swapped(x) for x in (*arrays, mask)]
    assert swapped[0].dtype != want.dtype
    assert same_bits(am.scaled_dot_product_attention(*swapped), want)


def test_repeated_rows_may_have_a_stride_of_zero():
    rows = make_qkv(1, 1, queries=1, keys=1)
    for axis in (0, 1, 2):
        shape = [2, 3, 40, 8]
        for other in {0, 1, 2} - {axis}:
            shape[other] = 1
        views = [
            np.broadcast_to(x, [max(a, b) for a, b in zip(x.shape, shape, strict=True)])
            for x in rows
        ]
        assert same_bits(
            am.scaled_dot_product_attention(*views),
            am.scaled_dot_product_attention(*map(contiguous, views)),
        )


def test_a_single_number_may_be_repeated_over_all_axes():
    views = [np.broadcast_to(np.float32(x), (2, 3, 40, 5)) for x in (1.5, 0.5, -2.0)]
    out = am.scaled_dot_product_attention(*views)
    assert same_bits(out, am.scaled_dot_product_attention(*map(contiguous, views)))
    assert_within(out, np.full((2, 3, 40, 5), -2.0), 2 * sum_error("float32", 40))


def test_overlapping_windows_of_one_array():
    long = normal(200, dtype="float64")
    windows = np.lib.stride_tricks.sliding_window_view(long, 8)
    assert same_bits(
        am.scaled_dot_product_attention(windows, windows, windows),
        am.scaled_dot_product_attention(*[contiguous(windows)] * 3),
    )


def test_query_key_and_value_may_be_slices_of_one_projection():
    joint = normal(2, 20, 3, 4, 8)
    views = [joint[:, :, i].transpose(0, 2, 1, 3) for i in range(3)]
    assert same_bits(
        check(*views, is_causal=True),
        am.scaled_dot_product_attention(*map(contiguous, views), is_causal=True),
    )


@pytest.mark.parametrize("rank", [2, 3, 4, 5, 6])
@layouts
def test_layouts_of_two_to_six_axes(layout, rank):
    arrays = make_qkv(*[2, 1, 3, 2][: rank - 2], queries=9, keys=11)
    want = check(*arrays)
    assert same_bits(am.scaled_dot_product_attention(*map(layout, arrays)), want)


def test_subclass_and_scalar_layout_of_lengths_and_offsets():
    arrays = make_qkv(3, 2, queries=4, keys=9)
    want = check(*arrays, kv_lens=[9, 4, 2], q_offset=[1, 2, 3], is_causal=True)
    lens = np.array([2, 0, 4, 0, 9], np.int16)[::-2]
    offset = byte_swapped(np.array([1, 2, 3], np.int64))
    got = am.scaled_dot_product_attention(*arrays, kv_lens=lens, q_offset=offset, is_causal=True)
    assert same_bits(got, want)


# out=


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    "layout",
    [contiguous, *[x for x in LAYOUTS if x is not read_only]],
    ids=lambda layout: layout.__name__,
)
def test_out_of_any_layout_receives_the_same_bits(layout, dtype):
    arrays = make_qkv(2, 3, queries=37, keys=20, value_features=7, dtype=dtype)
    want = am.scaled_dot_product_attention(*arrays)
    out = layout(np.full(want.shape, -77).astype(want.dtype))
    got = am.scaled_dot_product_attention(*arrays, out=out)
    assert got is out
    assert same_bits(contiguous(out), want)


def test_out_is_returned_first_among_results():
    arrays = make_qkv(2, queries=3, keys=4)
    out = np.empty((2, 3, 8), np.float32)
    got = am.scaled_dot_product_attention(*arrays, out=out, return_weights=True, return_lse=True)
    assert len(got) == 3
    assert got[0] is out


@pytest.mark.parametrize("dtype", DTYPES)
def test_nothing_is_written_between_the_elements_of_out(dtype):
    arrays = make_qkv(2, queries=21, keys=20, value_features=9, dtype=dtype)
    around = np.full((6, 44, 33), -77).astype(dtype_named(dtype))
    for cut in itertools.product((slice(1, 3), slice(1, 4, 2)), (slice(1, 22), slice(43, 1, -2))):
        around[...] = -77
        view = around[(*cut, slice(2, 29, 3))]
        am.scaled_dot_product_attention(*arrays, out=view)
        assert same_bits(contiguous(view), am.scaled_dot_product_attention(*arrays))
        view[...] = -77
        assert np.all(around == -77)


def test_out_may_interleave_with_an_input_without_sharing_an_element():
    memory = normal(2, 10, 16)
    query, out = memory[..., ::2], memory[..., 1::2]
    _, key, value = make_qkv(2, queries=10, keys=7)
    want = am.scaled_dot_product_attention(query.copy(), key, value)
    am.scaled_dot_product_attention(query, key, value, out=out)
    assert same_bits(contiguous(out), want)


def test_ml_dtypes_field_of_a_structure_is_read_in_place():
    records = np.zeros((2, 9, 4), [("pad", np.uint8), ("x", ml_dtypes.bfloat16)])
    records["x"] = normal(2, 9, 4)
    view = records["x"]
    assert same_bits(
        am.scaled_dot_product_attention(view, view, view),
        am.scaled_dot_product_attention(*[contiguous(view)] * 3),
    )
