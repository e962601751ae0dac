"""Attention as one writes it in NumPy with some care: the contender, and the oracle of accuracy."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


def attention(
    query: NDArray[Any],
    key: NDArray[Any],
    value: NDArray[Any],
    mask: NDArray[Any] | None = None,
    *,
    causal: bool = False,
    weights: bool = False,
) -> list[NDArray[Any]]:
    """[out], or [out, weights], in the dtype of query.

    Query is (B, H, L, E), key and value (B, G, S, E). The heads that share a key head become more
    rows of one product, the scores are worked on in place, and what divides them divides the
    smaller output instead, unless the weights are wanted.
    """
    B, H, L, E = query.shape
    G, S = key.shape[1:3]
    scale = query.dtype.type(E) ** -0.5
    rows = (query * scale).reshape(B, G, -1, E)
    scores = (rows @ key.swapaxes(-1, -2)).reshape(B, H, L, S)
    if mask is not None and mask.dtype == np.bool_:
        np.copyto(scores, -np.inf, where=~mask)
    elif mask is not None:
        scores += mask
    if causal:
        np.copyto(scores, -np.inf, where=~np.tri(L, S, dtype=np.bool_))

    scores -= scores.max(-1, keepdims=True)
    powers = np.exp(scores, out=scores)
    total = powers.sum(-1, keepdims=True)
    if weights:
        powers /= total
    out = (powers.reshape(B, G, -1, S) @ value).reshape(B, H, L, -1)
    return [out, powers] if weights else [np.divide(out, total, out=out)]
