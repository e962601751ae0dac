"""Records as tables: the same cells as aligned text or as Markdown."""

from __future__ import annotations

import math
from itertools import groupby

from benchmarks.records import Record, summaries

Cells = list[list[str]]


def sections(records: list[Record], peers: list[str]) -> str:
    """A table for each group."""
    groups = groupby(records, key=lambda record: record.group)
    return "\n\n".join(
        f"{name}\n{columns(table(list(members), peers), left=2)}" for name, members in groups
    )


def table(records: list[Record], peers: list[str]) -> Cells:
    """A line a row: our time, rate, share of the limit and cost; each peer's time and (ratio)."""
    peers = [peer for peer in peers if any(peer in r.minimum or peer in r.wrong for r in records)]
    head = ["row", "B,H/G,L,S,E", "attnmod ms", "rate", "of limit", *(f"{p} ms" for p in peers)]
    lines = [
        [
            record.name,
            record.problem,
            milliseconds(record.minimum["attnmod"]) if "attnmod" in record.minimum else "wrong",
            rate(record),
            share(record),
            *(_peer(record, peer) for peer in peers),
        ]
        for record in records
    ]
    if any(record.base for record in records):
        head.insert(5, "cost")
        for line, record in zip(lines, records, strict=True):
            line.insert(5, "–" if record.cost is None else f"{record.cost:.2f} {record.base}")
    return [head, *lines]


def means(records: list[Record], peers: list[str]) -> Cells:
    """Over the rows of the forward table, for each peer that ran one."""
    lines = [
        [peer, f"{of['mean']:.2f}", f"{of['worst']:.2f}", of["worst_row"], str(of["rows"])]
        for peer, of in summaries(records, peers).items()
    ]
    head = ["peer's time / ours", "geometric mean", "worst", "worst row", "rows"]
    return [head, *lines] if lines else []


def notes(records: list[Record]) -> Cells:
    """How a peer ran rows, where it had a choice, and who was wrong."""
    rows: dict[str, list[str]] = {}
    for record in records:
        for name, note in record.notes.items():
            rows.setdefault(f"{name}, {note}", []).append(record.name)
        for name, error in record.wrong.items():
            rows.setdefault(f"{name} WRONG, {error}", []).append(record.name)
    return [[how, " ".join(names)] for how, names in sorted(rows.items())]


def rate(record: Record) -> str:
    """In the unit of what limits the row."""
    if "attnmod" not in record.minimum or record.limit == "call":
        return "–"
    nanoseconds = record.minimum["attnmod"]
    if record.limit == "read":
        return f"{record.bytes_read / nanoseconds:.1f} GB/s"
    return f"{record.flops / nanoseconds:.0f} GF/s"


def share(record: Record) -> str:
    if record.share is None:
        return record.limit or "–"
    return f"{record.share:.0%} {record.limit}"


def milliseconds(nanoseconds: float) -> str:
    """Three digits that count."""
    value = nanoseconds / 1e6
    digits = 2 - math.floor(math.log10(value)) if value > 0 else 0
    return f"{value:.{min(max(digits, 0), 6)}f}"


def _peer(record: Record, peer: str) -> str:
    if peer in record.wrong:
        return "wrong"
    if peer not in record.minimum:
        return "–"
    ratio = record.ratio(peer)
    compared = "" if ratio is None else f" ({ratio:5.2f})"
    return milliseconds(record.minimum[peer]) + compared


def columns(lines: Cells, left: int) -> str:
    """Aligned text; the first `left` columns to the left, the others to the right."""
    return "\n".join("  ".join(line).rstrip() for line in _padded(lines, left))


def markdown(lines: Cells, left: int) -> str:
    """The same as a table of Markdown."""
    head, *body = (f"| {' | '.join(line)} |" for line in _padded(lines, left))
    rule = ["---" if i < left else "---:" for i in range(len(lines[0]))]
    return "\n".join([head, f"| {' | '.join(rule)} |", *body])


def _padded(lines: Cells, left: int) -> Cells:
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return [
        [
            cell.ljust(width) if i < left else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(line, widths, strict=True))
        ]
        for line in lines
    ]
