"""The race: the contenders of a row take turns, a, b, c, a, b, c, and the least time counts."""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import repeat
from typing import Any

from benchmarks.contenders import Call, Contender, UnsupportedError, error_of, expected
from benchmarks.rows import Row

TURN_NS = 50_000_000  # a turn lasts so long, or one call if that is longer
BATCH_NS = 500_000  # shorter calls are timed several at once


@dataclass(frozen=True)
class Timing:
    """Nanoseconds a call."""

    minimum: float
    median: float
    samples: int
    note: str = ""


@dataclass
class Result:
    row: Row
    timings: dict[str, Timing] = field(default_factory=dict)
    wrong: dict[str, str] = field(default_factory=dict)

    def ratio(self, peer: str) -> float | None:
        """The peer's time, divided by attnmod's."""
        if peer not in self.timings or "attnmod" not in self.timings:
            return None
        return self.timings[peer].minimum / self.timings["attnmod"].minimum


def run_row(row: Row, contenders: list[Contender], seconds: float, rounds: int = 3) -> Result:
    """Checks what each contender computes, then times those that are right."""
    inputs = row.inputs()
    want = expected(row, inputs)
    result = Result(row)
    calls: dict[str, tuple[Call, float]] = {}
    for contender in contenders:
        try:
            call = contender.prepare(row, inputs)
        except UnsupportedError:
            continue
        error = error_of(call.fetch(call.run()), want, row.dtype)
        if error:
            result.wrong[contender.name] = error
        else:
            calls[contender.name] = call, contender.pause
    runs = {name: (call.run, pause) for name, (call, pause) in calls.items()}
    samples = race(runs, seconds, rounds)
    for name, times in samples.items():
        note = calls[name][0].note
        result.timings[name] = Timing(min(times), statistics.median(times), len(times), note)
    return result


def race(
    runs: dict[str, tuple[Callable[[], Any], float]], seconds: float, rounds: int
) -> dict[str, list[float]]:
    """Nanoseconds a call, of (run, pause after it) by name: at least `rounds` rounds."""
    time.sleep(max((pause for _, pause in runs.values()), default=0.0))
    batches = {name: _batch(run) for name, (run, _) in runs.items()}
    samples: dict[str, list[float]] = {name: [] for name in runs}
    deadline = time.perf_counter() + seconds
    gc.disable()
    try:
        while runs and (rounds > 0 or time.perf_counter() < deadline):
            rounds -= 1
            for name, (run, pause) in runs.items():
                samples[name] += _turn(run, batches[name])
                time.sleep(pause)
    finally:
        gc.enable()
    return samples


def _batch(run: Callable[[], Any]) -> int:
    run()
    start = time.perf_counter_ns()
    run()
    return max(1, BATCH_NS // (time.perf_counter_ns() - start + 1))


def _turn(run: Callable[[], Any], batch: int) -> list[float]:
    samples = []
    end = 0
    stop = time.perf_counter_ns() + TURN_NS
    while end < stop:
        start = time.perf_counter_ns()
        for _ in repeat(None, batch):
            run()
        end = time.perf_counter_ns()
        samples.append((end - start) / batch)
    return samples
