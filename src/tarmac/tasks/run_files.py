"""Paths in a run's directory: the tasks' directories, and ``run:PATH``.

``run:PATH`` is an output of one task for other tasks, in a directory of the run.
"""

from __future__ import annotations

import re
from pathlib import Path, PurePosixPath

# Name of the directory for ``run:PATH`` in the run's directory.
SHARED = "shared"

_PREFIX = "run:"


def is_shared(uri: str) -> bool:
    """Whether a source or destination is ``run:PATH``."""
    return uri.startswith(_PREFIX)


def within_run(uri: str, shared: Path) -> str:
    """Return the path of ``run:PATH``, and any other source or destination unchanged.

    Args:
        uri: Source of an input, or destination of an output.
        shared: Directory of the run that ``run:`` stands for.

    Raises:
        ValueError: The path leads out of that directory.
    """
    if not is_shared(uri):
        return uri
    path = PurePosixPath(uri.removeprefix(_PREFIX).strip("/"))
    if ".." in path.parts:
        raise ValueError(f"{uri} leads out of the run's directory")
    return str(shared / path)


def directory_name(index: int, name: str) -> str:
    """Return the name of a task's directory."""
    plain = re.sub(r"[^A-Za-z0-9._=,-]+", "_", name)[:80]
    return f"{index:06d}-{plain}"
