"""The race: the contenders of a row take turns, a, b, c, a, b, c, and the least time counts."""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable, Mapping
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
    base: Timing | None = None  # attnmod's, of the row's base

    @property
    def cost(self) -> float | None:
        """attnmod's time for an operation or number read, divided by that in the base."""
        if self.base is None or self.row.base is None or "attnmod" not in self.timings:
            return None
        times = self.timings["attnmod"].minimum / self.base.minimum
        return times * self.row.base.work / self.row.work


def run_row(
    row: Row,
    contenders: list[Contender],
    seconds: float,
    rounds: int = 3,
    after_round: Callable[[], object] = lambda: None,
) -> Result:
    """Checks what each contender computes, then times those that are right."""
    inputs = row.inputs()
    want = expected(row, inputs)
    result = Result(row)
    calls: dict[str, Call] = {}
    for contender in contenders:
        try:
            call = contender.prepare(row, inputs)
        except UnsupportedError:
            continue
        error = error_of(call.fetch(call.run()), want, row)
        if error and not (row.dropout and contender.name != "attnmod"):  # each drops others
            result.wrong[contender.name] = error
        else:
            calls[contender.name] = call
        if row.base and contender.name == "attnmod":
            calls["base"] = contender.prepare(row.base, row.base.inputs())
    for name, times in race(calls, seconds, rounds, after_round).items():
        timing = Timing(min(times), statistics.median(times), len(times), calls[name].note)
        if name == "base":
            result.base = timing
        else:
            result.timings[name] = timing
    return result


def race(
    calls: Mapping[str, Call],
    seconds: float,
    rounds: int,
    after_round: Callable[[], object] = lambda: None,
) -> dict[str, list[float]]:
    """Nanoseconds a call, by name: at least `rounds` rounds."""
    time.sleep(max((call.pause for call in calls.values()), default=0.0))
    batches = {name: _batch(call.run) for name, call in calls.items()}
    samples: dict[str, list[float]] = {name: [] for name in calls}
    deadline = time.perf_counter() + seconds
    gc.disable()
    try:
        while calls and (rounds > 0 or time.perf_counter() < deadline):
            rounds -= 1
            for name, call in calls.items():
                samples[name] += _turn(call.run, batches[name])
                time.sleep(call.pause)
            after_round()
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
