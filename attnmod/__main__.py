"""``python -m attnmod``: a small show, facts for a bug report, a quick comparison."""

from __future__ import annotations

import argparse
import os
import platform
import sys
from collections.abc import Sequence

import numpy as np

import attnmod as am
import attnmod._core as _core


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command line; the exit status."""
    parser = argparse.ArgumentParser(prog="python -m attnmod", description="Attention for NumPy.")
    parser.add_argument("--version", action="version", version=f"attnmod {am.__version__}")
    commands = parser.add_subparsers(dest="command", metavar="command")
    commands.add_parser("demo", help="six words attend, and a layer is timed (without a command)")
    commands.add_parser("info", help="versions, instruction sets, threads: for bug reports")
    commands.add_parser("bench", help="a quick comparison with what is installed")
    command = parser.parse_args(arguments).command

    # Imported on use: each needs what the others do not.
    if command == "info":
        return info()
    if command == "bench":
        from attnmod import bench

        return bench.run()
    from attnmod import demo

    return demo.run()


def info() -> int:
    """Prints what a bug report should say; the exit status."""
    cpu = am.cpu_info()
    facts = {
        "attnmod": am.__version__,
        "ISA used": cpu["isa"],
        "ISAs found": " ".join(cpu["found"]),
        "ISAs compiled": " ".join(cpu["compiled"]),
        "threads": cpu["threads"],
        "processors": os.cpu_count(),
        "compiler": cpu["compiler"],
        "NumPy": np.__version__,
        "NumPy's BLAS": numpy_blas(),
        "Python": f"{platform.python_implementation()} {platform.python_version()}",
        "platform": platform.platform(),
    }
    for name, fact in facts.items():
        print(f"{name:15}{fact}")
    return 0


def numpy_blas() -> str:
    """What NumPy multiplies matrices with, and whether `share_threads_with_numpy` works there."""
    openblas, can_share = _core.numpy_blas()
    name = openblas or np.show_config(mode="dicts")["Build Dependencies"]["blas"]["name"]
    return f"{name} ({'can' if can_share else 'cannot'} share attnmod's threads)"


if __name__ == "__main__":
    sys.exit(main())
