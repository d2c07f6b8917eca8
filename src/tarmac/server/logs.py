"""What a run's processes have printed: the end of a file, as text that does nothing."""

from __future__ import annotations

import os
import re
import stat
from pathlib import Path
from typing import TYPE_CHECKING

from markupsafe import Markup

from tarmac.errors import TarmacError
from tarmac.masking import masked_text
from tarmac.pages import Page, Section, message, paragraph, pre
from tarmac.server.addresses import log_address, run_address

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["log_names", "log_page", "log_section", "read_end"]

# Of a file that may have gigabytes.
_SHOWN_BYTES = 64 * 1024

# Of a job with thousands of tasks.
_SHOWN_FILES = 200

# What terminals act on: colours and moves (ECMA-48), titles; and characters that show nothing.
_COMMANDS = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)?|[\x00-\x08\x0b-\x1f\x7f]"
)


def log_names(run: Path, files: Sequence[Path]) -> dict[str, Path]:
    """Return a run's logs by their paths from its directory."""
    return {file.relative_to(run).as_posix(): file for file in files if file.is_relative_to(run)}


def log_section(name: str, files: Sequence[str]) -> Section:
    """Return the part of a run's page that leads to its logs."""
    if not files:
        return Section("logs", "Logs", paragraph("It has printed into no file of its own."))
    return Section("logs", "Logs", _links(name, files))


def log_page(name: str, run: Path, files: Mapping[str, Path], chosen: str) -> Page:
    """Return a page with the end of a log.

    Args:
        name: The run's.
        run: Its directory.
        files: Its logs; see `log_names`.
        chosen: Which one of them.

    Raises:
        TarmacError: It cannot be read, or lies elsewhere.
    """
    text, is_whole = read_end(files[chosen], run)
    back = Markup('<p><a href="{}">Back to {}</a></p>').format(run_address(name), name)
    note = "" if is_whole else f"The last {_SHOWN_BYTES // 1024} KiB; the file is longer."
    shown = pre(text) if text else message("plain", "Nothing has been printed into it yet.")
    sections = [Section("log", "Printed", shown, note)]
    if len(files) > 1:
        sections.append(
            Section("logs", "Other logs", _links(name, [file for file in files if file != chosen]))
        )
    return Page(
        title=chosen, subtitle=f"What a process of {name} has printed", head=back, sections=sections
    )


def read_end(file: Path, run: Path) -> tuple[str, bool]:
    """Return the last lines of a log as plain text, and whether they are all of it.

    Args:
        file: The log.
        run: The directory that it must lie in, wherever links lead.

    Raises:
        TarmacError: It cannot be read, lies elsewhere, or is no file.
    """
    try:
        if not Path(os.path.realpath(file, strict=True)).is_relative_to(os.path.realpath(run)):
            raise TarmacError(f"{file.name} lies outside of its run, and is not shown")
        # Neither a link that was put there since, nor a pipe, which would be waited for.
        descriptor = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(descriptor, "rb") as opened:
            found = os.fstat(descriptor)
            if not stat.S_ISREG(found.st_mode):
                raise TarmacError(f"{file.name} is no file")
            start = max(0, found.st_size - _SHOWN_BYTES)
            opened.seek(start)
            content = opened.read(_SHOWN_BYTES)
    except OSError as error:
        raise TarmacError(f"cannot read {file}: {os.strerror(error.errno or 0)}") from error
    if start:
        content = content.partition(b"\n")[2] or content
    return _plain(content.decode("utf-8", "replace")), start == 0


def _plain(text: str) -> str:
    """Return what a terminal would show in the end, without what looks like a secret."""
    lines = (line.rstrip("\r").rpartition("\r")[2] for line in text.split("\n"))
    return masked_text(_COMMANDS.sub("", "\n".join(lines)))


def _links(name: str, files: Sequence[str]) -> Markup:
    items = Markup("").join(
        Markup('<li><a href="{}">{}</a></li>').format(log_address(name, file), file)
        for file in files[:_SHOWN_FILES]
    )
    left = len(files) - _SHOWN_FILES
    more = paragraph(f"And {left:,} more: tarmac runs logs {name}") if left > 0 else ""
    return Markup("<ul>{}</ul>{}").format(items, more)
