"""Against PyTorch's scaled_dot_product_attention, where PyTorch is installed."""

import math

import numpy as np
import pytest
from helpers import DTYPES, assert_within, check, make_qkv, normal, score_error, stored, sum_error

import attnmod as am

torch = pytest.importorskip("torch")

# Rounding is luck: two ways to compute the same are each ahead on some inputs. Over many it evens
# out, and 5 % are more than the luck of the seeds below.
LUCK = 1.05


def to_torch(x):
    if x.dtype == "bfloat16":
        return torch.from_numpy(x.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(x)


def torch_attention(query, key, value, attn_mask=None, **options):
    mask = None if attn_mask is None else to_torch(attn_mask)
    out = torch.nn.functional.scaled_dot_product_attention(
        *map(to_torch, (query, key, value)), mask, **options
    )
    return out.double().numpy()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    "options",
    [{}, {"is_causal": True}, {"scale": 0.3}, {"scale": 0.0}, {"is_causal": True, "scale": 2.0}],
)
@pytest.mark.parametrize(
    ("heads", "kv_heads", "queries", "keys"), [(3, 3, 40, 100), (6, 2, 100, 40), (4, 1, 1, 77)]
)
def test_same_as_torch(dtype, options, heads, kv_heads, queries, keys):
    arrays = make_qkv(
        2, heads, queries=queries, keys=keys, kv_heads=kv_heads, features=16, dtype=dtype
    )
    want = torch_attention(*arrays, enable_gqa=True, **options)
    got = check(*arrays, enable_gqa=True, **options)
    off = 2 * score_error(*arrays[:2], options) + 2 * sum_error(dtype, keys)
    # torch rounds the weights, too, to a small dtype.
    value_size = np.abs(arrays[2].astype(np.float64)).max()
    bound = (
        2 * off * value_size + 2 * stored(dtype, want) + 2 * stored(dtype, np.full(1, value_size))
    )
    assert_within(got, want, bound)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("kind", ["bool", "float"])
@pytest.mark.parametrize("shape", [(40, 100), (1, 100), (2, 1, 40, 100), (2, 3, 40, 100)])
def test_same_as_torch_with_a_mask(dtype, kind, shape):
    arrays = make_qkv(2, 3, queries=40, keys=100, dtype=dtype)
    mask = normal(*shape, dtype=dtype)
    mask = mask > -1 if kind == "bool" else mask
    want = torch_attention(*arrays, mask)
    off = 4 * score_error(*arrays[:2], {"attn_mask": mask}) + 4 * sum_error(dtype, 100)
    assert_within(
        check(*arrays, mask), want, off * np.abs(arrays[2]).max() + 2 * stored(dtype, want)
    )


def in_long_double(query, key, value):
    """Attention whose own error does not count beside that of float64."""
    query, key, value = (x.astype(np.longdouble) for x in (query, key, value))
    scores = query @ key.swapaxes(-1, -2) / np.sqrt(np.longdouble(query.shape[-1]))
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return weights / weights.sum(axis=-1, keepdims=True) @ value


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    ("leading", "queries", "keys", "features"),
    [((1, 2), 6, 6, 2), ((2, 4), 128, 128, 64), ((1, 2), 1, 1000, 128), ((1, 2), 300, 77, 40)],
)
def test_error_is_at_most_that_of_torch(dtype, leading, queries, keys, features):
    seeds = math.ceil(400_000 / (math.prod(leading) * queries * features))
    ours = theirs = 0.0
    for seed in range(min(seeds, 100)):
        arrays = [
            normal(*leading, rows, features, dtype=dtype, seed=3 * seed + which)
            for which, rows in enumerate((queries, keys, keys))
        ]
        exact = in_long_double(*arrays)
        got = am.scaled_dot_product_attention(*arrays).astype(np.float64)
        ours += np.abs(got - exact).mean()
        theirs += np.abs(torch_attention(*arrays) - exact).mean()
    assert ours <= LUCK * theirs


def test_tensors_of_the_cpu_are_taken_as_arrays():
    arrays = make_qkv(2, queries=4, keys=5)
    got = am.scaled_dot_product_attention(*map(torch.from_numpy, arrays))
    assert np.array_equal(got, am.scaled_dot_product_attention(*arrays))
