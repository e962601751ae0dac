"""Who is timed. Each gets the same numbers, in the layout and the call that suit it best, and the
options that it has itself.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

import attnmod as am
from attnmod import reference
from benchmarks import onnx_graphs, plain
from benchmarks.rows import Inputs, Row

# Seconds before the next contender's turn: workers of a thread pool spin for a while after a call
# and would slow whoever comes next.
PAUSE_S = 0.05
PAUSE_AFTER_BLAS_S = 0.15
# XLA's threads give the buffers of a call, L x S numbers, back to the system after it: of 1 GB for
# 200 ms.
PAUSE_AFTER_XLA_S = 0.5
MANY_SCORES = 10_000_000

# What a result may be off by, in units of the dtype's epsilon. Results are averages of normal
# numbers, so the sum of magnitudes that errors grow with is about 1.
TOLERANCE_EPS = 16
REFERENCE_UP_TO = 2_000_000  # scores; larger problems are compared with attnmod's result


class UnsupportedError(Exception):
    """The contender has no such option, or not in this dtype."""


@dataclass(frozen=True)
class Call:
    """run is what is timed; fetch makes its result (B, H, L, E) arrays: out, weights, lse."""

    run: Callable[[], Any]
    fetch: Callable[[Any], list[NDArray[Any]]]
    note: str = ""
    pause: float = PAUSE_S


class Contender(Protocol):
    name: str

    def __init__(self, threads: int) -> None: ...

    def prepare(self, row: Row, inputs: Inputs) -> Call: ...


def _require(inputs: Inputs, *known: str) -> None:
    unknown = set(inputs.options).difference(known)
    if unknown:
        raise UnsupportedError(", ".join(sorted(unknown)))


class Attnmod:
    name = "attnmod"

    def __init__(self, threads: int) -> None:
        am.set_num_threads(threads)

    def prepare(self, row: Row, inputs: Inputs) -> Call:
        attend = partial(am.scaled_dot_product_attention, *inputs[:3], **inputs.options)
        return Call(attend, list if row.weights or row.lse else lambda out: [out])


class NumPy:
    """In float32 where the dtype is a smaller one, since NumPy has no arithmetic for those."""

    name = "numpy"

    def __init__(self, threads: int) -> None:
        pass  # BLAS reads its number from the environment, before NumPy is imported

    def prepare(self, row: Row, inputs: Inputs) -> Call:
        _require(inputs, "attn_mask", "is_causal", "enable_gqa", "return_weights")
        attend = partial(plain.attention, mask=inputs.mask, causal=row.causal, weights=row.weights)
        qkv = inputs[:3]
        if row.dtype in ("float32", "float64"):
            return Call(partial(attend, *qkv), list, pause=PAUSE_AFTER_BLAS_S)
        dtype = inputs.query.dtype

        def widened() -> list[NDArray[Any]]:
            return [x.astype(dtype) for x in attend(*(x.astype(np.float32) for x in qkv))]

        return Call(widened, list, pause=PAUSE_AFTER_BLAS_S)


class Torch:
    name = "torch"

    def __init__(self, threads: int) -> None:
        import torch

        self.torch = torch
        torch.set_num_threads(threads)
        torch.set_grad_enabled(False)

    def prepare(self, row: Row, inputs: Inputs) -> Call:
        query, key, value = map(self.tensor, inputs[:3])
        if row.weights:
            _require(inputs, "return_weights")
            return Call(partial(self.with_weights, query, key, value), self.arrays, "unfused")
        if row.lse:
            _require(inputs, "return_lse")
            fused = self.torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
            return Call(partial(fused, query, key, value), self.arrays, "aten's fused operator")
        _require(inputs, "attn_mask", "dropout_p", "rng", "is_causal", "enable_gqa")
        options = {name: x for name, x in inputs.options.items() if name != "rng"}
        if inputs.mask is not None:
            options["attn_mask"] = self.tensor(inputs.mask)
        attend = self.torch.nn.functional.scaled_dot_product_attention
        return Call(partial(attend, query, key, value, **options), lambda out: self.arrays([out]))

    def with_weights(self, query: Any, key: Any, value: Any) -> list[Any]:
        """The fused call does not give them."""
        weights = ((query * query.shape[-1] ** -0.5) @ key.mT).softmax(-1)
        return [weights @ value, weights]

    def tensor(self, array: NDArray[Any]) -> Any:
        if array.dtype.name == "bfloat16":
            return self.torch.from_numpy(array.view(np.uint16)).view(self.torch.bfloat16)
        return self.torch.from_numpy(array)

    def arrays(self, tensors: Sequence[Any]) -> list[NDArray[Any]]:
        return [tensor.double().numpy() for tensor in tensors]


class OnnxRuntime:
    name = "onnxruntime"

    def __init__(self, threads: int) -> None:
        self.graphs = onnx_graphs.Runner(threads)

    def prepare(self, row: Row, inputs: Inputs) -> Call:
        best = self.graphs.fastest(row, inputs)
        if best is None:
            raise UnsupportedError(f"no graph runs {row.describe()}")
        return Call(best.run, best.fetch, best.name)


class Jax:
    name = "jax"

    def __init__(self, threads: int) -> None:
        import jax  # its number of threads is that of the processors the process may use

        jax.config.update("jax_platforms", "cpu")
        self.jax = jax

    def prepare(self, row: Row, inputs: Inputs) -> Call:
        # XLA has no float16 product on CPUs, and the softmax is in float32 even for float64.
        if row.dtype in ("float16", "float64"):
            raise UnsupportedError(row.dtype)
        _require(inputs, "attn_mask", "is_causal", "enable_gqa", "window", "kv_lens", "return_lse")
        arrays: dict[str, Any] = {}
        if inputs.mask is not None:
            kind = "mask" if inputs.mask.dtype == np.bool_ else "bias"
            shape = (1,) * (4 - inputs.mask.ndim) + inputs.mask.shape
            arrays[kind] = self.jax.numpy.asarray(inputs.mask.reshape(shape))
        if row.kv_lens:
            arrays["key_value_seq_lengths"] = self.jax.numpy.asarray(row.lengths, np.int32)
        qkv = [self.jax.numpy.asarray(x.swapaxes(1, 2)) for x in inputs[:3]]
        attend = self.jax.jit(
            partial(
                self.jax.nn.dot_product_attention,
                is_causal=row.causal,
                local_window_size=row.window,
                return_residual=row.lse,
            )
        )

        def fetch(result: Any) -> list[NDArray[Any]]:
            parts = result if row.lse else [result]
            return [np.asarray(part).swapaxes(1, 2) for part in parts]

        self.jax.block_until_ready(attend(*qkv, **arrays))  # compiles
        B, H, _, L, S, _ = row.shape
        pause = PAUSE_AFTER_XLA_S if B * H * L * S > MANY_SCORES else PAUSE_S
        return Call(lambda: self.jax.block_until_ready(attend(*qkv, **arrays)), fetch, pause=pause)


CONTENDERS: dict[str, type[Contender]] = {
    kind.name: kind for kind in (Attnmod, NumPy, Torch, OnnxRuntime, Jax)
}


def load(names: list[str], threads: int) -> list[Contender]:
    """The contenders that are installed; attnmod first, whether named or not."""
    loaded: list[Contender] = []
    for name in dict.fromkeys(["attnmod", *names]):
        if name not in CONTENDERS:
            raise ValueError(f"contenders: expected some of {', '.join(CONTENDERS)}, got {name!r}")
        try:
            loaded.append(CONTENDERS[name](threads))
        except ImportError as error:
            print(f"{name}: skipped, {error}", file=sys.stderr)
    return loaded


def expected(row: Row, inputs: Inputs) -> list[NDArray[Any]]:
    """What every contender must find."""
    B, H, _, L, S, _ = row.shape
    small = B * H * L * S <= REFERENCE_UP_TO
    attend = reference if small else am
    result = attend.scaled_dot_product_attention(*inputs[:3], **inputs.options)
    return list(result) if row.weights or row.lse else [result]


def error_of(got: list[NDArray[Any]], want: list[NDArray[Any]], row: Row) -> str | None:
    """Says how far a result is off, None if no further than it may be."""
    eps = {"float64": 2.0**-52, "float32": 2.0**-23, "float16": 2.0**-10, "bfloat16": 2.0**-7}
    for found, wanted in zip(got, want, strict=True):
        wanted = wanted.astype(np.float64)
        worst = float(np.abs(found.astype(np.float64) - wanted).max())
        allowed = TOLERANCE_EPS * eps[row.dtype] * max(1.0, float(np.abs(wanted).max()))
        if not worst <= allowed:
            return f"off by {worst:.2g}, at most {allowed:.2g} expected"
    return None
