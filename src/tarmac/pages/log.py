"""The end of what processes have printed, without secrets."""

from __future__ import annotations

from typing import TYPE_CHECKING

from markupsafe import Markup

from tarmac.pages.log_end import log_lines
from tarmac.pages.pieces import details, pre

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

__all__ = ["tail_of"]

_LINES = 40
# A job may have thousands of them.
_MOST_FILES = 4


def tail_of(files: Sequence[Path], root: Path, *, key: str = "log") -> Markup:
    """Return the last lines of some files, each to be opened; of those that are empty nothing.

    Args:
        files: The newest ones of these are shown.
        root: What their names are told from.
        key: What their ids in the page begin with.
    """
    shown = [(file, lines) for file in files if (lines := log_lines(file, _LINES))][-_MOST_FILES:]
    return Markup("").join(
        details(f"{key}-{number}", f"The end of {file.relative_to(root)}", pre("\n".join(lines)))
        for number, (file, lines) in enumerate(shown)
    )
