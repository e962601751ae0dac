"""Figures that are no race between contenders: import, wheel, scratch memory, threads.

python -m benchmarks.figures
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import attnmod as am
from benchmarks.contenders import Call
from benchmarks.memory import growth, megabytes
from benchmarks.report import columns, milliseconds
from benchmarks.run import race
from benchmarks.suite import select

ROOT = Path(__file__).parents[1]
IMPORTS = 15
SECONDS = 3.0  # for each speed-up

IMPORT_TIME = """
import time, numpy
start = time.perf_counter_ns()
import attnmod
print(time.perf_counter_ns() - start)
"""


def import_time() -> float:
    """Nanoseconds that importing attnmod takes once NumPy is there: the least of a few."""
    command = [sys.executable, "-c", IMPORT_TIME]

    def once() -> float:
        done = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
        return float(done.stdout)

    return min(once() for _ in range(IMPORTS))


def wheel_bytes() -> int | None:
    """Of the newest wheel in dist/."""
    wheels = sorted((ROOT / "dist").glob("*.whl"), key=lambda path: path.stat().st_mtime)
    return wheels[-1].stat().st_size if wheels else None


def speedups(threads: int) -> dict[str, float]:
    """One thread's time divided by all threads', for the table's rows of 512 queries or more."""
    found = {}
    for row in select(["table"]):
        if row.shape[3] < 512 or threads < 2:
            continue
        inputs = row.inputs()
        attend = partial(am.scaled_dot_product_attention, *inputs[:3], **inputs.options)
        calls = {
            "one": Call(partial(attend, num_threads=1), list, pause=0.0),
            "all": Call(partial(attend, num_threads=threads), list, pause=0.0),
        }
        times = race(calls, SECONDS, rounds=3)
        found[row.name] = min(times["one"]) / min(times["all"])
    return found


def measure(threads: int) -> dict[str, Any]:
    return {
        "import_ns": import_time(),
        "wheel_bytes": wheel_bytes(),
        "memory_bytes": {
            "L=1 S=100000": growth("attnmod", (1, 1, 1, 1, 100_000, 64)),
            "L=S=32768": growth("attnmod", (1, 1, 1, 32_768, 32_768, 64)),
        },
        "threads": threads,
        "speedup": speedups(threads),
    }


def table(figures: dict[str, Any]) -> list[list[str]]:
    wheel = figures["wheel_bytes"]
    lines = [
        ["import beyond NumPy", f"{milliseconds(figures['import_ns'])} ms"],
        ["wheel", f"{megabytes(wheel)} MB" if wheel else "not built: no dist/*.whl"],
    ]
    for shape, grown in figures["memory_bytes"].items():
        lines.append([f"scratch memory of all threads, {shape}", f"{megabytes(grown)} MB"])
    for row, speedup in figures["speedup"].items():
        lines.append([f"{figures['threads']} threads against one, {row}", f"{speedup:.2f}"])
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path, metavar="FILE")
    chosen = parser.parse_args()
    found = measure(am.get_num_threads())
    print(columns(table(found), left=2))
    if chosen.json:
        chosen.json.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
