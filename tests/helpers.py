"""What the tests share: arrays, bounds on the error, and the comparison with the reference."""

import math
import os
import subprocess
import sys
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

import attnmod as am
from attnmod import reference

DTYPES = ("float16", "bfloat16", "float32", "float64")

# Half the distance from 1 to the next number.
UNIT_ROUNDOFF = {"float16": 2.0**-11, "bfloat16": 2.0**-8, "float32": 2.0**-24, "float64": 2.0**-53}
# Smaller results may be 0: float16's least number, for the others the least normal one.
LEAST = {"float16": 2.0**-24, "bfloat16": 2.0**-126, "float32": 2.0**-126, "float64": 2.0**-1022}


def dtype_named(name):
    return np.dtype(ml_dtypes.bfloat16 if name == "bfloat16" else name)


def normal(*shape, dtype="float32", seed=0):
    """Normal numbers; another shape or seed gives others."""
    rng = np.random.default_rng([seed, *shape])
    return rng.standard_normal(shape).astype(dtype_named(dtype))


def make_qkv(*leading, queries, keys, features=8, value_features=None, kv_heads=None, **kind):
    """Query, key and value with the leading axes (..., H); key and value may have fewer heads."""
    of_keys = leading if kv_heads is None else (*leading[:-1], kv_heads)
    return (
        normal(*leading, queries, features, **kind),
        normal(*of_keys, keys, features, **{"seed": 1, **kind}),
        normal(*of_keys, keys, value_features or features, **{"seed": 2, **kind}),
    )


def same_bits(a, b):
    return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()


def sum_error(dtype, terms):
    """How far a sum of products may be off, relative to the sum of their magnitudes.

    Rounding errors of a sum of n terms walk at random: |error| <= c * sqrt(n) * u with all but
    certainty for c = 4 (Higham and Mary 2019, A New Approach to Probabilistic Rounding Error
    Analysis, theorem 2.4). u is that of the arithmetic: float32 for all but float64.
    """
    u = UNIT_ROUNDOFF["float64" if str(dtype) == "float64" else "float32"]
    return 4 * u * (math.sqrt(terms) + 2)


def stored(dtype, want):
    """How far rounding to the dtype may move the result."""
    want = np.where(np.isfinite(want), np.abs(want), 0.0)
    return UNIT_ROUNDOFF[str(dtype)] * want + LEAST[str(dtype)]


def largest(x):
    """The largest finite magnitude."""
    x = np.asarray(x).astype(np.float64)
    return np.max(np.abs(x), where=np.isfinite(x), initial=0.0)


def score_error(query, key, options):
    """How far a score, before or after bias, may be off. See `sum_error`."""
    clean = [
        np.nan_to_num(np.asarray(x).astype(np.float64), posinf=0, neginf=0) for x in (query, key)
    ]
    scale = options.get("scale")
    magnitude = largest(
        reference.attention_scores(*map(np.abs, clean), scale=None if scale is None else abs(scale))
    )
    mask = options.get("attn_mask")
    if mask is not None and np.asarray(mask).dtype != bool:
        magnitude += largest(mask)
    if options.get("alibi_slopes") is not None:
        reach = largest(options.get("q_offset", 0)) + query.shape[-2] + key.shape[-2]
        magnitude += largest(options["alibi_slopes"]) * reach
    if options.get("sinks") is not None:
        magnitude += largest(options["sinks"])
    magnitude += options.get("softcap") or 0.0
    return sum_error(query.dtype, query.shape[-1]) * magnitude


def assert_within(got, want, bound, what="result"):
    """Equal (nan to nan, inf to inf), or closer than the bound."""
    got = np.asarray(got).astype(np.float64)
    assert got.shape == want.shape, f"{what}: shape {got.shape}, expected {want.shape}"
    with np.errstate(invalid="ignore"):
        fine = (got == want) | (np.isnan(got) & np.isnan(want)) | (np.abs(got - want) <= bound)
    if not np.all(fine):
        at = tuple(int(i) for i in np.argwhere(~fine)[0])
        limit = np.broadcast_to(bound, want.shape)[at]
        count = np.count_nonzero(~fine)
        raise AssertionError(
            f"{what}: {count} of {fine.size} are off, first {list(at)}: "
            f"got {got[at]}, expected {want[at]} +- {limit:.3g}"
        )


