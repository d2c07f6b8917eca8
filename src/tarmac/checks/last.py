"""What the last check of this machine found, kept for whoever watches it."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import TYPE_CHECKING

import platformdirs

from tarmac.errors import TarmacError
from tarmac.files import write_text

if TYPE_CHECKING:
    from tarmac.checks.report.model import Report


def last_check_file() -> Path:
    """Return where this user's last check of this machine is kept, as ``--save`` would have it."""
    return Path(platformdirs.user_state_dir("tarmac")) / "last-check.json"


def note_check(report: Report) -> None:
    """Keep a check of this machine as the last one; where that cannot be written, it is not."""
    path = last_check_file()
    with contextlib.suppress(OSError, TarmacError):
        path.parent.mkdir(parents=True, exist_ok=True)
        write_text(path, report.model_dump_json() + "\n", is_private=True)
