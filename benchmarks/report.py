"""What a run found: as a table to read and as JSON to keep."""

from __future__ import annotations

import importlib.metadata
import json
import math
import os
import platform
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

import attnmod as am
from benchmarks.limits import Limits
from benchmarks.run import Result

PACKAGES = ("attnmod", "numpy", "torch", "onnxruntime", "onnx", "jax", "jaxlib", "ml_dtypes")


def table(results: list[Result], peers: list[str], limits: Limits | None) -> str:
    """A line a row: our time, rate and share of the limit; each peer's time and (its ratio)."""
    lines = [["row", "B,H/G,L,S,E", "attnmod ms", "rate", "of limit", *(f"{p} ms" for p in peers)]]
    for result in results:
        ours = result.timings.get("attnmod")
        share = share_of_limit(result, limits)
        lines.append(
            [
                result.row.name,
                result.row.describe(),
                milliseconds(ours.minimum) if ours else "wrong",
                rate_text(result),
                "–" if share is None else f"{share:.0%}",
                *(_peer(result, peer) for peer in peers),
            ]
        )
    return columns(lines, left=2)


def means(results: list[Result], peers: list[str]) -> str:
    """Geometric mean and worst row of each peer's ratio, over the rows of the forward table."""
    lines = [["peer's time / ours", "mean", "worst", "row", "rows"]]
    for peer, summary in summaries(results, peers).items():
        ratio, worst = f"{summary['mean']:.2f}", f"{summary['worst']:.2f}"
        lines.append([peer, ratio, worst, summary["worst_row"], str(summary["rows"])])
    return columns(lines, left=1)


def summaries(results: list[Result], peers: list[str]) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {}
    for peer in peers:
        timed = [result for result in results if result.row.in_table]
        ratios = {r.row.name: ratio for r in timed if (ratio := r.ratio(peer)) is not None}
        if ratios:
            worst = min(ratios, key=ratios.__getitem__)
            found[peer] = {
                "mean": math.exp(sum(map(math.log, ratios.values())) / len(ratios)),
                "worst": ratios[worst],
                "worst_row": worst,
                "rows": len(ratios),
            }
    return found


def notes(results: list[Result]) -> str:
    """How a peer ran a row, where it had a choice, and who was wrong."""
    lines = []
    for result in results:
        chosen = [f"{name} {t.note}" for name, t in result.timings.items() if t.note]
        wrong = [f"{name} WRONG: {error}" for name, error in result.wrong.items()]
        if chosen or wrong:
            lines.append([result.row.name, ", ".join(chosen + wrong)])
    return columns(lines, left=2)


def share_of_limit(result: Result, limits: Limits | None) -> float | None:
    if limits is None or "attnmod" not in result.timings:
        return None
    row, nanoseconds = result.row, result.timings["attnmod"].minimum
    if row.is_decode:
        limit = limits.read_again.get(row.bytes_read, limits.read_all)
        return row.bytes_read / nanoseconds / limit
    return row.flops / nanoseconds / limits.fma_peak(row.dtype)


def rate_text(result: Result) -> str:
    if "attnmod" not in result.timings:
        return "–"
    row, nanoseconds = result.row, result.timings["attnmod"].minimum
    if row.is_decode:
        return f"{row.bytes_read / nanoseconds:.1f} GB/s"
    return f"{row.flops / nanoseconds:.3g} GF/s"


def milliseconds(nanoseconds: float) -> str:
    """Three digits that count."""
    value = nanoseconds / 1e6
    digits = 2 - math.floor(math.log10(value)) if value > 0 else 0
    return f"{value:.{min(max(digits, 0), 6)}f}"


def _peer(result: Result, peer: str) -> str:
    if peer in result.wrong:
        return "wrong"
    if peer not in result.timings:
        return "–"
    ratio = result.ratio(peer)
    compared = "" if ratio is None else f" ({ratio:5.2f})"
    return milliseconds(result.timings[peer].minimum) + compared


def columns(lines: list[list[str]], left: int) -> str:
    """Aligned text; the first `left` columns to the left, the others to the right."""
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join(
        "  ".join(
            cell.ljust(width) if i < left else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    )


def machine() -> dict[str, Any]:
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return {
        "processor": _processor(),
        "architecture": platform.machine(),
        "system": platform.platform(),
        "processors": os.cpu_count(),
        "usable": usable,
        "attnmod": am.cpu_info(),
    }


def _processor() -> str:
    try:
        text = Path("/proc/cpuinfo").read_text()
    except OSError:
        return platform.processor()
    names = (line.partition(":")[2].strip() for line in text.splitlines() if "model name" in line)
    return next(names, platform.processor())


def versions() -> dict[str, str]:
    found = {"python": platform.python_version(), "attnmod": am.__version__}
    for package in PACKAGES:
        if package not in found:
            try:
                found[package] = importlib.metadata.version(package)
            except importlib.metadata.PackageNotFoundError:
                continue
    return found


def write_json(
    path: Path,
    results: list[Result],
    peers: list[str],
    limits: Limits | None,
    figures: dict[str, Any],
) -> None:
    rows = [
        {
            **asdict(result.row),
            "flops": result.row.flops,
            "bytes_read": result.row.bytes_read,
            "share_of_limit": share_of_limit(result, limits),
            "nanoseconds": {name: asdict(timing) for name, timing in result.timings.items()},
            "wrong": result.wrong,
        }
        for result in results
    ]
    document = {
        "command": sys.argv,
        "machine": machine(),
        "versions": versions(),
        "limits": asdict(limits) if limits else None,
        "rows": rows,
        "ratios": summaries(results, peers),
        "figures": figures,
    }
    path.write_text(json.dumps(document, indent=1) + "\n")
