"""Attention between NumPy's matmuls, as a model calls it: python -m benchmarks.between_matmuls.

The threads of NumPy's BLAS spin for a while after a matmul and hold the processors that attention
wants. So what counts here is the course of things, matmul, attention, matmul, attention, and not
the least time of a call: the median, and the time that a tenth of the samples exceed.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import attnmod as am
from benchmarks.contenders import PAUSE_AFTER_BLAS_S, Contender, load
from benchmarks.report import columns, milliseconds
from benchmarks.suite import GPT2_CAUSAL

TOKENS, WIDTH = 1024, 768
TURNS, ITERATIONS = 12, 20
PARTS = ("pair", "attention", "alone")  # matmul and attention; attention of it; without a matmul

Spread = dict[str, float]  # nanoseconds: median, slowest tenth


def share_threads(enable: bool) -> bool:
    """Whether attnmod could be told to use NumPy's threads, or no longer to."""
    share = getattr(am, "share_threads_with_numpy", None)
    return share is not None and bool(share(enable))


def measure(turns: int = TURNS) -> dict[str, dict[str, Spread]]:
    """By contender and part; the contenders take turns."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((TOKENS, WIDTH), dtype=np.float32)
    w = rng.standard_normal((WIDTH, WIDTH), dtype=np.float32)
    contenders = _contenders()
    samples = {name: {part: list[float]() for part in PARTS} for name in contenders}
    for _ in range(turns):
        for name, (attend, sharing) in contenders.items():
            if sharing:
                share_threads(True)
            for part, times in _turn(attend, x, w).items():
                samples[name][part] += times
            if sharing:
                share_threads(False)
    return {
        name: {part: spread(times) for part, times in parts.items()}
        for name, parts in samples.items()
    }


def _contenders() -> dict[str, tuple[Callable[[], Any], bool]]:
    """The calls, and whether they share NumPy's threads."""
    inputs = GPT2_CAUSAL.inputs()

    def attend(contender: Contender) -> Callable[[], Any]:
        return contender.prepare(GPT2_CAUSAL, inputs).run

    loaded = {contender.name: contender for contender in load(["torch"], am.get_num_threads())}
    found = {name: (attend(contender), False) for name, contender in loaded.items()}
    if share_threads(True):
        share_threads(False)
        found["attnmod sharing"] = attend(loaded["attnmod"]), True
    else:
        print("attnmod sharing NumPy's threads: skipped, not to be had here")
    return found


def _turn(
    attend: Callable[[], Any], x: NDArray[np.float32], w: NDArray[np.float32]
) -> dict[str, list[float]]:
    samples: dict[str, list[float]] = {part: [] for part in PARTS}
    time.sleep(PAUSE_AFTER_BLAS_S)
    for _ in range(ITERATIONS):
        start = time.perf_counter_ns()
        attend()
        samples["alone"].append(time.perf_counter_ns() - start)
    for _ in range(ITERATIONS):
        start = time.perf_counter_ns()
        x @ w
        middle = time.perf_counter_ns()
        attend()
        end = time.perf_counter_ns()
        samples["pair"].append(end - start)
        samples["attention"].append(end - middle)
    return samples


def spread(times: list[float]) -> Spread:
    return {"median": statistics.median(times), "slowest": statistics.quantiles(times, n=10)[-1]}


def table(found: dict[str, dict[str, Spread]]) -> list[list[str]]:
    head = ["median (slowest tenth), ms", "matmul and attention", "attention in it", "alone"]
    cell = "{} ({})".format
    return [head] + [
        [name, *(cell(*map(milliseconds, parts[part].values())) for part in PARTS)]
        for name, parts in found.items()
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path, metavar="FILE")
    chosen = parser.parse_args()
    found = measure()
    print(columns(table(found), left=1))
    if chosen.json:
        chosen.json.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
