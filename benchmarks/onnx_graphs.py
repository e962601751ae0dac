"""Attention as ONNX graphs. Which operator ONNX Runtime runs fastest depends on the problem, so all
that fit are tried and the fastest is timed.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.rows import Inputs, Row

TRIES, TRY_SECONDS = 3, 0.3  # at least
IR_VERSION = 11  # the first that has opset 23


@dataclass
class Graph:
    """Nodes as (operator, inputs, outputs, attributes); the names of feeds are inputs too."""

    name: str
    feeds: dict[str, NDArray[Any]]
    nodes: list[tuple[str, list[str], list[str], dict[str, Any]]]
    outputs: list[str] = field(default_factory=lambda: ["out"])
    constants: dict[str, NDArray[Any]] = field(default_factory=dict)
    domain: str = ""
    opset: int = 23


@dataclass
class Session:
    name: str
    run: Callable[[], Any]
    fetch: Callable[[Any], list[NDArray[Any]]]


class Runner:
    def __init__(self, threads: int) -> None:
        import onnx
        import onnxruntime

        self.onnx, self.runtime, self.threads = onnx, onnxruntime, threads
        self.keeps_memory = True  # from one call for the next, as is the default

    def fastest(self, row: Row, inputs: Inputs) -> Session | None:
        """The session that takes the least time, or None."""
        sessions: list[Session] = []
        for make in (attention, multi_head, grouped_query, products):
            graph = make(row, inputs)
            if graph is None:
                continue
            try:
                session = self.open(graph, row)
                session.run()
            except Exception:  # no kernel for the dtype: the runtime has a class for each reason
                continue
            sessions.append(session)
        return _fastest(sessions) if len(sessions) > 1 else next(iter(sessions), None)

    def open(self, graph: Graph, row: Row) -> Session:
        helper = self.onnx.helper

        def info(name: str, array: NDArray[Any]) -> Any:
            kind = helper.np_dtype_to_tensor_dtype(array.dtype)
            return helper.make_tensor_value_info(name, kind, array.shape)

        real = helper.np_dtype_to_tensor_dtype(graph.feeds["query"].dtype)
        body = helper.make_graph(
            [
                helper.make_node(kind, ins, outs, domain=graph.domain, **attributes)
                for kind, ins, outs, attributes in graph.nodes
            ],
            graph.name,
            [info(name, array) for name, array in graph.feeds.items()],
            [helper.make_tensor_value_info(name, real, None) for name in graph.outputs],
            [self.onnx.numpy_helper.from_array(x, name) for name, x in graph.constants.items()],
        )
        opsets = [helper.make_opsetid("", graph.opset), helper.make_opsetid("com.microsoft", 1)]
        model = helper.make_model(body, opset_imports=opsets, ir_version=IR_VERSION)
        options = self.runtime.SessionOptions()
        options.intra_op_num_threads = self.threads
        options.log_severity_level = 4
        options.enable_cpu_mem_arena = self.keeps_memory
        session = self.runtime.InferenceSession(
            model.SerializeToString(), options, providers=["CPUExecutionProvider"]
        )
        B, H, _, L, S, E = row.shape

        def fetch(results: list[NDArray[Any]]) -> list[NDArray[Any]]:
            if results[0].ndim == 3:  # (B, L, H * E)
                return [results[0].reshape(B, L, H, E).swapaxes(1, 2)]
            out, *weights = results
            return [out.reshape(B, H, L, E), *(x.reshape(B, H, L, S) for x in weights)]

        return Session(graph.name, lambda: session.run(None, graph.feeds), fetch)


def _fastest(sessions: list[Session]) -> Session:
    """By the least time of a few tries, in turns."""
    least = [math.inf] * len(sessions)
    end = time.perf_counter() + TRY_SECONDS
    tries = 0
    while tries < TRIES or time.perf_counter() < end:
        tries += 1
        for i, session in enumerate(sessions):
            start = time.perf_counter()
            session.run()
            least[i] = min(least[i], time.perf_counter() - start)
    return sessions[least.index(min(least))]


def _merge_heads(x: NDArray[Any]) -> NDArray[Any]:
    """(B, H, L, E) as (B, L, H * E), the layout of projections."""
    B, H, L, E = x.shape
    return np.ascontiguousarray(x.swapaxes(1, 2)).reshape(B, L, H * E)


def _has_only(inputs: Inputs, *known: str) -> bool:
    return set(inputs.options) <= {*known, "is_causal"}


def attention(row: Row, inputs: Inputs) -> Graph | None:
    """The standard's own operator."""
    if not _has_only(inputs, "attn_mask", "enable_gqa", "softcap", "kv_lens", "return_weights"):
        return None
    feeds = dict(zip(("query", "key", "value"), inputs[:3], strict=True))
    names = list(feeds)
    if inputs.mask is not None:
        feeds["mask"] = inputs.mask
        names += ["mask"]
    if row.kv_lens:
        feeds["lengths"] = row.lengths
        names += ["", "", "", "lengths"]
    options: dict[str, Any] = {"is_causal": int(row.causal), "softcap": row.softcap}
    outputs = ["out"]
    if row.weights:
        options["qk_matmul_output_mode"] = 3
        outputs += ["", "", "weights"]
    node = ("Attention", names, outputs, options)
    opset = 24 if row.kv_lens else 23
    outputs = [name for name in outputs if name]
    return Graph(f"Attention-{opset}", feeds, [node], outputs, opset=opset)


