"""Error of attnmod and of PyTorch on the same inputs, against a wider type.

    python -m benchmarks.accuracy

The oracle is float64, for float64 inputs NumPy's longdouble (80 bits on x86-64; where longdouble is
no wider than float64 those rows say nothing).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks import plain
from benchmarks.contenders import Contender, load
from benchmarks.report import columns
from benchmarks.rows import Inputs, Row

DTYPES = ("float64", "float32", "float16", "bfloat16")
SHAPES = (
    Row("tutorial", (1, 1, 1, 6, 6, 2)),
    Row("bert", (1, 4, 4, 128, 128, 64)),
    Row("gpt2", (1, 2, 2, 512, 512, 64)),
    Row("causal", (1, 2, 2, 512, 512, 64), causal=True),
    Row("mask", (1, 2, 2, 256, 256, 64), mask="float"),
    Row("odd", (2, 3, 3, 197, 211, 40)),
    Row("decode", (1, 8, 2, 1, 4096, 128)),
)
SEEDS = range(3)


def oracle(row: Row, inputs: Inputs) -> NDArray[Any]:
    wide = np.longdouble if row.dtype == "float64" else np.float64
    query, key, value = (x.astype(wide) for x in inputs[:3])
    mask = None if inputs.mask is None else inputs.mask.astype(wide)
    return plain.attention(query, key, value, mask, causal=row.causal)[0]


def errors(row: Row, contenders: list[Contender]) -> dict[str, tuple[float, float]]:
    """(largest, mean) absolute error by contender, over a few seeds."""
    found: dict[str, list[NDArray[Any]]] = {contender.name: [] for contender in contenders}
    for seed in SEEDS:
        inputs = row.inputs(seed)
        want = oracle(row, inputs)
        for contender in contenders:
            call = contender.prepare(row, inputs)
            got = call.fetch(call.run())[0].astype(want.dtype)
            found[contender.name].append(np.abs(got - want))
    return {name: (float(np.max(parts)), float(np.mean(parts))) for name, parts in found.items()}


def main() -> None:
    contenders = load(["attnmod", "torch"], threads=1)
    names = [contender.name for contender in contenders]
    head = [f"{name} {kind}" for name in names for kind in ("max", "mean")]
    lines = [["dtype", "shape", *head, "max ratio", "mean ratio"]]
    for dtype in DTYPES:
        for shape in SHAPES:
            row = replace(shape, dtype=dtype)
            found = errors(row, contenders)
            cells = [f"{error:.2e}" for name in names for error in found[name]]
            ratios = ["–", "–"]
            if "torch" in found:
                pairs = zip(found["attnmod"], found["torch"], strict=True)
                ratios = [f"{ours / theirs:.2f}" if theirs else "–" for ours, theirs in pairs]
            lines.append([dtype, f"{shape.name} {shape.describe()}", *cells, *ratios])
    print(columns(lines, left=2))
    print("\nratio: attnmod's error / torch's; 1 or less is as exact as torch")


if __name__ == "__main__":
    main()
