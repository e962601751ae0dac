"""FMA peak and read bandwidth, measured in the run whose times are compared with them.

The peak is that of the instruction set that attnmod uses: ATTNMOD_ISA=avx2 halves it where the
machine has AVX-512. There is no limit for plain C.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import statistics
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import attnmod as am

FLAGS = ["-O3", "-ffp-contract=fast", "-shared", "-fPIC"]
ISA_FLAGS = {
    "avx512": "-march=native",
    "avx2": "-march=x86-64-v3",  # AVX2 with FMA
    "neon": "-march=native",
}
FMA_ROUNDS = 2_000_000  # some 20 ms
READ_BYTES = 256 << 20  # more than any cache
READS = 3


@dataclass
class Limits:
    """In units of 1e9 a second, of one thread and of all threads of the run.

    The best FMA rate seen so far, and the median of the bandwidths: memory is shared with whoever
    else is on the machine, and a rare quiet moment is nothing to compare with. What a call reads
    again and again may stay in a cache, whose bandwidth is another: read_again[bytes] is that of
    reading so many bytes repeatedly, with all threads.
    """

    threads: int
    fma_one: float = 0.0
    fma_all: float = 0.0
    read_one: float = 0.0
    read_all: float = 0.0
    read_again: dict[int, float] = field(default_factory=dict)

    def fma_peak(self, dtype: str) -> float:
        """float64 has half the lanes; the smaller types are computed in float32."""
        return self.fma_all / 2 if dtype == "float64" else self.fma_all

    def __str__(self) -> str:
        return (
            f"FMA peak, float32: {self.fma_one:.0f} GF/s with 1 thread, {self.fma_all:.0f} with "
            f"{self.threads}\nread bandwidth: {self.read_one:.1f} GB/s with 1 thread, "
            f"{self.read_all:.1f} with {self.threads}"
        )


class Probe:
    """Measures again at each call of `measure`, since a machine's clock moves during a run: between
    the rounds of every race."""

    def __init__(self, threads: int) -> None:
        self.limits = Limits(threads)
        self.library = _build()
        self.data = np.ones(READ_BYTES // 4, np.float32)
        self.bandwidths: dict[tuple[int, int], list[float]] = {}  # by threads and bytes

    def measure(self, bytes_again: int = 0) -> Limits | None:
        """bytes_again asks for read_again of that size too."""
        if self.library is None:
            return None
        limits, threads = self.limits, self.limits.threads
        limits.fma_one = max(limits.fma_one, self._rate(self._fma, 1))
        limits.fma_all = max(limits.fma_all, limits.fma_one, self._rate(self._fma, threads))
        limits.read_one = self._bandwidth(1, READ_BYTES)
        limits.read_all = self._bandwidth(threads, READ_BYTES)
        if bytes_again:
            limits.read_again[bytes_again] = self._bandwidth(threads, bytes_again)
        return limits

    def _bandwidth(self, threads: int, size: int) -> float:
        samples = self.bandwidths.setdefault((threads, size), [])
        samples += [self._rate(partial(self._read, size=size), threads) for _ in range(READS)]
        return statistics.median(samples)

    def _fma(self, thread: int, threads: int) -> float:
        done: float = self.library.limits_fma(FMA_ROUNDS, ctypes.byref(ctypes.c_float()))
        return done

    def _read(self, thread: int, threads: int, size: int) -> float:
        part = np.array_split(self.data[: size // 4], threads)[thread]
        sink = ctypes.byref(ctypes.c_float())
        done = 0.0
        for _ in range(max(1, READ_BYTES // size)):
            done += self.library.limits_read(part.ctypes.data, part.nbytes, sink)
        return done

    @staticmethod
    def _rate(work: Callable[[int, int], float], threads: int) -> float:
        """What `threads` threads do a nanosecond; ctypes gives up the GIL."""
        start_line = threading.Barrier(threads)

        def timed(thread: int) -> tuple[float, int, int]:
            start_line.wait()
            start = time.perf_counter_ns()
            done = work(thread, threads)
            return done, start, time.perf_counter_ns()

        with ThreadPoolExecutor(threads) as pool:
            done, starts, ends = zip(*pool.map(timed, range(threads)), strict=True)
        return float(sum(done) / (max(ends) - min(starts)))


def _build() -> Any:
    """limits.c as a library, None without a compiler."""
    compiler = os.environ.get("CC") or shutil.which("cc") or shutil.which("gcc")
    isa = am.cpu_info()["isa"]
    if compiler is None or isa not in ISA_FLAGS:
        return None
    source = Path(__file__).with_name("limits.c")
    with tempfile.TemporaryDirectory() as folder:
        target = str(Path(folder) / "limits.so")
        command = [*compiler.split(), *FLAGS, ISA_FLAGS[isa], str(source), "-o", target]
        if subprocess.run(command, check=False).returncode != 0:
            return None
        library = ctypes.CDLL(target)
    sink = ctypes.POINTER(ctypes.c_float)
    library.limits_fma.restype = library.limits_read.restype = ctypes.c_double
    library.limits_fma.argtypes = [ctypes.c_ssize_t, sink]
    library.limits_read.argtypes = [ctypes.c_void_p, ctypes.c_ssize_t, sink]
    return library
