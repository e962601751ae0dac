"""What is timed: shapes, and the arrays, work and bytes that belong to each."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fnmatch import fnmatch
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

Mask = Literal["none", "float", "bool", "padding"]


class Inputs(NamedTuple):
    query: NDArray[Any]  # (B, H, L, E)
    key: NDArray[Any]  # (B, G, S, E)
    value: NDArray[Any]  # (B, G, S, E)
    mask: NDArray[Any] | None  # (L, S), or (B, 1, 1, S) for padding


@dataclass(frozen=True)
class Row:
    """One problem. B batch, H query heads, G key/value heads, L queries, S keys, E features."""

    name: str
    shape: tuple[int, int, int, int, int, int]  # B, H, G, L, S, E
    causal: bool = False
    dtype: str = "float32"
    mask: Mask = "none"
    weights: bool = False
    in_table: bool = False  # one of the rows over which the geometric means are taken

    @property
    def flops(self) -> int:
        """Of both products, a multiply-add being two; of a causal problem half."""
        B, H, _, L, S, E = self.shape
        return 4 * B * H * L * S * E // (2 if self.causal else 1)

    @property
    def is_decode(self) -> bool:
        """One query reads all keys and values: memory, not arithmetic, is the limit."""
        return self.shape[3] == 1

    @property
    def bytes_read(self) -> int:
        """Of keys and values, each once."""
        B, _, G, _, S, E = self.shape
        return 2 * B * G * S * E * numpy_dtype(self.dtype).itemsize

    def describe(self) -> str:
        B, H, G, L, S, E = self.shape
        heads = H if H == G else f"{H}/{G}"
        options = [
            "causal" if self.causal else "",
            self.dtype if self.dtype != "float32" else "",
            f"{self.mask} mask" if self.mask != "none" else "",
            "weights" if self.weights else "",
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

        mask: NDArray[Any] | None = None
        if self.mask == "float":
            mask = normal(L, S)
        elif self.mask == "bool":
            mask = rng.random((L, S)) < 0.5
            mask[:, 0] = True  # no row is left without a key
        elif self.mask == "padding":
            lengths = rng.integers(S // 2, S, size=B, endpoint=True)
            mask = (np.arange(S) < lengths[:, None])[:, None, None, :]
        return Inputs(normal(B, H, L, E), normal(B, G, S, E), normal(B, G, S, E), mask)


def numpy_dtype(name: str) -> np.dtype[Any]:
    if name == "bfloat16":
        import ml_dtypes

        bfloat16: np.dtype[Any] = np.dtype(ml_dtypes.bfloat16)
        return bfloat16
    return np.dtype(name)


GPT2 = Row("gpt2", (1, 12, 12, 1024, 1024, 64), in_table=True)
BERT = Row("bert", (8, 12, 12, 128, 128, 64), in_table=True)

TABLE = (
    Row("tutorial", (1, 1, 1, 6, 6, 2), in_table=True),
    BERT,
    Row("vit", (4, 12, 12, 197, 197, 64), in_table=True),
    replace(GPT2, name="gpt2-causal", causal=True),
    GPT2,
    Row("llama", (1, 32, 8, 2048, 2048, 128), causal=True, in_table=True),
    Row("long", (1, 4, 4, 8192, 8192, 64), causal=True, in_table=True),
    Row("cross", (2, 8, 8, 4096, 77, 40), in_table=True),
    Row("decode-gqa", (1, 32, 8, 1, 4096, 128), in_table=True),
    Row("decode", (1, 12, 12, 1, 1024, 64), in_table=True),
)

GPT2_VARIANT = replace(GPT2, in_table=False)
VARIANTS = (
    replace(GPT2_VARIANT, name="gpt2-float64", dtype="float64"),
    replace(GPT2_VARIANT, name="gpt2-float16", dtype="float16"),
    replace(GPT2_VARIANT, name="gpt2-bfloat16", dtype="bfloat16"),
    replace(GPT2_VARIANT, name="gpt2-float-mask", mask="float"),
    replace(GPT2_VARIANT, name="gpt2-bool-mask", mask="bool"),
    replace(GPT2_VARIANT, name="gpt2-weights", weights=True),
    replace(BERT, name="bert-padding", mask="padding", in_table=False),
)

# Sizes beside those that tiles are made for. A cliff here would be a bug.
NEIGHBOURS = (
    Row("near-1023", (1, 12, 12, 1023, 1023, 64)),
    Row("near-1025", (1, 12, 12, 1025, 1025, 64)),
    Row("near-127", (8, 12, 12, 127, 127, 64)),
    Row("near-129", (8, 12, 12, 129, 129, 64)),
    Row("near-e63", (1, 12, 12, 1024, 1024, 63)),
    Row("near-e65", (1, 12, 12, 1024, 1024, 65)),
    Row("primes", (1, 11, 11, 1021, 1019, 61)),
    Row("primes-causal", (1, 11, 11, 1021, 1021, 67), causal=True),
)

ROWS = TABLE + VARIANTS + NEIGHBOURS


def select(patterns: list[str]) -> list[Row]:
    """The rows whose names match one of the shell patterns; "table" is short for TABLE."""
    names = {row.name for row in TABLE} if "table" in patterns else set()
    for pattern in patterns:
        matching = {row.name for row in ROWS if fnmatch(row.name, pattern)}
        if not matching and pattern != "table":
            known = ", ".join(row.name for row in ROWS)
            raise ValueError(f"rows: expected names or patterns of {known}, got {pattern!r}")
        names |= matching
    return [row for row in ROWS if row.name in names]
