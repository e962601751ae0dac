"""The specification: every function of attnmod in plain NumPy, in float64 and without any blocking.

What the C code promises is what this file says, up to rounding. The tests compare with it, and it
is the place to look when a docstring leaves a question open; it is no fallback (it builds the whole
L x S matrix, and it does not check its arguments). Results are float64 whatever the inputs.

    s = scale * query @ key.T                       scores, (..., H, L, S)
    s = softcap * tanh(s / softcap)                 if softcap
    s = s + attn_mask - slope * |p - j|             float mask, ALiBi; p = q_offset + i
    s = -inf  where a mask, causality, the window or a length forbids the pair (i, j)
    w = exp(s) / (exp(sink) + sum_j exp(s))         0 in a row without keys
    w = w * kept / (1 - dropout_p)
    out = w @ value                                 lse = log(exp(sink) + sum_j exp(s))

Shapes: B batch, H query heads, G key/value heads, L queries, S keys, E head size, Ev value size.

Sources
-------
softmax(QKᵀ/√E)V    Vaswani et al. 2017, Attention Is All You Need, equation 1
one or G key heads  Shazeer 2019, Fast Transformer Decoding; Ainslie et al. 2023, GQA
ALiBi               Press, Smith and Lewis 2021, Train Short, Test Long, section 3
softcap             Gemma Team 2024, Gemma 2, section 2
window              Beltagy, Peters and Cohan 2020, Longformer, section 3
sinks               Xiao et al. 2023, Efficient Streaming Language Models with Attention Sinks; as
                    a logit in the denominator: OpenAI 2025, gpt-oss model card, section 2
the LSE, merging    Milakov and Gimelshein 2018, Online normalizer calculation for softmax,
                    section 3; Dao et al. 2022, FlashAttention, section 3.1
Philox4x32-10       Salmon et al. 2011, Parallel Random Numbers: As Easy as 1, 2, 3, section 3.3
"""

from __future__ import annotations

import math
import os
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    Floats = NDArray[np.float64]

__all__ = [
    "attention_scores",
    "key_weights",
    "merge_states",
    "philox",
    "scaled_dot_product_attention",
    "softmax",
]

Window = tuple[int | None, int | None] | None


