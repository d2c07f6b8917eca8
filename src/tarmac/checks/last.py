"""The report of the last check of this machine, kept for monitors."""

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
    """Return the file of this user's last check of this machine, in the form of ``--save``."""
    return Path(platformdirs.user_state_dir("tarmac")) / "last-check.json"


def note_check(report: Report) -> None:
    """Keep a report as this machine's last check; do nothing where the file cannot be written."""
    path = last_check_file()
    with contextlib.suppress(OSError, TarmacError):
        path.parent.mkdir(parents=True, exist_ok=True)
        write_text(path, report.model_dump_json() + "\n", is_private=True)
