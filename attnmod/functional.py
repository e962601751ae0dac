"""Attention as functions of arrays.

These wrappers hold names, defaults and documentation; Python's own call is the argument parser, and
the C core gets every argument by position.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

import attnmod._core as _core

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    Window = Sequence[int | None] | None
    Integers = int | NDArray[np.integer[Any]] | Sequence[int]


def scaled_dot_product_attention(
    query: ArrayLike,
    key: ArrayLike,
    value: ArrayLike,
    attn_mask: ArrayLike | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
    *,
    q_offset: Integers = 0,
    window: Window = None,
    softcap: float | None = None,
    alibi_slopes: ArrayLike | None = None,
    sinks: ArrayLike | None = None,
    q_lens: Integers | None = None,
    kv_lens: Integers | None = None,
    rng: int | np.random.Generator | None = None,
    return_weights: bool = False,
    return_lse: bool = False,
    out: NDArray[Any] | None = None,
    num_threads: int | None = None,
) -> Any:
    """Softmax attention, ``softmax(scale * query @ key.T + mask) @ value``, in O(L + S) memory.

    Shapes: B batch, H query heads, G key/value heads, L queries, S keys, E features of queries and
    keys, Ev features of values. ``...`` is any number of leading axes (none too, 13 at most); they
    broadcast as in `numpy.matmul`. Arrays of two axes have no head axis.

    Parameters
    ----------
    query : (..., H, L, E) array
        float16, bfloat16 (of ml_dtypes), float32 or float64; any strides.
    key : (..., G, S, E) array
        Of query's dtype, like value.
    value : (..., G, S, Ev) array
    attn_mask : array that broadcasts to (..., H, L, S), optional
        bool: True takes part. float, of any float dtype: added to the scores, rounded to the type
        of sums; -inf masks.
    dropout_p : float
        Share of the weights that is dropped, 0 to 1; the others are divided by 1 - dropout_p. The
        mask is a function of the seed and the place alone, the same at any number of threads.
    is_causal : bool
        Query i sees the keys j <= q_offset + i; together with attn_mask both hold.
    scale : float, optional
        What the scores are multiplied by; 1 / sqrt(E) by default. 0 and negative numbers are legal.
    enable_gqa : bool
        Let H be a multiple of G: head h then uses key head h // (H / G). Without it another G than
        H is an error.
    q_offset : int or (...) int array
        The position of query 0 among the keys: ``S - L`` aligns a causal mask to the bottom right.
    window : (left, right), each int or None, optional
        Position p sees the keys p - left <= j <= p + right. None or -1 leaves a side open.
    softcap : float, optional
        c: scores s become c tanh(s / c), before masks. None or 0 is off.
    alibi_slopes : (..., H) array, optional
        Adds -slope * abs(p - j) to the scores. float32 resolves distances below 2**24.
    sinks : (..., H) array, optional
        A logit per head that joins the softmax's denominator and has no value.
    q_lens, kv_lens : int or (...) int array, optional
        Queries and keys past these lengths do not take part.
    rng : int or numpy.random.Generator, optional
        The seed of dropout, 0 <= rng < 2**64, or a generator from which it is drawn; None draws it
        from the system.
    return_weights, return_lse : bool
        Return (out, weights), (out, lse) or (out, weights, lse).
    out : (..., H, L, Ev) array, optional
        Where to write the result: of its shape and dtype, any strides, no memory of an input.
    num_threads : int, optional
        `get_num_threads()` by default. The result has the same bits for any number.

    Returns
    -------
    out : (..., H, L, Ev) array of query's dtype
        Zero where a query has no key.
    weights : (..., H, L, S) array of query's dtype, with return_weights
        What multiplied the values: after dropout.
    lse : (..., H, L) array, float32 or for float64 float64, with return_lse
        Natural logarithm of the softmax's denominator, sinks included; -inf for a row without keys.

    Raises
    ------
    TypeError, ValueError
        An argument does not fit: the message names it, what was wanted and what was found.
    MemoryError
        Sizes whose product can't be counted, or that memory can't hold.

    Notes
    -----
    Vaswani et al., "Attention is all you need", 2017, equation 1. Sums are made in float32, and in
    float64 for float64. Memory is O(L + S). Order: scale, softcap, mask and ALiBi, softmax with
    sinks, dropout, values. A NaN or infinity reaches the rows that see it and no others. Options
    come from: GQA Ainslie et al. 2023, ALiBi Press et al. 2022, window Beltagy et al. 2020, softcap
    Gemma 2 2024, sinks Xiao et al. 2024; the running softmax Milakov & Gimelshein 2018, Dao et al.
    2022.

    Examples
    --------
    >>> import numpy as np
    >>> import attnmod as am
    >>> x = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
    >>> am.scaled_dot_product_attention(x, x, x, is_causal=True).round(3)
    array([[1.   , 0.   ],
           [0.33 , 0.67 ],
           [0.752, 0.752]])
    """
    # In the order of the enumerations in csrc/python/attention.c.
    return _core.attention(
        query,
        key,
        value,
        attn_mask,
        dropout_p,
        _seed(rng, dropout_p),
        return_weights,
        return_lse,
        out,
        is_causal,
        scale,
        enable_gqa,
        q_offset,
        window,
        softcap,
        alibi_slopes,
        sinks,
        q_lens,
        kv_lens,
        num_threads,
    )


def _seed(rng: int | np.random.Generator | None, dropout_p: float) -> int:
    """The 64 bits that dropout is a function of; nothing is drawn where there is no dropout."""
    no_dropout = isinstance(dropout_p, float) and dropout_p == 0
    if rng is None:
        return 0 if no_dropout else int.from_bytes(os.urandom(8), "little")
    if isinstance(rng, np.random.Generator):
        return 0 if no_dropout else int(rng.integers(2**64, dtype=np.uint64))
    if isinstance(rng, bool) or not isinstance(rng, (int, np.integer)):
        raise TypeError(
            f"rng: expected an int, a numpy.random.Generator or None, got {type(rng).__name__}"
        )
    if not 0 <= rng < 2**64:
        raise ValueError(f"rng: expected a seed from 0 to 2**64 - 1, got {rng}")
    return int(rng)


def attention_scores(
    query: ArrayLike,
    key: ArrayLike,
    attn_mask: ArrayLike | None = None,
    *,
    stage: Literal["raw", "softcapped", "biased", "weights"] = "raw",
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
    q_offset: Integers = 0,
    window: Window = None,
    softcap: float | None = None,
    alibi_slopes: ArrayLike | None = None,
    sinks: ArrayLike | None = None,
    q_lens: Integers | None = None,
    kv_lens: Integers | None = None,
    num_threads: int | None = None,
) -> NDArray[Any]:
    """The L x S matrix of attention, at one of its stages, for looking at.

    Parameters
    ----------
    query : (..., H, L, E) array
    key : (..., G, S, E) array
    stage : str
        "raw": scale * query @ key.T; "softcapped": after the softcap; "biased": after attn_mask,
        ALiBi and all masks, -inf where a key is masked; "weights": after the softmax.
    attn_mask, is_causal, ... : optional
        The other parameters are those of `scaled_dot_product_attention`.

    Returns
    -------
    (..., H, L, S) array of query's dtype

    Raises
    ------
    TypeError, ValueError, MemoryError
        As in `scaled_dot_product_attention`.

    Notes
    -----
    The four outputs that ONNX's Attention operator calls qk_matmul_output_mode 0 to 3.

    Examples
    --------
    >>> import numpy as np
    >>> import attnmod as am
    >>> x = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
    >>> am.attention_scores(x, x, stage="biased", is_causal=True, scale=1.0)
    array([[  1., -inf, -inf],
           [  0.,   1., -inf],
           [  1.,   1.,   2.]])
    """
    return _core.attention_scores(
        query,
        key,
        attn_mask,
        stage,
        is_causal,
        scale,
        enable_gqa,
        q_offset,
        window,
        softcap,
        alibi_slopes,
        sinks,
        q_lens,
        kv_lens,
        num_threads,
    )


def key_weights(
    query: ArrayLike,
    key: ArrayLike,
    attn_mask: ArrayLike | None = None,
    *,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
    q_offset: Integers = 0,
    window: Window = None,
    softcap: float | None = None,
    alibi_slopes: ArrayLike | None = None,
    sinks: ArrayLike | None = None,
    q_lens: Integers | None = None,
    kv_lens: Integers | None = None,
    num_threads: int | None = None,
) -> NDArray[Any]:
    """The weight that each key receives, summed over the queries, without the L x S matrix.

    Parameters
    ----------
    query : (..., H, L, E) array
    key : (..., G, S, E) array
    attn_mask, is_causal, ... : optional
        The other parameters are those of `scaled_dot_product_attention`.

    Returns
    -------
    (..., H, S) array of query's dtype
        ``attention_scores(..., stage="weights").sum(-2)``, in O(L + S) memory.

    Raises
    ------
    TypeError, ValueError, MemoryError
        As in `scaled_dot_product_attention`.

    Notes
    -----
    The statistic by which caches choose the keys to keep: Zhang et al., "H2O: heavy-hitter oracle",
    2023.

    Examples
    --------
    >>> import numpy as np
    >>> import attnmod as am
    >>> x = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
    >>> am.key_weights(x, x, is_causal=True).round(3)
    array([1.578, 0.918, 0.503])
    """
    return _core.key_weights(
        query,
        key,
        attn_mask,
        is_causal,
        scale,
        enable_gqa,
        q_offset,
        window,
        softcap,
        alibi_slopes,
        sinks,
        q_lens,
        kv_lens,
        num_threads,
    )


def softmax(x: ArrayLike, axis: int = -1) -> NDArray[Any]:
    """The softmax along one axis, ``exp(x - max) / sum(exp(x - max))``, stable, for any strides.

    Parameters
    ----------
    x : array
        float16, bfloat16, float32 or float64, of at least one axis.
    axis : int

    Returns
    -------
    array of x's shape and dtype
        Zero along a line that is all -inf, as attention gives a row without keys.

    Raises
    ------
    TypeError, ValueError
        x is not of a float dtype, or has no such axis.

    Notes
    -----
    In one pass for maximum and sum: Milakov & Gimelshein, "Online normalizer calculation for
    softmax", 2018.

    Examples
    --------
    >>> import numpy as np
    >>> import attnmod as am
    >>> am.softmax(np.array([1.0, 2.0, 3.0])).round(3)
    array([0.09 , 0.245, 0.665])
    """
    return _core.softmax(x, axis)


def merge_states(
    out_a: ArrayLike, lse_a: ArrayLike, out_b: ArrayLike, lse_b: ArrayLike
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Attention over the keys of a and b together, from attention over each.

    Associative up to rounding, with identity out = 0, lse = -inf: what splits keys over chunks,
    processes or machines puts its parts together with this.

    Parameters
    ----------
    out_a, out_b : (..., L, Ev) array
        Results of attention over two sets of keys, with the same queries; of one dtype and shape.
    lse_a, lse_b : (..., L) array
        Their log-sum-exps, of one dtype.

    Returns
    -------
    out : (..., L, Ev) array of out_a's dtype
    lse : (..., L) array of lse_a's dtype

    Raises
    ------
    TypeError, ValueError
        Dtypes or shapes differ.

    Notes
    -----
    Dao et al., "FlashAttention", 2022, section 3.1: the softmax of a concatenation.

    Examples
    --------
    >>> import numpy as np
    >>> import attnmod as am
    >>> q, k, v = np.random.default_rng(0).standard_normal((3, 8, 4))
    >>> whole = am.scaled_dot_product_attention(q, k, v)
    >>> a = am.scaled_dot_product_attention(q, k[:5], v[:5], return_lse=True)
    >>> b = am.scaled_dot_product_attention(q, k[5:], v[5:], return_lse=True)
    >>> bool(np.allclose(am.merge_states(*a, *b)[0], whole))
    True
    """
    out_a, out_b = _state("out_a", out_a, _FLOATS), _state("out_b", out_b, _FLOATS)
    lse_a, lse_b = _state("lse_a", lse_a, _FLOATS[2:]), _state("lse_b", lse_b, _FLOATS[2:])
    _expect_like("out_b", out_b, "out_a", out_a)
    _expect_like("lse_b", lse_b, "lse_a", lse_a)
    if lse_a.shape != out_a.shape[:-1]:
        raise ValueError(f"lse_a: expected shape {out_a.shape[:-1]}, got {lse_a.shape}")

    largest = np.maximum(lse_a, lse_b)
    shift = np.where(np.isneginf(largest), 0, largest)
    out = np.zeros(out_a.shape, np.result_type(out_a, lse_a, np.float32))
    with np.errstate(divide="ignore", invalid="ignore"):
        weights = np.exp(lse_a - shift), np.exp(lse_b - shift)
        total = weights[0] + weights[1]
        lse = shift + np.log(total)
        for part, part_lse, weight in zip((out_a, out_b), (lse_a, lse_b), weights, strict=True):
            # Whatever a part without keys holds takes no part.
            product = part.astype(out.dtype) * (weight / total)[..., None]
            out += np.where(np.isneginf(part_lse)[..., None], 0, product)
    return out.astype(out_a.dtype), lse.astype(lse_a.dtype)


_FLOATS = ("float16", "bfloat16", "float32", "float64")


def _state(name: str, found: ArrayLike, dtypes: tuple[str, ...]) -> NDArray[Any]:
    """An array of one of these dtypes, contiguous: NumPy's exp rounds differently by strides."""
    if isinstance(found, np.ma.MaskedArray):
        raise TypeError(f"{name}: expected an array without a mask of its own, got MaskedArray")
    array = np.asarray(found)
    if array.dtype.name not in dtypes:
        wanted = f"{', '.join(dtypes[:-1])} or {dtypes[-1]}"
        raise TypeError(f"{name}: expected {wanted}, got {array.dtype}")
    return np.asarray(array, array.dtype.newbyteorder("="), order="C")


def _expect_like(name: str, found: NDArray[Any], model_name: str, model: NDArray[Any]) -> None:
    if found.dtype != model.dtype:
        raise TypeError(
            f"{name}: expected dtype {model.dtype} like {model_name}, got {found.dtype}"
        )
    if found.shape != model.shape:
        raise ValueError(
            f"{name}: expected shape {model.shape} like {model_name}, got {found.shape}"
        )