@np.errstate(invalid="ignore")
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
    q_offset: ArrayLike = 0,
    window: Window = None,
    softcap: float | None = None,
    alibi_slopes: ArrayLike | None = None,
    sinks: ArrayLike | None = None,
    q_lens: ArrayLike | None = None,
    kv_lens: ArrayLike | None = None,
    rng: int | np.random.Generator | None = None,
    return_weights: bool = False,
    return_lse: bool = False,
) -> Any:
    """Attention, softmax(scale * query @ key.T + masks) @ value.

    Parameters
    ----------
    query : (..., H, L, E) array
    key : (..., G, S, E) array
    value : (..., G, S, Ev) array
        Query head h reads head h // (H / G). Rank 2, (L, E), has no head axis: it broadcasts.
    attn_mask : array that broadcasts to (..., H, L, S)
        bool: True takes part. Float: added to the scores; -inf masks.
    dropout_p : float
        The share of weights to drop; those kept are divided by 1 - dropout_p.
    is_causal : bool
        Query i sees the keys j <= p, where p = q_offset + i.
    scale : float
        None is 1/sqrt(E).
    q_offset : int or integer array that broadcasts to (...)
    window : (left, right)
        Query i sees p - left <= j <= p + right; None or -1 leaves a side open.
    softcap : float
        None or 0 is off.
    alibi_slopes, sinks : arrays that broadcast to (..., H)
    q_lens, kv_lens : integer arrays that broadcast to (...)
        Rows i >= q_lens see no key; no row sees the keys j >= kv_lens.
    rng : int or numpy.random.Generator
        The seed of the dropout, or what to draw it from.

    Returns
    -------
    out : (..., H, L, Ev) float64 array
    weights : (..., H, L, S) float64 array, with ``return_weights``
        What multiplied the values: after dropout.
    lse : (..., H, L) float64 array, with ``return_lse``
        The logarithm of the softmax's denominator.

    Examples
    --------
    >>> import numpy as np
    >>> from attnmod import reference
    >>> x = np.eye(2)
    >>> reference.scaled_dot_product_attention(x, x, x, is_causal=True, scale=np.log(3)).round(3)
    array([[1.  , 0.  ],
           [0.25, 0.75]])
    """
    has_heads = max(map(np.ndim, (query, key, value))) > 2
    query, key, value = _alike(query, key, value)
    scores = attention_scores(
        query, key, attn_mask, stage="biased", is_causal=is_causal, scale=scale, q_offset=q_offset,
        window=window, softcap=softcap, alibi_slopes=alibi_slopes, q_lens=q_lens, kv_lens=kv_lens,
    )  # fmt: skip
    weights, lse = _normalize(scores, sinks)

    if dropout_p > 0:
        weights = np.where(_kept(weights.shape, dropout_p, rng), weights, 0.0)
        weights /= 1 - dropout_p if dropout_p < 1 else 1

    # A masked pair adds nothing, whatever its value is: not even 0 * nan.
    finite = np.isfinite(value)
    out = weights @ np.where(finite, value, 0.0)
    special = np.where(finite, 0.0, value)
    for j in np.flatnonzero(special.any(axis=(*range(special.ndim - 2), -1))):
        product = weights[..., j, None] * special[..., None, j, :]
        out += np.where(scores[..., j, None] == -np.inf, 0.0, product)

    results = [out]
    if return_weights:
        results.append(weights)
    if return_lse:
        results.append(lse)
    if not has_heads:
        results = [result[0] for result in results]
    return tuple(results) if len(results) > 1 else results[0]


@np.errstate(invalid="ignore")
def attention_scores(
    query: ArrayLike,
    key: ArrayLike,
    attn_mask: ArrayLike | None = None,
    *,
    stage: Literal["raw", "softcapped", "biased", "weights"] = "raw",
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
    q_offset: ArrayLike = 0,
    window: Window = None,
    softcap: float | None = None,
    alibi_slopes: ArrayLike | None = None,
    sinks: ArrayLike | None = None,
    q_lens: ArrayLike | None = None,
    kv_lens: ArrayLike | None = None,
) -> Floats:
    """The L x S matrix of scores at one of its four stages, for looking at.

    Parameters
    ----------
    query : (..., H, L, E) array
    key : (..., G, S, E) array
    stage : str
        "raw": scale * query @ key.T. "softcapped": after the softcap. "biased": after bias, ALiBi
        and masks, -inf where masked. "weights": after the softmax.

    The other parameters are those of `scaled_dot_product_attention`.

    Returns
    -------
    (..., H, L, S) float64 array

    Examples
    --------
    >>> import numpy as np
    >>> from attnmod import reference
    >>> x = np.eye(2)
    >>> reference.attention_scores(x, x, stage="biased", is_causal=True, scale=3)
    array([[  3., -inf],
           [  0.,   3.]])
    """
    has_heads = max(np.ndim(query), np.ndim(key)) > 2
    query, key = _alike(query, key)
    num_queries, head_size = query.shape[-2:]
    num_keys = key.shape[-2]
    if scale is None:
        scale = 1 / math.sqrt(max(head_size, 1))

    scores = (query * scale) @ key.swapaxes(-1, -2)
    if stage != "raw" and softcap:
        scores = softcap * np.tanh(scores / softcap)
    if stage in ("biased", "weights"):
        rows, keys = np.arange(num_queries)[:, None], np.arange(num_keys)
        # Where each query stands, (..., 1, L, 1), in Python's integers: no offset overflows.
        position = _over_heads(q_offset).astype(object) + rows
        visible = np.asarray(True)
        if attn_mask is not None:
            mask = np.asarray(attn_mask)
            bias = np.where(mask, 0.0, -np.inf) if mask.dtype == bool else mask.astype(np.float64)
            visible = bias != -np.inf
            scores = scores + bias
        if alibi_slopes is not None:
            slopes = np.asarray(alibi_slopes, np.float64)[..., None, None]
            scores = scores - slopes * np.abs(position - keys).astype(np.float64)
        left, right = window or (None, None)
        if left not in (None, -1):
            visible = visible & (keys >= position - left)
        if right not in (None, -1):
            visible = visible & (keys <= position + right)
        if is_causal:
            visible = visible & (keys <= position)
        if q_lens is not None:
            visible = visible & (rows < _over_heads(q_lens))
        if kv_lens is not None:
            visible = visible & (keys < _over_heads(kv_lens))
        scores = np.where(visible, scores, -np.inf)
    if stage == "weights":
        scores, _ = _normalize(scores, sinks)
    return scores if has_heads else scores[0]


