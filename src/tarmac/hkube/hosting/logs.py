"""What a program has printed last."""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["last_line"]

# Of a log, to be searched for its last line.
_LAST_BYTES = 2**16


def last_line(path: Path) -> str:
    """Return the last line of a log; empty where there is none."""
    with contextlib.suppress(OSError), path.open("rb") as file:
        file.seek(max(0, file.seek(0, os.SEEK_END) - _LAST_BYTES))
        lines = file.read().decode(errors="replace").strip().splitlines()
        return lines[-1] if lines else ""
    return ""
