"""The search for the programs of a Slurm on this machine."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence

from tarmac.errors import RequestError


def search_path() -> str:
    """Return ``PATH`` with the directories of daemons, which most users' ``PATH`` lacks."""
    return os.pathsep.join((os.environ.get("PATH", os.defpath), "/usr/sbin", "/sbin"))


def require(programs: Sequence[str], problem: str, packages: Sequence[str]) -> None:
    """Raise a RequestError where a program is missing.

    Args:
        programs: Names of the programs to look for.
        problem: Error message where a program is missing.
        packages: Names of the Debian packages that contain them.

    Raises:
        RequestError: A program is missing.
    """
    path = search_path()
    if not all(shutil.which(name, path=path) for name in programs):
        raise RequestError(problem, hint=f"sudo apt install {' '.join(packages)}")