def assert_results(got, want, query, key, value, options):
    """Out, weights and LSE are within rounding of the reference's."""
    dtype = query.dtype
    scores_off = score_error(query, key, options)
    grow = 1 / (1 - options.get("dropout_p", 0.0)) if options.get("dropout_p", 0.0) < 1 else 1.0
    weights_off = 2 * scores_off + 2 * sum_error(dtype, key.shape[-2])
    out, weights, lse = got
    assert out.dtype == weights.dtype == dtype
    assert lse.dtype == (np.float64 if dtype == np.float64 else np.float32)

    assert_within(out, want[0], weights_off * grow * largest(value) + stored(dtype, want[0]), "out")
    of_weights = weights_off * np.nan_to_num(want[1]) + stored(dtype, want[1])
    assert_within(weights, want[1], of_weights, "weights")
    assert np.all((weights == 0) | (want[1] != 0)), "weights: not 0 where the reference is"
    of_lse = scores_off + sum_error(dtype, key.shape[-2]) + stored(lse.dtype, want[2])
    assert_within(lse, want[2], of_lse, "lse")


def check(query, key, value, attn_mask=None, **options):
    """Asserts that attention equals the reference's, with and without weights; returns out."""
    options["attn_mask"] = attn_mask
    options.setdefault("enable_gqa", True)
    unthreaded = {name: x for name, x in options.items() if name != "num_threads"}
    want = reference.scaled_dot_product_attention(
        query, key, value, return_weights=True, return_lse=True, **unthreaded
    )
    everything = am.scaled_dot_product_attention(
        query, key, value, return_weights=True, return_lse=True, **options
    )
    assert_results(everything, want, query, key, value, options)
    out = am.scaled_dot_product_attention(query, key, value, **options)
    assert_results((out, *everything[1:]), want, query, key, value, options)
    return out


def check_scores(query, key, *, stage="raw", **options):
    """Asserts that attention_scores equals the reference's, and returns them."""
    options.setdefault("enable_gqa", True)
    want = reference.attention_scores(query, key, stage=stage, **options)
    got = am.attention_scores(query, key, stage=stage, **options)
    off = score_error(query, key, options)
    if stage == "weights":
        off = (2 * off + 2 * sum_error(query.dtype, key.shape[-2])) * np.nan_to_num(want)
    assert got.dtype == query.dtype
    assert_within(got, want, off + stored(query.dtype, want), stage)
    return got


def check_key_weights(query, key, **options):
    """Asserts that key_weights equal the reference's, and returns them."""
    options.setdefault("enable_gqa", True)
    want = reference.key_weights(query, key, **options)
    got = am.key_weights(query, key, **options)
    queries, keys = query.shape[-2], key.shape[-2]
    off = 2 * score_error(query, key, options)
    off += 2 * sum_error(query.dtype, keys) + sum_error(query.dtype, queries)
    least = queries * stored(query.dtype, np.zeros(1))
    assert got.dtype == query.dtype
    assert_within(got, want, off * np.nan_to_num(want) + stored(query.dtype, want) + least)
    return got


def arguments(**changes):
    """Arguments of a good call to attention, with some changed."""
    good = {
        "query": normal(2, 8, 10, 64),
        "key": normal(2, 8, 12, 64),
        "value": normal(2, 8, 12, 64),
    }
    return {**good, **changes}


def assert_refused(function, error, text, given):
    """Asserts the error's type, its whole text, and that no array was changed."""
    before = {name: x.copy() for name, x in given.items() if isinstance(x, np.ndarray)}
    with pytest.raises(error) as raised:
        function(**given)
    assert type(raised.value) is error
    assert str(raised.value) == text
    for name, copy in before.items():
        assert given[name].tobytes() == copy.tobytes(), f"{name} was changed"


def run_python(code, *, timeout=120, **environment):
    """Runs code in a fresh interpreter that finds this attnmod; returns what it printed."""
    inherited = {
        name: x
        for name, x in os.environ.items()
        if name not in ("ATTNMOD_NUM_THREADS", "OMP_NUM_THREADS")
    }
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**inherited, "PYTHONPATH": python_path(), **environment},
        capture_output=True,
        text=True,
        timeout=timeout,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def python_path():
    """PYTHONPATH for a process that is to find this attnmod and these tests."""
    ours = [str(Path(am.__file__).parents[1]), str(Path(__file__).parent)]
    return os.pathsep.join([*ours, *filter(None, [os.environ.get("PYTHONPATH")])])
