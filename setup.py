"""Builds attnmod._core. pyproject.toml has everything else.

Switches, by environment:
    ATTNMOD_SANITIZE=address,undefined   or thread: build with these sanitizers
    ATTNMOD_COVERAGE=1                   count the lines that run (gcov)
    ATTNMOD_DEBUG=1                      no optimisation, assertions on
    ATTNMOD_WERROR=1                     a warning is an error
"""

import os
import sys
from glob import glob

import numpy
from setuptools import Extension, setup

# Target regions in csrc/isa choose the instruction set, so no file needs flags of its own.
# Contraction is stated, since compilers differ in their default and results would then too.
compile_args = [
    "-std=c11",
    "-O3",
    "-ffp-contract=off",
    "-fno-math-errno",
    "-fno-trapping-math",
    "-fvisibility=hidden",
    "-pthread",
    "-Wall",
    "-Wextra",
    "-Wshadow",
]
link_args = ["-pthread"]

if sanitizers := os.environ.get("ATTNMOD_SANITIZE"):
    compile_args += [f"-fsanitize={sanitizers}", "-fno-omit-frame-pointer", "-g"]
    link_args += [f"-fsanitize={sanitizers}"]
if os.environ.get("ATTNMOD_COVERAGE"):
    compile_args += ["--coverage", "-O1"]
    link_args += ["--coverage"]
if os.environ.get("ATTNMOD_DEBUG"):
    compile_args += ["-O0", "-g", "-UNDEBUG"]
elif not sanitizers:
    link_args += ["-Wl,-x" if sys.platform == "darwin" else "-Wl,--strip-debug"]
if os.environ.get("ATTNMOD_WERROR"):
    compile_args += ["-Werror"]

setup(
    ext_modules=[
        Extension(
            "attnmod._core",
            sources=sorted(
                source
                for folder in ("core", "isa", "python")
                for source in glob(f"csrc/{folder}/*.c")
            ),
            depends=glob("csrc/**/*.h", recursive=True) + glob("csrc/kernel/*.c"),
            include_dirs=[numpy.get_include()],
            extra_compile_args=compile_args,
            extra_link_args=link_args,
        )
    ]
)
