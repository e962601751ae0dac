"""Figures that are no race between contenders: import, wheel, threads, memory.

python -m benchmarks.figures
"""

from __future__ import annotations

import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import attnmod as am
from benchmarks.contenders import Call
from benchmarks.report import columns, milliseconds
from benchmarks.run import race
from benchmarks.suite import select

ROOT = Path(__file__).parents[1]
IMPORTS = 15

IMPORT_TIME = """
import time, numpy
start = time.perf_counter_ns()
import attnmod
print(time.perf_counter_ns() - start)
"""

# VmHWM is the process's peak; writing 5 to clear_refs sets it to what is resident now. The output
# is made before; what grows is scratch, the workers' stacks and the code's own pages.
MEMORY_GROWTH = """
import sys, numpy, attnmod
queries, keys = map(int, sys.argv[1:])
ones = lambda n: numpy.ones((1, 1, n, 64), numpy.float32)
q, k, v, out = ones(queries), ones(keys), ones(keys), ones(queries)
def peak():
    return int(open("/proc/self/status").read().partition("VmHWM:")[2].split()[0])
open("/proc/self/clear_refs", "w").write("5")
before = peak()
attnmod.scaled_dot_product_attention(q, k, v, out=out)
print(peak() - before)
"""


def import_time() -> float:
    """Nanoseconds that importing attnmod takes once NumPy is there: the least of a few."""
    return min(_number(IMPORT_TIME) for _ in range(IMPORTS))


def wheel_bytes() -> int | None:
    """Of the newest wheel in dist/."""
    wheels = sorted((ROOT / "dist").glob("*.whl"), key=lambda path: path.stat().st_mtime)
    return wheels[-1].stat().st_size if wheels else None


def memory_growth(queries: int, keys: int) -> float | None:
    """Bytes by which a call with 64 features raises the process's peak; Linux only."""
    if not sys.platform.startswith("linux"):
        return None
    return 1024 * _number(MEMORY_GROWTH, str(queries), str(keys))


def speedups(threads: int, seconds: float) -> dict[str, float]:
    """One thread's time divided by all threads', for the rows of 512 queries or more."""
    found = {}
    for row in select(["table"]):
        if row.shape[3] < 512 or threads < 2:
            continue
        inputs = row.inputs()
        attend = partial(
            am.scaled_dot_product_attention,
            *inputs[:3],
            **inputs.options,
        )
        calls = {
            "one": Call(partial(attend, num_threads=1), list, pause=0.0),
            "all": Call(partial(attend, num_threads=threads), list, pause=0.0),
        }
        times = race(calls, seconds, rounds=3)
        found[row.name] = min(times["one"]) / min(times["all"])
    return found


def _number(script: str, *arguments: str) -> float:
    command = [sys.executable, "-c", script, *arguments]
    done = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
    return float(done.stdout)


def measure(threads: int, seconds: float) -> dict[str, Any]:
    return {
        "import_ns": import_time(),
        "wheel_bytes": wheel_bytes(),
        "memory_bytes": {
            "L=1 S=100000": memory_growth(1, 100_000),
            "L=S=32768": memory_growth(32_768, 32_768),
        },
        "threads": threads,
        "speedup": speedups(threads, seconds),
    }


def text(figures: dict[str, Any]) -> str:
    wheel = figures["wheel_bytes"]
    lines = [
        ["import beyond NumPy", f"{milliseconds(figures['import_ns'])} ms"],
        ["wheel", f"{wheel / 1e6:.3f} MB" if wheel else "not built: no dist/*.whl"],
    ]
    for shape, grown in figures["memory_bytes"].items():
        value = "not measured" if grown is None else f"{grown / 1e6:.2f} MB in all"
        lines.append([f"scratch memory, {shape}", value])
    for row, speedup in figures["speedup"].items():
        lines.append([f"{figures['threads']} threads against one, {row}", f"{speedup:.2f}"])
    return columns(lines, left=2)


if __name__ == "__main__":
    print(text(measure(am.get_num_threads(), seconds=5.0)))
