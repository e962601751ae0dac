"""A quick comparison with what is installed: ``python -m attnmod bench``.

The full one, with every row, interleaved rounds and a file of results, is ``python -m benchmarks``
in a checkout.
"""

from __future__ import annotations

import importlib
import math
import time
import timeit
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

import attnmod as am

Array = NDArray[Any]
Call = Callable[[], Any]

ROUNDS = 3
BURST_SECONDS = 0.05
# NumPy's BLAS and other libraries let their threads spin for a while after a call: whoever comes
# next would compete with them.
PAUSE_SECONDS = 0.15


class Case(NamedTuple):
    """One attention problem in float32."""

    name: str
    batch: int
    heads: int
    queries: int
    keys: int
    features: int
    is_causal: bool = False

    def arrays(self) -> tuple[Array, Array, Array]:
        rng = np.random.default_rng(0)
        query, key, value = (
            rng.standard_normal((self.batch, self.heads, rows, self.features), dtype=np.float32)
            for rows in (self.queries, self.keys, self.keys)
        )
        return query, key, value


CASES = (
    Case("tutorial", 1, 1, 6, 6, 2),
    Case("BERT", 8, 12, 128, 128, 64),
    Case("GPT-2", 1, 12, 1024, 1024, 64, is_causal=True),
    Case("cross", 2, 8, 1024, 77, 40),
    Case("decode", 1, 12, 1, 1024, 64),
)


def numpy_attention(query: Array, key: Array, value: Array, *, is_causal: bool = False) -> Array:
    """Attention as one writes it in NumPy with some care: one L x S matrix, worked on in place."""
    scores = (query * query.dtype.type(query.shape[-1] ** -0.5)) @ key.swapaxes(-1, -2)
    if is_causal:
        np.copyto(scores, -np.inf, where=~np.tri(*scores.shape[-2:], dtype=np.bool_))
    scores -= scores.max(axis=-1, keepdims=True)
    weights = np.exp(scores, out=scores)
    return np.asarray(weights @ value / weights.sum(axis=-1, keepdims=True))


def _attnmod(case: Case) -> Call:
    query, key, value = case.arrays()
    return lambda: am.scaled_dot_product_attention(query, key, value, is_causal=case.is_causal)


def _numpy(case: Case) -> Call:
    query, key, value = case.arrays()
    return lambda: numpy_attention(query, key, value, is_causal=case.is_causal)


def _torch(case: Case) -> Call:
    torch = importlib.import_module("torch")
    torch.set_num_threads(am.get_num_threads())
    query, key, value = map(torch.from_numpy, case.arrays())
    attention = torch.nn.functional.scaled_dot_product_attention
    return lambda: attention(query, key, value, is_causal=case.is_causal)


def _onnxruntime(case: Case) -> Call:
    """The Attention operator of ONNX, opset 23; onnx writes the model that onnxruntime runs."""
    onnx = importlib.import_module("onnx")
    onnxruntime = importlib.import_module("onnxruntime")
    arrays = dict(zip("qkv", case.arrays(), strict=True))
    node = onnx.helper.make_node("Attention", [*arrays], ["y"], is_causal=int(case.is_causal))
    real = onnx.TensorProto.FLOAT
    inputs = [onnx.helper.make_tensor_value_info(name, real, x.shape) for name, x in arrays.items()]
    output = onnx.helper.make_tensor_value_info("y", real, arrays["q"].shape)
    model = onnx.helper.make_model(
        onnx.helper.make_graph([node], "attention", inputs, [output]),
        opset_imports=[onnx.helper.make_opsetid("", 23)],
        ir_version=10,
    )
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = am.get_num_threads()
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    return lambda: session.run(None, arrays)[0]


CONTENDERS: dict[str, Callable[[Case], Call]] = {
    "attnmod": _attnmod,
    "NumPy": _numpy,
    "torch": _torch,
    "onnxruntime": _onnxruntime,
}


def best_ms(call: Call, seconds: float = BURST_SECONDS) -> float:
    """The least time that a call took, in ms, of as many as fit into some seconds, at least two."""
    timer = timeit.Timer(call)
    number = max(1, int(1e-3 / timer.timeit(1)))  # so that reading the clock does not count
    end = time.perf_counter() + seconds
    best = timer.timeit(number)
    while time.perf_counter() < end:
        best = min(best, timer.timeit(number))
    return best / number * 1e3


def measure(case: Case, names: list[str]) -> dict[str, float]:
    """The least ms of each contender for a case, in rounds, so that all see the same weather."""
    calls = {name: CONTENDERS[name](case) for name in names}
    best = dict.fromkeys(names, math.inf)
    for _ in range(ROUNDS):
        for name, call in calls.items():
            best[name] = min(best[name], best_ms(call))
            if name != "attnmod":
                time.sleep(PAUSE_SECONDS)
    return best


def installed() -> list[str]:
    """The contenders that can be imported."""
    names = []
    for name, contender in CONTENDERS.items():
        try:
            contender(CASES[0])
        except ImportError:
            continue
        names.append(name)
    return names


def run() -> int:
    """Prints the table; the exit status."""
    names = installed()
    print(f"ms a call, the least of {ROUNDS} rounds; in brackets, over attnmod's time")
    print(f"float32, {am.get_num_threads()} threads; not installed: ", end="")
    print(", ".join(name for name in CONTENDERS if name not in names) or "none")
    print()
    print(f"{'(B, H, L, S, E)':41}" + "".join(f"{name:>18}" for name in names))
    for case in CASES:
        sizes = f"({', '.join(map(str, case[1:6]))}){' causal' if case.is_causal else ''}"
        print(f"{case.name:9}{sizes:32}", end="", flush=True)
        times = measure(case, names)
        for name, ms in times.items():
            ratio = "" if name == "attnmod" else f"({ms / times['attnmod']:.1f})"
            print(f"{ms:>10.4g}{ratio:>8}", end="")
        print(flush=True)
    return 0
