"""A check whether Triton can compile and launch kernels here, without importing it."""

from __future__ import annotations

import functools
import importlib.util
import os
import shutil
import sysconfig
from pathlib import Path


@functools.cache
def why_not() -> str | None:
    """Return what is missing for Triton's kernels and how to fix it, or None.

    Triton builds its launcher with a C compiler and caches compiled kernels in a directory. The
    function searches for both as Triton 3.7 does.
    """
    if importlib.util.find_spec("triton") is None:
        return "Triton is not installed; PyTorch's builds for CUDA bring it (pip install triton)"
    if _compiler() is None:
        return (
            "Triton finds no C compiler to build its launcher with; install gcc, or set CC to the "
            "path of one"
        )
    headers = Path(sysconfig.get_path("include"), "Python.h")
    if not headers.exists():
        return (
            f"Triton needs Python's headers to build its launcher, and there is no {headers}; on "
            "Debian or Ubuntu: apt install python3-dev"
        )
    cache = cache_directory()
    if not _can_be_written(cache):
        return (
            f"Triton keeps what it compiles in {cache}, which cannot be written; set "
            "TRITON_CACHE_DIR to a directory that can"
        )
    return None


def cache_directory() -> Path:
    """Return the directory where Triton caches compiled kernels."""
    own = os.environ.get("TRITON_CACHE_DIR")
    home = os.environ.get("TRITON_HOME")
    return Path(own) if own else Path(home or Path.home(), ".triton", "cache")


def _compiler() -> str | None:
    named = os.environ.get("CC")
    if named is not None:
        return shutil.which(named)
    return shutil.which("gcc") or shutil.which("clang")


def _can_be_written(directory: Path) -> bool:
    """Return whether a directory can be written, or created if it does not exist."""
    there = next((path for path in (directory, *directory.parents) if path.exists()), None)
    return there is not None and there.is_dir() and os.access(there, os.W_OK | os.X_OK)
