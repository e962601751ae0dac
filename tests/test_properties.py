"""Random shapes, strides, dtypes and options, all composed, against the reference."""

import math

import numpy as np
from helpers import (
    DTYPES,
    assert_within,
    check,
    check_key_weights,
    check_scores,
    dtype_named,
    largest,
    same_bits,
    score_error,
    stored,
    sum_error,
)
from hypothesis import given
from hypothesis import strategies as st

import attnmod as am
from attnmod import reference

sizes = st.one_of(st.integers(1, 9), st.integers(0, 70), st.sampled_from([95, 96, 97, 130, 193]))
features = st.one_of(st.integers(0, 9), st.sampled_from([16, 31, 64, 65, 128]))
sides = st.one_of(st.none(), st.integers(-1, 100), st.sampled_from([2**31, 2**63 - 1]))


@st.composite
def laid_out(draw, shape, dtype, seed):
    """Normal numbers of a shape, lying in memory in some order, backwards, with gaps, unaligned."""
    order = draw(st.permutations(range(len(shape))))
    steps = [draw(st.sampled_from([1, 1, 1, -1, 2, -3])) for _ in shape]
    offset = draw(st.sampled_from([0, 0, 1]))
    repeated = [draw(st.sampled_from([False] * 7 + [True])) for _ in shape]
    dtype = dtype_named(dtype) if dtype != "bool" else np.dtype(bool)

    room = [1 if repeated[axis] else shape[axis] * abs(steps[axis]) for axis in order]
    buffer = np.zeros(math.prod(room) * dtype.itemsize + offset, np.uint8)
    whole = np.ndarray(room, dtype, buffer, offset=offset).transpose(np.argsort(order))
    cut = [slice(None, None, 1 if r else s) for s, r in zip(steps, repeated, strict=True)]
    view = whole[(..., *cut)]
    numbers = np.random.default_rng(seed).standard_normal(view.shape)
    view[...] = numbers > -0.5 if dtype.kind == "b" else numbers
    return np.broadcast_to(view, shape)


@st.composite
def broadcastable(draw, shape):
    """A shape that broadcasts to this one."""
    kept = draw(st.integers(0, len(shape)))
    return tuple(draw(st.sampled_from([1, n])) for n in shape[len(shape) - kept :])


@st.composite
def problems(draw, fullest=None):
    """Query, key, value and options: anything that is allowed.

    One of the three, by default any, has all the leading axes; the others broadcast to it.
    """
    dtype = draw(st.sampled_from(DTYPES))
    leading = tuple(draw(st.lists(st.sampled_from([1, 2, 3] * 3 + [0]), max_size=2)))
    groups, kv_heads = draw(st.integers(1, 4)), draw(st.integers(1, 3))
    queries, keys = draw(sizes), draw(sizes)
    size, value_size = draw(features), draw(features)
    if not leading and draw(st.booleans()):
        head = of_keys = ()
        heads = 1
    else:
        heads = groups * kv_heads
        head, of_keys = (heads,), (kv_heads,)
    seed = draw(st.integers(0, 1000))

    if fullest is None:
        fullest = draw(st.integers(0, 2))
    batch = [leading if i == fullest else draw(broadcastable(leading)) for i in range(3)]
    shapes = (
        (*batch[0], *head, queries, size),
        (*batch[1], *of_keys, keys, size),
        (*batch[2], *of_keys, keys, value_size),
    )
    arrays = [draw(laid_out(shape, dtype, seed + i)) for i, shape in enumerate(shapes)]

    options = {}
    kind = draw(st.sampled_from([None, None, "bool", *DTYPES]))
    if kind:
        shape = draw(broadcastable((*leading, *head, queries, keys)))
        mask = draw(laid_out(shape, kind, seed + 3))
        if kind != "bool":
            mask = np.where(mask.astype(np.float64) < -1, -np.inf, mask).astype(mask.dtype)
        options["attn_mask"] = mask

    def per(shape, low, high):
        return st.one_of(
            st.integers(low, high),
            broadcastable(shape).flatmap(
                lambda s: st.integers(0, 1000).map(
                    lambda n: np.random.default_rng(n).integers(low, high, s, endpoint=True)
                )
            ),
        )

    def per_head(low, high):
        return broadcastable((*leading, heads)).flatmap(
            lambda s: st.integers(0, 1000).map(
                lambda n: np.random.default_rng(n).uniform(low, high, s)
            )
        )

    maybe = {
        "is_causal": st.booleans(),
        "scale": st.one_of(st.none(), st.floats(-2, 2)),
        "q_offset": per(leading, -50, 150),
        "window": st.tuples(sides, sides),
        "softcap": st.one_of(st.none(), st.just(0), st.floats(0.1, 30)),
        "alibi_slopes": per_head(-0.1, 0.5),
        "sinks": per_head(-5, 5),
        "q_lens": per(leading, 0, queries),
        "kv_lens": per(leading, 0, keys),
    }
    for name, strategy in maybe.items():
        if draw(st.sampled_from([False, False, True])):
            options[name] = draw(strategy)
    return arrays, options