def key_weights(
    query: ArrayLike, key: ArrayLike, attn_mask: ArrayLike | None = None, **options: Any
) -> Floats:
    """The weight that each key receives, summed over the queries.

    Parameters
    ----------
    query : (..., H, L, E) array
    key : (..., G, S, E) array

    The other parameters are those of `attention_scores`, without ``stage``.

    Returns
    -------
    (..., H, S) float64 array

    Examples
    --------
    >>> import numpy as np
    >>> from attnmod import reference
    >>> reference.key_weights(np.zeros((2, 1)), np.zeros((2, 1)), is_causal=True)
    array([1.5, 0.5])
    """
    weights = attention_scores(query, key, attn_mask, stage="weights", **options)
    return np.asarray(weights.sum(axis=-2))


def softmax(x: ArrayLike, axis: int = -1) -> Floats:
    """exp(x) / sum(exp(x)) along an axis; 0 where all of x along the axis is -inf.

    Parameters
    ----------
    x : (...) array
    axis : int

    Returns
    -------
    (...) float64 array, of x's shape

    Examples
    --------
    >>> import numpy as np
    >>> from attnmod import reference
    >>> reference.softmax([1000.0, 1000.0, -np.inf])
    array([0.5, 0.5, 0. ])
    """
    weights, _ = _normalize(np.moveaxis(np.asarray(x, np.float64), axis, -1), None)
    return np.moveaxis(weights, -1, axis)


@np.errstate(invalid="ignore")
def merge_states(
    out_a: ArrayLike, lse_a: ArrayLike, out_b: ArrayLike, lse_b: ArrayLike
) -> tuple[Floats, Floats]:
    """The attention over two sets of keys, from the attention over each.

    Parameters
    ----------
    out_a, out_b : (..., L, Ev) arrays
    lse_a, lse_b : (..., L) arrays
        A state whose LSE is -inf saw no key and adds nothing.

    Returns
    -------
    out : (..., L, Ev) float64 array
    lse : (..., L) float64 array

    Examples
    --------
    >>> import numpy as np
    >>> from attnmod import reference
    >>> out, lse = reference.merge_states([[0.0]], [np.log(1)], [[4.0]], [np.log(3)])
    >>> out, np.exp(lse).round(3)
    (array([[3.]]), array([4.]))
    """
    lses = np.stack([np.asarray(lse, np.float64) for lse in (lse_a, lse_b)], axis=-1)
    outs = np.stack([np.asarray(out, np.float64) for out in (out_a, out_b)], axis=-1)
    shares, lse = _normalize(lses, None)
    seen = lses[..., None, :] != -np.inf
    return np.where(seen, shares[..., None, :] * outs, 0.0).sum(axis=-1), lse


