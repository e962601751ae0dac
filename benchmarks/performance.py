"""All benchmarks, and from them docs/performance.md and docs/performance.svg.

    python -m benchmarks.performance                         some 20 minutes
    python -m benchmarks.performance --seconds 1             shorter and rougher
    python -m benchmarks.performance --from build/performance.json     only writes the page again

Every part is a process of its own. What was measured is kept in a JSON file; with --parts or --rows
only these are measured again, and the others are taken from that file.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import attnmod as am
from benchmarks import page
from benchmarks.suite import ROWS

ROOT = Path(__file__).parents[1]
MEASURED = ROOT / "build" / "performance.json"
PARTS = ("rows", "avx2", "between_matmuls", "figures", "memory")
# Attnmod alone with another instruction set: the limit is what it is compared with.
AVX2_ROWS = "short,long,heads"


def arguments() -> argparse.Namespace:
    def names(text: str) -> list[str]:
        return text.split(",")

    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.performance",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--from", type=Path, dest="source", metavar="FILE", help="measure nothing")
    parser.add_argument("--json", type=Path, metavar="FILE", default=MEASURED)
    parser.add_argument("--parts", type=names, help=f"some of {','.join(PARTS)}")
    parser.add_argument("--rows", help="names, patterns, groups: only these of the part rows")
    parser.add_argument("--seconds", type=float, default=3.0, help="for each row")
    chosen = parser.parse_args()
    parts = chosen.parts or (["rows"] if chosen.rows else list(PARTS))
    if set(parts) - set(PARTS):
        parser.error(f"--parts: expected some of {','.join(PARTS)}, got {','.join(parts)}")
    chosen.parts = parts
    return chosen


def measure(part: str, rows: str | None, seconds: float) -> Any:
    """What the part's own command writes."""
    options = ["--seconds", str(seconds)]
    environment = dict(os.environ)
    module = f"benchmarks.{part}"
    if part == "rows":
        module = "benchmarks"
        options += ["--rows", rows] if rows else []
    elif part == "avx2":
        if "avx2" not in am.cpu_info()["found"]:
            return None
        module = "benchmarks"
        options += ["--rows", AVX2_ROWS, "--contenders", "attnmod"]
        environment["ATTNMOD_ISA"] = "avx2"
    else:
        options = []
    with tempfile.TemporaryDirectory() as folder:
        found = Path(folder) / "found.json"
        command = [sys.executable, "-m", module, *options, "--json", str(found)]
        # A wrong contender makes the status 1; the page names it.
        subprocess.run(command, cwd=ROOT, env=environment, check=False)
        if not found.exists():
            sys.exit(f"python -m benchmarks.performance: the part {part} wrote nothing")
        return json.loads(found.read_text())


def merge(old: dict[str, Any], new: dict[str, Any]) -> dict[str, Any]:
    """A run of some rows put into an earlier one, in the order of the suite."""
    found = {row["name"]: row for row in [*old["rows"], *new["rows"]]}
    rows = [found[row.name] for row in ROWS if row.name in found]
    return {**new, "rows": rows}


def main() -> None:
    chosen = arguments()
    if chosen.source:
        measured = json.loads(chosen.source.read_text())
    else:
        measured = json.loads(chosen.json.read_text()) if chosen.json.exists() else {}
        for part in chosen.parts:
            print(f"==== {part}", flush=True)
            found = measure(part, chosen.rows, chosen.seconds)
            if part == "rows" and chosen.rows and "rows" in measured:
                found = merge(measured["rows"], found)
            measured[part] = found
            chosen.json.parent.mkdir(parents=True, exist_ok=True)
            chosen.json.write_text(json.dumps(measured, indent=1) + "\n")
    page.write(measured, ROOT / "docs")


if __name__ == "__main__":
    main()
