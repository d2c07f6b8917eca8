"""``run:PATH``: what one task of a run keeps for the others, in a directory of the run's own."""

from __future__ import annotations

from pathlib import Path, PurePosixPath

__all__ = ["SHARED", "is_shared", "within_run"]

# The directory's name in the run's.
SHARED = "shared"

_PREFIX = "run:"


def is_shared(uri: str) -> bool:
    """Whether a source or destination is in the run's own directory."""
    return uri.startswith(_PREFIX)


def within_run(uri: str, shared: Path) -> str:
    """Return where ``run:PATH`` is, and any other source or destination as it stands.

    Args:
        uri: Of an input or an output.
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
