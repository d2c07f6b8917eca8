"""Pages of logs: the end of a file that a run's processes wrote, as plain text."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from urllib.parse import quote

from markupsafe import Markup

from tarmac.errors import TarmacError, quoted
from tarmac.files import masked_end
from tarmac.jobs import learn_marks
from tarmac.pages import Page, Section, message, paragraph, pre
from tarmac.server.addresses import log_address, run_address

# Log files may have gigabytes.
_SHOWN_BYTES = 64 * 1024

# A job may have thousands of tasks.
_SHOWN_FILES = 200

# Sequences that terminals act on: colours and moves (ECMA-48), titles; and invisible characters.
_COMMANDS = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)?|[\x00-\x08\x0b-\x1f\x7f]"
)


def log_names(run: Path, files: Sequence[Path]) -> dict[str, Path]:
    """Return a run's logs by their paths relative to its directory."""
    return {file.relative_to(run).as_posix(): file for file in files if file.is_relative_to(run)}


def log_section(name: str, files: Sequence[str], parts: Sequence[str] = ()) -> Section:
    """Return the section of a run's page that links to its logs.

    Args:
        name: Name of the run, for the links.
        files: Logs of the run; see `log_names`.
        parts: Folders of the run whose subfolders have pages, such as a job's tasks.
    """
    if not files:
        return Section("logs", "Logs", paragraph("It has no log file of its own."))
    folders = dict.fromkeys(file.rpartition("/")[0] for file in files)
    pages = [folder for folder in folders if folder.partition("/")[0] in parts]
    if not pages:
        return Section("logs", "Logs", _links(name, files))
    links = [(f"{run_address(name)}{quote(os.fsencode(folder))}/", folder) for folder in pages]
    return Section("logs", "Tasks and logs", _list(name, links) + _links(name, files))


def log_page(name: str, run: Path, files: Mapping[str, Path], chosen: str) -> Page:
    """Return a page with the end of a log.

    Args:
        name: Name of the run, for the texts and links.
        run: Directory of the run. Files outside of it are not read.
        files: Logs of the run; see `log_names`.
        chosen: Log to show, a key of ``files``.

    Raises:
        TarmacError: The log cannot be read, or lies outside of the run's directory.
    """
    text, is_whole = read_end(files[chosen], run)
    note = "" if is_whole else f"The last {_SHOWN_BYTES // 1024} KiB; the file is longer."
    shown = pre(text) if text else message("plain", "It is still empty.")
    sections = [Section("log", "Printed", shown, note)]
    if len(files) > 1:
        sections.append(
            Section("logs", "Other logs", _links(name, [file for file in files if file != chosen]))
        )
    return Page(
        title=chosen,
        subtitle=f"What a process of {name} has printed",
        head=way_back(name),
        sections=sections,
    )


def way_back(name: str) -> Markup:
    """Return a link to the run's page, for the page of a part of the run."""
    return Markup('<p><a href="{}">Back to {}</a></p>').format(run_address(name), name)


def read_end(file: Path, run: Path) -> tuple[str, bool]:
    """Return the last lines of a log as plain text, and whether that is the whole log.

    Args:
        file: Log file to read, inside ``run``.
        run: Directory that the file must lie in after all links are resolved.

    Raises:
        TarmacError: The file cannot be read, lies elsewhere, or is not a regular file.
    """
    learn_marks(run)
    try:
        return masked_end(file, _SHOWN_BYTES, within=run, plain=_plain)
    except OSError as error:
        raise TarmacError(f"cannot show {file}: {error.strerror}") from error


def _plain(text: str) -> str:
    """Return a text as a terminal shows it in the end."""
    lines = (line.rstrip("\r").rpartition("\r")[2] for line in text.split("\n"))
    return _COMMANDS.sub("", "\n".join(lines))


def _links(name: str, files: Sequence[str]) -> Markup:
    return _list(name, [(log_address(name, file), file) for file in files])


def _list(name: str, links: Sequence[tuple[str, str]]) -> Markup:
    items = Markup("").join(
        Markup('<li><a href="{}">{}</a></li>').format(address, text)
        for address, text in links[:_SHOWN_FILES]
    )
    left = len(links) - _SHOWN_FILES
    more = paragraph(f"And {left:,} more: tarmac runs logs {quoted(name)}") if left > 0 else ""
    return Markup("<ul>{}</ul>{}").format(items, more)
