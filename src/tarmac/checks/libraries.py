"""The CUDA libraries that a program would load, in the loader's search order."""

from __future__ import annotations

import re
import shutil
import subprocess
import sysconfig
from collections.abc import Iterable, Mapping
from pathlib import Path

_NAMES = ("libcuda", "libcudart", "libcublas", "libcudnn", "libnccl", "libnvidia-ml")


def find_libraries(environment: Mapping[str, str], packages: Path | None = None) -> dict[str, str]:
    """Return the CUDA, cuDNN and NCCL libraries, from name to the path that would be loaded.

    The first match in this order counts: ``LD_LIBRARY_PATH``, the ``nvidia`` wheels, the
    frameworks' own directories, the loader's cache. The frameworks' libraries search the wheels
    and their own directories through their RUNPATH (ld.so(8)).

    Args:
        environment: Environment variables, of which ``LD_LIBRARY_PATH`` is read.
        packages: Directory of site-packages. Default: this interpreter's.
    """
    packages = packages or Path(sysconfig.get_path("platlib"))
    directories = [Path(part) for part in environment.get("LD_LIBRARY_PATH", "").split(":") if part]
    directories += sorted(packages.glob("nvidia/*/lib"))
    directories += [packages / "torch/lib"]
    libraries: dict[str, str] = {}
    for directory in directories:
        for name, path in _named(directory.glob("lib*.so*")):
            libraries.setdefault(name, path)
    for name, path in _cached():
        libraries.setdefault(name, path)
    return dict(sorted(libraries.items()))


def _named(paths: Iterable[Path]) -> list[tuple[str, str]]:
    return [(path.name, str(path)) for path in sorted(paths) if _is_cudas(path.name)]


def _is_cudas(name: str) -> bool:
    # Parts of a library count too: libcudnn_ops.so.9 of cuDNN, libcublasLt.so.13 of cuBLAS.
    stem = re.match(r"lib[a-z]+(-ml)?", name)
    return stem is not None and stem[0] in _NAMES


def _cached() -> list[tuple[str, str]]:
    program = shutil.which("ldconfig") or "/sbin/ldconfig"
    try:
        done = subprocess.run(
            [program, "-p"], capture_output=True, text=True, timeout=5, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return []
    pairs = (line.strip().split(" => ") for line in done.stdout.splitlines() if " => " in line)
    return [(name.split()[0], path) for name, path in pairs if _is_cudas(name.split()[0])]
