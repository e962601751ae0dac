"""Who is timed. Each gets the same numbers, in the layout and the call that suit it best."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

import attnmod as am
from attnmod import reference
from benchmarks import onnx_graphs, plain
from benchmarks.rows import Inputs, Row

# Workers of a thread pool spin for a while after a call and would slow whoever comes next.
PAUSE_S = 0.05
PAUSE_AFTER_BLAS_S = 0.15
# XLA's threads give the buffers of a call, L x S numbers, back to the system after it: of 1 GB for
# 200 ms.
PAUSE_AFTER_XLA_S = 0.5

# What a result may be off by, in units of the dtype's epsilon. Results are averages of normal
# numbers, so the sum of magnitudes that errors grow with is about 1.
TOLERANCE_EPS = 16
REFERENCE_UP_TO = 2_000_000  # scores; larger problems are compared with attnmod's result


class UnsupportedError(Exception):
    """The contender has no such option, or not in this dtype."""


@dataclass(frozen=True)
class Call:
    """run is what is timed; fetch makes its result (B, H, L, E) arrays: out, and weights if any."""

    run: Callable[[], Any]
    fetch: Callable[[Any], list[NDArray[Any]]]
    note: str = ""


class Contender(Protocol):
    name: str
    pause: float  # seconds before the next one's turn

    def __init__(self, threads: int) -> None: ...

    def prepare(self, row: Row, inputs: Inputs) -> Call: ...


def _options(row: Row, inputs: Inputs) -> dict[str, Any]:
    """Keyword arguments that attnmod and torch have in common; defaults are left out."""
    options: dict[str, Any] = {}
    if inputs.mask is not None:
        options["attn_mask"] = inputs.mask
    if row.causal:
        options["is_causal"] = True
    if row.shape[1] != row.shape[2]:
        options["enable_gqa"] = True
    return options


class Attnmod:
    name = "attnmod"
    pause = PAUSE_S

    def __init__(self, threads: int) -> None:
        am.set_num_threads(threads)

    def prepare(self, row: Row, inputs: Inputs) -> Call:
        options = _options(row, inputs)
        if row.weights:
            options["return_weights"] = True
        attend = partial(am.scaled_dot_product_attention, *inputs[:3], **options)
        return Call(attend, lambda result: list(result) if row.weights else [result])


class NumPy:
    """In float32 where the dtype is a smaller one, since NumPy has no arithmetic for those."""

    name = "numpy"
    pause = PAUSE_AFTER_BLAS_S

    def __init__(self, threads: int) -> None:
        pass  # BLAS reads its number from the environment, before NumPy is imported

    def prepare(self, row: Row, inputs: Inputs) -> Call:
        attend = partial(plain.attention, mask=inputs.mask, causal=row.causal, weights=row.weights)
        qkv = inputs[:3]
        if row.dtype in ("float32", "float64"):
            return Call(partial(attend, *qkv), list)
        dtype = inputs.query.dtype

        def widened() -> list[NDArray[Any]]:
            return [x.astype(dtype) for x in attend(*(x.astype(np.float32) for x in qkv))]

        return Call(widened, list)


class Torch:
    name = "torch"
    pause = PAUSE_S

    def __init__(self, threads: int) -> None:
        import torch

        self.torch = torch
        torch.set_num_threads(threads)
        torch.set_grad_enabled(False)

    def prepare(self, row: Row, inputs: Inputs) -> Call:
        query, key, value = map(self.tensor, inputs[:3])
        options = _options(row, inputs)
        if inputs.mask is not None:
            options["attn_mask"] = self.tensor(inputs.mask)
        if row.weights:
            if options:
                raise UnsupportedError("weights with options")
            return Call(partial(self.with_weights, query, key, value), self.arrays, "unfused")
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

    def arrays(self, tensors: list[Any]) -> list[NDArray[Any]]:
        return [tensor.double().numpy() for tensor in tensors]


class OnnxRuntime:
    name = "onnxruntime"
    pause = PAUSE_S

    def __init__(self, threads: int) -> None:
        self.graphs = onnx_graphs.Runner(threads)

    def prepare(self, row: Row, inputs: Inputs) -> Call:
        best = self.graphs.fastest(row, inputs)
        if best is None:
            raise UnsupportedError(f"no graph runs {row.describe()}")
        return Call(best.run, best.fetch, best.name)


class Jax:
    name = "jax"
    pause = PAUSE_AFTER_XLA_S

    def __init__(self, threads: int) -> None:
        import jax  # its number of threads is that of the processors the process may use

        jax.config.update("jax_platforms", "cpu")
        self.jax = jax

    def prepare(self, row: Row, inputs: Inputs) -> Call:
        # XLA has no float16 product on CPUs, and the softmax is in float32 even for float64.
        if row.weights or row.dtype in ("float16", "float64"):
            raise UnsupportedError("weights, float16, float64")
        options: dict[str, Any] = {}
        if inputs.mask is not None:
            kind = "mask" if inputs.mask.dtype == np.bool_ else "bias"
            shape = (1,) * (4 - inputs.mask.ndim) + inputs.mask.shape
            options[kind] = self.jax.numpy.asarray(inputs.mask.reshape(shape))
        qkv = [self.jax.numpy.asarray(x.swapaxes(1, 2)) for x in inputs[:3]]
        attend = self.jax.jit(partial(self.jax.nn.dot_product_attention, is_causal=row.causal))
        return Call(
            lambda: attend(*qkv, **options).block_until_ready(),
            lambda out: [np.asarray(out).swapaxes(1, 2)],
        )


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
            print(f"{name}: skipped, {error}")
    return loaded


def expected(row: Row, inputs: Inputs) -> list[NDArray[Any]]:
    """What every contender must find."""
    B, H, _, L, S, _ = row.shape
    small = B * H * L * S <= REFERENCE_UP_TO
    attend = reference if small else am
    result = attend.scaled_dot_product_attention(
        *inputs[:3], **_options(row, inputs), return_weights=row.weights
    )
    return list(result) if row.weights else [result]


def error_of(got: list[NDArray[Any]], want: list[NDArray[Any]], dtype: str) -> str | None:
    """Says how far a result is off, None if no further than it may be."""
    eps = {"float64": 2.0**-52, "float32": 2.0**-23, "float16": 2.0**-10, "bfloat16": 2.0**-7}
    for found, wanted in zip(got, want, strict=True):
        wanted = wanted.astype(np.float64)
        worst = float(np.abs(found.astype(np.float64) - wanted).max())
        allowed = TOLERANCE_EPS * eps[dtype] * max(1.0, float(np.abs(wanted).max()))
        if not worst <= allowed:
            return f"off by {worst:.2g}, at most {allowed:.2g} expected"
    return None
