"""What was found for each row, as JSON keeps it and the tables print it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from benchmarks.limits import Limits
from benchmarks.rows import Row
from benchmarks.run import Result
from benchmarks.suite import GROUP_OF


@dataclass(frozen=True)
class Record:
    name: str
    group: str
    problem: str
    in_table: bool
    flops: int
    bytes_read: int
    minimum: dict[str, float]  # nanoseconds a call, by contender
    median: dict[str, float]
    notes: dict[str, str]  # how a contender ran it, where it had a choice
    wrong: dict[str, str]
    limit: str  # FMA, read or call; empty where the limits were not measured
    share: float | None  # of the limit
    base: str  # the row that this one is a variant of
    cost: float | None  # attnmod's time for an operation (decoding: a number read), over the base's

    def ratio(self, peer: str) -> float | None:
        """The peer's time, divided by attnmod's."""
        if peer not in self.minimum or "attnmod" not in self.minimum:
            return None
        return self.minimum[peer] / self.minimum["attnmod"]


def record(result: Result, limits: Limits | None) -> Record:
    row, timings = result.row, result.timings
    limit, least = limit_of(row, limits)
    share = None
    if least is not None and "attnmod" in timings:
        ours = timings["attnmod"]
        share = least / (ours.median if limit == "read" else ours.minimum)  # like with like
    return Record(
        name=row.name,
        group=GROUP_OF.get(row.name, ""),
        problem=row.describe(),
        in_table=row.in_table,
        flops=row.flops,
        bytes_read=row.bytes_read,
        minimum={name: timing.minimum for name, timing in timings.items()},
        median={name: timing.median for name, timing in timings.items()},
        notes={name: timing.note for name, timing in timings.items() if timing.note},
        wrong=result.wrong,
        limit=limit,
        share=share,
        base=row.base.name if row.base else "",
        cost=result.cost,
    )


def limit_of(row: Row, limits: Limits | None) -> tuple[str, float | None]:
    """What a row can't be faster than, and the nanoseconds that this takes at least."""
    if row.is_tiny:
        return "call", None
    if limits is None:
        return "", None
    arithmetic = row.flops / limits.fma_peak(row.dtype)
    reading = row.bytes_read / limits.read_again.get(row.bytes_read, limits.read_all)
    return ("FMA", arithmetic) if arithmetic >= reading else ("read", reading)


def summaries(records: list[Record], peers: list[str]) -> dict[str, dict[str, Any]]:
    """Geometric mean and worst row of each peer's ratio, over the rows of the forward table."""
    found: dict[str, dict[str, Any]] = {}
    for peer in peers:
        timed = {r.name: r.ratio(peer) for r in records if r.in_table}
        ratios = {name: ratio for name, ratio in timed.items() if ratio is not None}
        if ratios:
            worst = min(ratios, key=ratios.__getitem__)
            found[peer] = {
                "mean": math.exp(sum(map(math.log, ratios.values())) / len(ratios)),
                "worst": ratios[worst],
                "worst_row": worst,
                "rows": len(ratios),
            }
    return found
