"""Directories that only their user can open, even where others may write beside them."""

from __future__ import annotations

import contextlib
import os
import stat
from pathlib import Path


def make_private(directory: Path) -> bool:
    """Create a directory that only this user can open, and its missing parents.

    Returns:
        False where the path is a link, belongs to another user, or is open to others.

    Raises:
        OSError: The directory cannot be created.
    """
    directory.parent.mkdir(parents=True, exist_ok=True)
    with contextlib.suppress(FileExistsError):
        directory.mkdir(mode=0o700)
    stat_result = directory.lstat()
    is_own = stat.S_ISDIR(stat_result.st_mode) and stat_result.st_uid == os.geteuid()
    return is_own and not stat_result.st_mode & 0o077