@given(problems(), st.sampled_from([0.0, 0.0, 0.3]), st.integers(0, 2**64 - 1), st.integers(1, 4))
def test_attention_is_that_of_the_reference(problem, dropout_p, seed, num_threads):
    arrays, options = problem
    copies = [x.copy() for x in arrays]
    check(*arrays, **options, dropout_p=dropout_p, rng=seed, num_threads=num_threads)
    assert all(same_bits(x, copy) for x, copy in zip(arrays, copies, strict=True))


@given(problems())
def test_layout_and_threads_do_not_change_a_bit(problem):
    arrays, options = problem
    results = [
        am.scaled_dot_product_attention(
            *inputs, enable_gqa=True, return_weights=True, return_lse=True, num_threads=n, **options
        )
        for inputs, n in ((arrays, 1), ([x.copy() for x in arrays], 3))
    ]
    assert all(same_bits(a, b) for a, b in zip(*results, strict=True))


@given(problems(fullest=0), st.sampled_from(["raw", "softcapped", "biased", "weights"]))
def test_scores_are_those_of_the_reference(problem, stage):
    (query, key, _), options = problem
    check_scores(query, key, stage=stage, **options)


@given(problems(fullest=0))
def test_key_weights_are_those_of_the_reference(problem):
    (query, key, _), options = problem
    check_key_weights(query, key, **options)


@given(problems(), st.floats(0, 1))
def test_parts_of_the_keys_merge_to_the_whole(problem, cut):
    arrays, options = problem
    query, key, value = (x.astype(np.float64) for x in arrays)
    options.pop("sinks", None)  # would count twice
    mask = options.pop("attn_mask", np.True_)
    mask = mask if mask.dtype == bool else mask.astype(np.float64)
    keys = key.shape[-2]
    first = np.arange(keys) < round(cut * keys)
    parts = []
    for part in (first, ~first):
        masked = np.where(part, mask, False if mask.dtype == bool else -np.inf)
        parts += am.scaled_dot_product_attention(
            query, key, value, masked, enable_gqa=True, return_lse=True, **options
        )
    out, lse = am.merge_states(*parts)

    want = reference.scaled_dot_product_attention(
        query, key, value, mask, return_lse=True, **options
    )
    off = 8 * score_error(query, key, {**options, "attn_mask": mask})
    off += 8 * sum_error("float64", keys)
    assert_within(out, want[0], off * largest(value) + stored("float64", want[0]))
    assert_within(lse, want[1], off + 4 * stored("float64", want[1]))


@given(
    st.lists(st.integers(0, 40), min_size=1, max_size=4),
    st.sampled_from(DTYPES),
    st.integers(0, 1000),
    st.data(),
)
def test_softmax_is_that_of_the_reference(shape, dtype, seed, data):
    axis = data.draw(st.integers(-len(shape), len(shape) - 1))
    x = data.draw(laid_out(tuple(shape), dtype, seed))
    got, want = am.softmax(x, axis), reference.softmax(x, axis)
    off = sum_error(dtype, x.shape[axis]) + sum_error(dtype, 1) * 16
    assert_within(got, want, off * want + stored(dtype, want))
