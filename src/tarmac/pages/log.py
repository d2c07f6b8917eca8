"""The end of what processes have printed, without secrets."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from markupsafe import Markup

from tarmac.masking import masked_text
from tarmac.pages.pieces import details, pre

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

__all__ = ["tail_of"]

_BYTES = 8192
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
    shown = [(file, text) for file in files if (text := _end(file))][-_MOST_FILES:]
    return Markup("").join(
        details(f"{key}-{number}", f"The end of {file.relative_to(root)}", pre(text))
        for number, (file, text) in enumerate(shown)
    )


def _end(file: Path) -> str:
    try:
        with file.open("rb") as stream:
            stream.seek(0, os.SEEK_END)
            stream.seek(max(0, stream.tell() - _BYTES))
            text = stream.read().decode("utf-8", errors="replace")
    except OSError:
        return ""
    lines = text.replace("\r", "\n").splitlines()[-_LINES:]
    return masked_text("\n".join("".join(c for c in line if c.isprintable()) for line in lines))
