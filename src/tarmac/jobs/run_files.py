"""Where things are in a run's directory: its tasks, and what one task keeps for the others.

The latter is ``run:PATH``, in a directory of the run's own.
"""

from __future__ import annotations

import re
from pathlib import Path, PurePosixPath

# The directory's name in the run's.
SHARED = "shared"

_PREFIX = "run:"


def is_shared(uri: str) -> bool:
    """Whether a source or destination is in the run's own directory."""
    return uri.startswith(_PREFIX)


def within_run(uri: str, shared: Path) -> str:
    """Return where ``run:PATH`` is, and any other source or destination as it stands.

    Args:
        uri: Source of an input, or destination of an output.
        shared: The run's directory for this.

    Raises:
        ValueError: It leads out of that directory.
    """
    if not is_shared(uri):
        return uri
    path = PurePosixPath(uri.removeprefix(_PREFIX).strip("/"))
    if ".." in path.parts:
        raise ValueError(f"{uri} leads out of the run's directory")
    return str(shared / path)


def directory_name(index: int, name: str) -> str:
    """Return what the directory of a task is called."""
    plain = re.sub(r"[^A-Za-z0-9._=,-]+", "_", name)[:80]
    return f"{index:06d}-{plain}"
