"""A row: one problem, and the arrays, work and bytes that belong to it. suite.py lists them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

Mask = Literal["none", "float", "bool", "bias", "padding"]


class Inputs(NamedTuple):
    query: NDArray[Any]  # (B, H, L, E)
    key: NDArray[Any]  # (B, G, S, E)
    value: NDArray[Any]  # (B, G, S, E)
    # What attnmod's call gets by name; defaults are left out. A peer takes what it has.
    options: dict[str, Any]

    @property
    def mask(self) -> NDArray[Any] | None:
        """(L, S), (H, L, S) for a bias, or (B, 1, 1, S) for padding."""
        return self.options.get("attn_mask")


@dataclass(frozen=True)
class Row:
    """One problem. B batch, H query heads, G key/value heads, L queries, S keys, E features."""

    name: str
    shape: tuple[int, int, int, int, int, int]  # B, H, G, L, S, E
    causal: bool = False
    dtype: str = "float32"
    mask: Mask = "none"
    softcap: float = 0.0
    alibi: bool = False
    sinks: bool = False
    window: tuple[int, int] | None = None
    dropout: float = 0.0
    kv_lens: bool = False
    weights: bool = False
    lse: bool = False
    base: Row | None = None  # timed in the same race: at what cost does this row differ from it?
    in_table: bool = False  # one of the rows over which the geometric means are taken

    def variant(self, name: str, **changes: Any) -> Row:
        """This row with changes, to be compared with it."""
        return replace(self, name=name, in_table=False, **{"base": self, **changes})

    @property
    def flops(self) -> int:
        """Of both products, a multiply-add being two.

        What position or length hides is not counted; a mask that is an array counts in full.
        """
        B, H, _, L, S, E = self.shape
        at = np.arange(L)
        left, right = self.window or (L, S + L)
        first = np.maximum(at - left, 0)
        end = at + (0 if self.causal else right) + 1
        pairs = [
            int(np.maximum(np.minimum(end, length) - first, 0).sum())
            for length in (self.lengths if self.kv_lens else np.full(B, S))
        ]
        return 4 * sum(pairs) * H * E

    @property
    def is_decode(self) -> bool:
        """Few queries read many keys: such a row's work is reading them."""
        L, S = self.shape[3:5]
        return 64 * L <= S

    @property
    def is_tiny(self) -> bool:
        """The call itself takes longer than its arithmetic."""
        return self.flops < 1_000_000

    @property
    def bytes_read(self) -> int:
        """Of queries, keys and values, each once."""
        B, H, G, L, S, E = self.shape
        return (B * H * L + 2 * B * G * S) * E * numpy_dtype(self.dtype).itemsize

    @property
    def work(self) -> int:
        """What a row and its base are compared by: numbers read, or operations."""
        itemsize = numpy_dtype(self.dtype).itemsize
        return self.bytes_read // itemsize if self.is_decode else self.flops

    @property
    def lengths(self) -> NDArray[np.int64]:
        """(B,) numbers of keys, from half of S to S."""
        B, S = self.shape[0], self.shape[4]
        return np.random.default_rng(0).integers(S // 2, S, size=B, endpoint=True)

    def describe(self) -> str:
        B, H, G, L, S, E = self.shape
        heads = H if H == G else f"{H}/{G}"
        options = [
            self.dtype if self.dtype != "float32" else "",
            "causal" if self.causal else "",
            f"{self.mask} mask" if self.mask != "none" else "",
            f"softcap {self.softcap:g}" if self.softcap else "",
            "ALiBi" if self.alibi else "",
            "sinks" if self.sinks else "",
            f"window {self.window[0] + 1}" if self.window else "",
            f"dropout {self.dropout:g}" if self.dropout else "",
            "kv_lens" if self.kv_lens else "",
            "weights" if self.weights else "",
            "lse" if self.lse else "",
        ]
        return " ".join([f"{B},{heads},{L},{S},{E}", *filter(None, options)])

    def inputs(self, seed: int = 0) -> Inputs:
        """Normal numbers, the same for every contender."""
        B, H, G, L, S, E = self.shape
        rng = np.random.default_rng(seed)
        dtype = numpy_dtype(self.dtype)

        def normal(*shape: int) -> NDArray[Any]:
            kind = np.float64 if dtype == np.float64 else np.float32
            return rng.standard_normal(shape, dtype=kind).astype(dtype)

        options: dict[str, Any] = {}
        if self.mask == "float":
            options["attn_mask"] = normal(L, S)
        elif self.mask == "bias":
            options["attn_mask"] = normal(H, L, S)
        elif self.mask == "bool":
            options["attn_mask"] = rng.random((L, S)) < 0.5
            options["attn_mask"][:, 0] = True  # no row is left without a key
        elif self.mask == "padding":
            options["attn_mask"] = (np.arange(S) < self.lengths[:, None])[:, None, None, :]
        named = {
            "dropout_p": self.dropout,
            "is_causal": self.causal,
            "enable_gqa": H != G,
            "window": self.window,
            "softcap": self.softcap,
            "alibi_slopes": 2.0 ** (-8 * np.arange(1, H + 1) / H) if self.alibi else None,
            "sinks": normal(H) if self.sinks else None,
            "kv_lens": self.lengths if self.kv_lens else None,
            "rng": 1 if self.dropout else None,
            "return_weights": self.weights,
            "return_lse": self.lse,
        }
        options |= {name: x for name, x in named.items() if isinstance(x, np.ndarray) or x}
        return Inputs(normal(B, H, L, E), normal(B, G, S, E), normal(B, G, S, E), options)


def numpy_dtype(name: str) -> np.dtype[Any]:
    if name == "bfloat16":
        import ml_dtypes

        bfloat16: np.dtype[Any] = np.dtype(ml_dtypes.bfloat16)
        return bfloat16
    return np.dtype(name)
