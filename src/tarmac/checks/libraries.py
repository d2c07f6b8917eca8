"""Which of CUDA's libraries a program would load, in the order in which the loader looks."""

from __future__ import annotations

import re
import shutil
import subprocess
import sysconfig
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_NAMES = ("libcuda", "libcudart", "libcublas", "libcudnn", "libnccl", "libnvidia-ml")


def find_libraries(environment: Mapping[str, str], packages: Path | None = None) -> dict[str, str]:
    """Return CUDA's, cuDNN's and NCCL's libraries, name to the path that would be loaded.

    The first directory counts: LD_LIBRARY_PATH, then the ``nvidia`` wheels and the frameworks' own
    directories, where the frameworks' libraries look by themselves (their RUNPATH; ld.so(8)), then
    the loader's cache.

    Args:
        environment: Environment variables, of which ``LD_LIBRARY_PATH`` is read.
        packages: The interpreter's site-packages; by default this one's.
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
    # libcudnn_ops.so.9 is cuDNN's too, libcublasLt.so.13 cuBLAS's.
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
