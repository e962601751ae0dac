"""python -m benchmarks: attnmod against its peers. README.md explains the output."""

from __future__ import annotations

import argparse
import json
import os
import sys
from dataclasses import asdict
from functools import partial
from pathlib import Path

QUICK_SECONDS = 0.2
QUICK_FLOPS = 4e9


def arguments() -> argparse.Namespace:
    def names(text: str) -> list[str]:
        return [name.strip() for name in text.split(",") if name.strip()]

    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--rows", type=names, help="names, patterns, groups; all by default")
    parser.add_argument(
        "--contenders",
        type=names,
        default=["numpy", "torch", "onnxruntime", "jax"],
        help="peers of attnmod, which always takes part",
    )
    parser.add_argument("--threads", type=int, help="for every contender; all by default")
    parser.add_argument("--seconds", type=float, default=10.0, help="for each row")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all that was measured")
    parser.add_argument("--quick", action="store_true", help="small rows, one round")
    return parser.parse_args()


def limit_threads(threads: int) -> None:
    """For libraries that read it once, when they are imported."""
    for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ[variable] = str(threads)
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:threads])


def main() -> int:
    chosen = arguments()
    if chosen.threads:
        limit_threads(chosen.threads)
    # Only now may NumPy and the peers be imported: see limit_threads.
    import attnmod as am
    from benchmarks import report
    from benchmarks.contenders import load
    from benchmarks.limits import Probe
    from benchmarks.machine import machine, versions
    from benchmarks.records import record
    from benchmarks.run import Result, run_row
    from benchmarks.suite import ROWS, select

    threads = chosen.threads or am.get_num_threads()
    try:
        rows = select(chosen.rows) if chosen.rows else ROWS
        contenders = load(chosen.contenders, threads)
    except ValueError as error:
        sys.exit(f"python -m benchmarks: {error}")
    if chosen.quick:
        rows = [row for row in rows if row.flops <= QUICK_FLOPS]
    peers = [contender.name for contender in contenders if contender.name != "attnmod"]

    probe = Probe(threads)
    results: list[Result] = []
    try:
        for row in rows:
            print(f"{row.name}: {row.describe()}", file=sys.stderr)
            seconds, rounds = (QUICK_SECONDS, 1) if chosen.quick else (chosen.seconds, 3)
            try:
                probing = partial(probe.measure, 0 if row.is_tiny else row.bytes_read)
                results.append(run_row(row, contenders, seconds, rounds, probing))
            except ImportError as error:  # bfloat16 arrays need ml_dtypes
                print(f"{row.name}: skipped, {error}", file=sys.stderr)
    except KeyboardInterrupt:
        print("stopped; these rows were done:", file=sys.stderr)

    limits = probe.measure()
    records = [record(result, limits) for result in results]
    print(limits or "FMA peak, read bandwidth: not measured for this compiler or instruction set")
    parts = [
        report.sections(records, peers),
        report.columns(report.means(records, peers), left=1),
        report.columns(report.notes(records), left=2),
    ]
    print("", "\n\n".join(filter(None, parts)), sep="\n")
    if chosen.json:
        document = {
            "command": sys.argv,
            "machine": machine(),
            "versions": versions(),
            "limits": asdict(limits) if limits else None,
            "rows": [asdict(found) for found in records],
        }
        chosen.json.write_text(json.dumps(document, indent=1) + "\n")
    return 1 if any(found.wrong for found in records) else 0


if __name__ == "__main__":
    sys.exit(main())