def philox(row: ArrayLike, key: ArrayLike, seed: int) -> NDArray[np.uint32]:
    """The random word of Philox4x32-10 that decides whether dropout keeps a pair.

    Parameters
    ----------
    row : (...) integer array
        (b * H + h) * L + i, b counting the batch axes flat.
    key : (...) integer array
        j. The counter is (row, j // 4) in 64 bits each; key j takes word j % 4.
    seed : int
        64 bits, Philox's key.

    Returns
    -------
    (...) uint32 array

    Examples
    --------
    >>> from attnmod import reference
    >>> [f"{word:08x}" for word in reference.philox(0, [0, 1, 2, 3], seed=0)]
    ['6627e8d5', 'e169c58d', 'bc57ac4c', '9b00dbd8']
    """
    low, half = np.uint64(0xFFFFFFFF), np.uint64(32)
    row, key = np.broadcast_arrays(np.asarray(row, np.uint64), np.asarray(key, np.uint64))
    quad = key // np.uint64(4)
    word = [row & low, row >> half, quad & low, quad >> half]
    key_low, key_high = seed & 0xFFFFFFFF, seed >> 32
    for _ in range(10):
        product_0 = np.uint64(0xD2511F53) * word[0]
        product_2 = np.uint64(0xCD9E8D57) * word[2]
        word = [
            product_2 >> half ^ word[1] ^ np.uint64(key_low),
            product_2 & low,
            product_0 >> half ^ word[3] ^ np.uint64(key_high),
            product_0 & low,
        ]
        key_low = key_low + 0x9E3779B9 & 0xFFFFFFFF
        key_high = key_high + 0xBB67AE85 & 0xFFFFFFFF
    return np.choose((key % np.uint64(4)).astype(int), word).astype(np.uint32)


def _alike(*arrays: ArrayLike) -> list[Floats]:
    """Query, key [and value] in float64 with H heads and the same leading axes each."""
    floats = [np.asarray(x).astype(np.float64) for x in arrays]
    heads = next((x.shape[-3] for x in floats if x.ndim > 2), 1)
    floats = [x if x.ndim > 2 else x[None] for x in floats]
    floats = [np.repeat(x, heads // max(x.shape[-3], 1), axis=-3) for x in floats]
    leading = np.broadcast_shapes(*(x.shape[:-3] for x in floats))
    return [np.broadcast_to(x, leading + x.shape[-3:]) for x in floats]


def _over_heads(per_batch: ArrayLike) -> NDArray[Any]:
    """A number for each batch, (...), made to broadcast against (..., H, L, S)."""
    return np.asarray(per_batch)[..., None, None, None]


@np.errstate(invalid="ignore", divide="ignore")
def _normalize(scores: Floats, sinks: ArrayLike | None) -> tuple[Floats, Floats]:
    """Softmax of scores (..., H, L, S) over keys and sinks (..., H): the weights, and the LSE."""
    sink = -np.inf if sinks is None else np.asarray(sinks, np.float64)[..., None]
    peak = np.maximum(scores.max(axis=-1, initial=-np.inf), sink)
    shift = np.where(peak == -np.inf, 0.0, peak)  # so that -inf - shift is -inf, not nan
    weights = np.exp(scores - shift[..., None])
    total = weights.sum(axis=-1) + np.exp(sink - shift)
    weights = np.where(scores == -np.inf, 0.0, weights / total[..., None])
    return weights, shift + np.log(total)


def _kept(
    shape: tuple[int, ...], dropout_p: float, rng: int | np.random.Generator | None
) -> NDArray[np.bool_]:
    """Which of the (..., H, L, S) weights dropout keeps."""
    if isinstance(rng, np.random.Generator):
        seed = int(rng.integers(2**64, dtype=np.uint64))
    else:
        seed = int.from_bytes(os.urandom(8), "little") if rng is None else int(rng)
    row = np.arange(math.prod(shape[:-1])).reshape(*shape[:-1], 1)
    return philox(row, np.arange(shape[-1]), seed) >= math.floor(dropout_p * 2**32)
