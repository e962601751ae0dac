"""docs/performance.md and its plot, from what performance.py measured."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from string import Template
from typing import Any

from benchmarks import between_matmuls, figures
from benchmarks.limits import Limits
from benchmarks.memory import megabytes
from benchmarks.records import Record
from benchmarks.report import Cells, markdown, means, notes, table
from benchmarks.suite import GROUPS, ROWS

TEMPLATE = Path(__file__).with_name("performance.template.md")
# What a row may cost beside its base before the page lists it.
CLIFF = 1.25
MISSING = "Not measured."


def write(measured: dict[str, Any], folder: Path) -> None:
    folder.joinpath("performance.md").write_text(text(measured), encoding="utf-8")
    plot(measured, folder / "performance.svg")


def text(measured: dict[str, Any]) -> str:
    run = measured["rows"]
    records = [Record(**row) for row in run["rows"]]
    peers = list(dict.fromkeys(name for r in records for name in r.minimum if name != "attnmod"))

    def part(name: str, lines: Callable[[Any], Cells], left: int) -> str:
        return markdown(lines(measured[name]), left) if measured.get(name) else MISSING

    def group(name: str) -> str:
        members = [record for record in records if record.group == name]
        return markdown(table(members, peers), left=2) if members else MISSING

    values = {
        "machine": _machine(run),
        "limits": _limits(run["limits"]),
        "table_rows": str(sum(record.in_table for record in records)),
        "means": markdown(means(records, peers), left=1),
        **{f"rows_{name}": group(name) for name in GROUPS},
        "slower": _list(
            f"{r.name}: {peer}, {r.ratio(peer):.2f}"
            for r in records
            for peer in peers
            if (r.ratio(peer) or 1.0) < 1.0
        ),
        "cliffs": _list(
            f"{r.name}: {r.cost:.2f} times {r.base}"
            for r in records
            if r.cost is not None and r.cost > CLIFF
        ),
        "worst_neighbour": _worst_neighbour(records),
        "avx2": part("avx2", _avx2, left=2),
        "avx2_limits": _limits(measured["avx2"]["limits"]) if measured.get("avx2") else MISSING,
        "between_matmuls": part("between_matmuls", between_matmuls.table, left=1),
        "figures": part("figures", _figures, left=1),
        "memory": part("memory", _memory, left=1),
        "notes": markdown([["peer", "rows"], *notes(records)], left=2),
    }
    return Template(TEMPLATE.read_text(encoding="utf-8")).substitute(values)


def _machine(run: dict[str, Any]) -> str:
    machine, versions = run["machine"], dict(run["versions"])
    isa, compiler = machine["attnmod"]["isa"], machine["attnmod"]["compiler"]
    return "\n".join(
        [
            f"- {machine['processor']}, {machine['architecture']}, {machine['usable']} processors",
            f"- attnmod {versions.pop('attnmod')} with {isa}, built by {compiler}",
            "- " + ", ".join(f"{name} {version}" for name, version in versions.items()),
        ]
    )


def _limits(limits: dict[str, Any] | None) -> str:
    if limits is None:
        return MISSING
    lines = str(Limits(**limits)).splitlines()
    return "\n".join(f"- {line}" for line in lines)


def _list(lines: Any) -> str:
    return "\n".join(f"- {line}" for line in lines) or "- none"


def _worst_neighbour(records: list[Record]) -> str:
    odd = [r for r in records if r.group in ("neighbours", "heads") and r.cost is not None]
    if not odd:
        return MISSING
    worst = max(odd, key=lambda r: r.cost or 0.0)
    return f"{worst.cost:.2f} times {worst.base}, in the row {worst.name}"


def _avx2(run: dict[str, Any]) -> Cells:
    return table([Record(**row) for row in run["rows"]], [])


def _figures(found: dict[str, Any]) -> Cells:
    return [["figure", "value"], *figures.table(found)]


def _memory(found: dict[str, dict[str, float | None]]) -> Cells:
    rows = [row for row in GROUPS["lengths"] if any(row.name in of for of in found.values())]
    return [
        ["L = S", *(f"{name} MB" for name in found)],
        *(
            [str(row.shape[3]), *(megabytes(of.get(row.name)) for of in found.values())]
            for row in rows
        ),
    ]


def plot(measured: dict[str, Any], target: Path) -> None:
    """Time and memory against L."""
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams["svg.hashsalt"] = "attnmod"  # the same file for the same numbers
    matplotlib.rcParams["svg.fonttype"] = "none"  # text stays text
    import matplotlib.pyplot as plt

    lengths = {row.name: row.shape[3] for row in ROWS if row.name.startswith("length-")}
    times: dict[str, dict[int, float]] = {}
    for row in measured["rows"]["rows"]:
        for name, nanoseconds in row["minimum"].items():
            if row["name"] in lengths:
                times.setdefault(name, {})[lengths[row["name"]]] = nanoseconds / 1e6
    memory = {
        name: {lengths[row]: grown / 1e6 for row, grown in of.items() if grown}
        for name, of in (measured.get("memory") or {}).items()
    }
    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4.2), layout="constrained")
    for axes, series, title in (
        (left, times, "time of a call, ms"),
        (right, memory, "memory beyond arguments and result, MB"),
    ):
        for name, points in series.items():
            style: dict[str, Any] = {"linewidth": 3.0} if name == "attnmod" else {}
            axes.plot(list(points), list(points.values()), marker="o", label=name, **style)
        axes.set_xscale("log", base=2)
        axes.set_yscale("log")
        axes.set_xlabel("queries and keys, L = S")
        axes.set_title(title)
        axes.grid(alpha=0.3)
    left.legend()
    figure.savefig(target, metadata={"Date": None})
    plt.close(figure)
