"""By how much a call raises the peak of its process's memory, beyond arguments and results.

    python -m benchmarks.memory --json FILE    of every contender, for the rows "lengths"

Linux only. Each call has a process of its own, which has made a small call before, so that code and
threads are there.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import attnmod as am
from benchmarks.contenders import CONTENDERS, OnnxRuntime, load
from benchmarks.report import columns
from benchmarks.rows import Row
from benchmarks.suite import select

ROOT = Path(__file__).parents[1]
SMALL = (1, 2, 2, 16, 16, 64)
SETTLE_S = 0.5  # XLA gives memory back late
# malloc returns larger blocks to the system when they are freed, instead of keeping them.
RETURN_BLOCKS = {"MALLOC_MMAP_THRESHOLD_": "65536", "MALLOC_TRIM_THRESHOLD_": "65536"}


def growth(contender: str, shape: tuple[int, ...]) -> float | None:
    """Bytes, of a call without options; None where they can't be measured."""
    if not sys.platform.startswith("linux"):
        return None
    script = f"from benchmarks import memory; memory.measure_here({contender!r}, {shape!r})"
    command = [sys.executable, "-c", script]
    environment = {**os.environ, **RETURN_BLOCKS}
    done = subprocess.run(
        command, cwd=ROOT, env=environment, check=True, stdout=subprocess.PIPE, text=True
    )
    return float(done.stdout)


def measure_here(name: str, shape: tuple[int, int, int, int, int, int]) -> None:
    """Prints the growth in this process, in which nothing else may have happened."""
    contender = load([name], am.get_num_threads())[-1]
    if isinstance(contender, OnnxRuntime):
        contender.graphs.keeps_memory = False  # of the tries by which a graph is chosen
    small, row = Row("small", SMALL), Row("measured", shape)
    contender.prepare(small, small.inputs()).run()
    call = contender.prepare(row, row.inputs())
    time.sleep(SETTLE_S)
    Path("/proc/self/clear_refs").write_text("5")  # the peak is now what is resident
    before = _peak_kilobytes()
    result = call.run()
    grown = 1024 * (_peak_kilobytes() - before)
    print(max(0, grown - sum(array.astype(row.dtype).nbytes for array in call.fetch(result))))


def _peak_kilobytes() -> int:
    return int(Path("/proc/self/status").read_text().partition("VmHWM:")[2].split()[0])


def by_length() -> dict[str, dict[str, float | None]]:
    """Bytes by contender and row."""
    installed = [contender.name for contender in load(list(CONTENDERS), am.get_num_threads())]
    rows = select(["lengths"])
    return {name: {row.name: growth(name, row.shape) for row in rows} for name in installed}


def megabytes(value: float | None) -> str:
    return "–" if value is None else f"{value / 1e6:.2f}"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.memory", description=__doc__)
    parser.add_argument("--json", type=Path, metavar="FILE")
    chosen = parser.parse_args()
    found = by_length()
    lines = [["MB", *found]]
    lines += [
        [row.name, *(megabytes(rows[row.name]) for rows in found.values())]
        for row in select(["lengths"])
    ]
    print(columns(lines, left=1))
    if chosen.json:
        chosen.json.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
