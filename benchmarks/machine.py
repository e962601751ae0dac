"""Which machine and which versions a run was made with."""

from __future__ import annotations

import importlib.metadata
import os
import platform
from pathlib import Path
from typing import Any

import attnmod as am

PACKAGES = ("numpy", "torch", "onnxruntime", "onnx", "jax", "jaxlib", "ml_dtypes")


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
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found
