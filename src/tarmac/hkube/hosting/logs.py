"""The last line of a program's log."""

from __future__ import annotations

import contextlib
from pathlib import Path

from tarmac.files import masked_end

# Bytes at the end of a log that are searched for its last line.
_LAST_BYTES = 2**16


def last_line(path: Path) -> str:
    """Return the last line of a log, with secrets redacted; empty if there is none."""
    with contextlib.suppress(OSError):
        lines = masked_end(path, _LAST_BYTES)[0].strip().splitlines()
        return lines[-1] if lines else ""
    return ""