def multi_head(row: Row, inputs: Inputs) -> Graph | None:
    """ONNX Runtime's own operator; without a mask it is a blocked, fused one."""
    if row.mask == "bool" or not _has_only(inputs, "attn_mask", "kv_lens"):
        return None
    feeds = {"query": _merge_heads(inputs.query), "key": inputs.key, "value": inputs.value}
    names = [*feeds, "", "", ""]
    if row.kv_lens:
        feeds["padding"] = row.lengths.astype(np.int32)
        names[4] = "padding"
    elif inputs.mask is not None and row.mask == "padding":
        feeds["padding"] = inputs.mask[:, 0, 0].astype(np.int32)
        names[4] = "padding"
    elif inputs.mask is not None:
        feeds["bias"] = inputs.mask.reshape((1,) * (4 - inputs.mask.ndim) + inputs.mask.shape)
        names[5] = "bias"
    options = {"num_heads": row.shape[1], "unidirectional": int(row.causal)}
    node = ("MultiHeadAttention", names, ["out"], options)
    return Graph(node[0], feeds, [node], domain="com.microsoft")


def grouped_query(row: Row, inputs: Inputs) -> Graph | None:
    """ONNX Runtime's operator of language models: always causal, here without a cache."""
    B, H, G, L, S, _ = row.shape
    fits = row.causal and L == S and _has_only(inputs, "enable_gqa", "softcap", "sinks", "window")
    if not fits or (row.window and row.window[1]):
        return None
    feeds = {name: _merge_heads(getattr(inputs, name)) for name in ("query", "key", "value")}
    lengths = {"last": np.full(B, S - 1, np.int32), "total": np.full(1, S, np.int32)}
    names = [*feeds, "", "", *lengths]
    if row.sinks:
        feeds["sinks"] = inputs.options["sinks"]
        names += ["", "", "", "", "sinks"]
    options = {"num_heads": H, "kv_num_heads": G, "softcap": row.softcap}
    if row.window:
        options["local_window_size"] = row.window[0] + 1  # the query's own position counts
    node = ("GroupQueryAttention", names, ["out", "new_key", "new_value"], options)
    return Graph(node[0], feeds, [node], constants=lengths, domain="com.microsoft")


def products(row: Row, inputs: Inputs) -> Graph | None:
    """MatMul, Softmax, MatMul; the heads that share a key head are more rows of one product."""
    B, H, G, L, S, E = row.shape
    if not _has_only(inputs, "attn_mask", "enable_gqa", "return_weights"):
        return None
    if H != G and inputs.mask is not None:
        return None
    dtype = inputs.query.dtype
    feeds = {"query": inputs.query.reshape(B, G, -1, E), "key": inputs.key, "value": inputs.value}
    constants = {"scale": np.array(E**-0.5, dtype)}
    nodes: list[tuple[str, list[str], list[str], dict[str, Any]]] = [
        ("Mul", ["query", "scale"], ["scaled"], {}),
        ("Transpose", ["key"], ["columns"], {"perm": [0, 1, 3, 2]}),
        ("MatMul", ["scaled", "columns"], ["scores"], {}),
    ]
    scores = "scores"
    if inputs.mask is not None:
        feeds["mask"] = inputs.mask
        if inputs.mask.dtype == np.bool_:
            constants["masked"] = np.array(-np.inf, dtype)
            nodes.append(("Where", ["mask", scores, "masked"], ["seen"], {}))
        else:
            nodes.append(("Add", [scores, "mask"], ["seen"], {}))
        scores = "seen"
    if row.causal:
        future = np.where(np.tri(L, S, dtype=np.bool_), 0, -np.inf).astype(dtype)
        constants["future"] = np.tile(future, (H // G, 1))
        nodes.append(("Add", [scores, "future"], ["past"], {}))
        scores = "past"
    nodes.append(("Softmax", [scores], ["weights"], {"axis": -1}))
    nodes.append(("MatMul", ["weights", "value"], ["out"], {}))
    outputs = ["out", "weights"] if row.weights else ["out"]
    return Graph("MatMul+Softmax", feeds, nodes, outputs, constants)
