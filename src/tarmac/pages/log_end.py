"""The end of a task's logs, without secrets, and the known failures in them."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Sequence
from pathlib import Path

from markupsafe import Markup

from tarmac.checks import read_tails
from tarmac.files import masked_end
from tarmac.masking import masked_text
from tarmac.pages.components import details, message, pre

_TAIL_BYTES = 2**15
_LONGEST_LINE = 400
# Terminal sequences for colours and cursor positions.
_ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])")
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")


def log_lines(path: Path, most: int, run: Path) -> list[str]:
    """Return the last lines of a log as a terminal shows them, or no lines if it is unreadable.

    Args:
        path: Log file to read, inside ``run``.
        most: Largest number of lines to return.
        run: Directory of the run. Files outside of it are not read.
    """
    with contextlib.suppress(OSError):
        text, _ = masked_end(path, _TAIL_BYTES, within=run, plain=_plain)
        return [_cut(line) for line in text.split("\n") if line.strip()][-most:]
    return []


def log_end(directory: Path, most: int, run: Path) -> Markup:
    """Return the ends of a task's logs, ``stderr`` first; empty if both logs are empty.

    Args:
        directory: Directory of the task, with ``stderr`` and ``stdout``.
        most: Largest number of lines for each log.
        run: Directory of the run. Files outside of it are not read.
    """
    shown = Markup("")
    for name in ("stderr", "stdout"):
        if lines := log_lines(directory / name, most, run):
            shown += Markup('<p class="note">{}</p>').format(f"The end of {name}")
            shown += pre("\n".join(lines))
    return shown


def known_failures(key: str, directory: Path, run: Path) -> Markup:
    """Return the known failures in a task's logs, with causes and commands that fix them.

    Args:
        key: Prefix of the IDs in the markup.
        directory: Directory of the task, with ``stderr`` and ``stdout``.
        run: Directory of the run. Files outside of it are not read.
    """
    failures = read_tails((directory / name for name in ("stderr", "stdout")), within=run)
    return Markup("").join(
        message(
            "bad" if failure.level == "failure" else "warn",
            f"{masked_text(failure.title)} [{failure.code}]",
        )
        + details(f"{key}-{number}", "Why, and what to type", _advice(failure.cause, failure.fix))
        for number, failure in enumerate(failures)
    )


def _advice(cause: str, fix: Sequence[str]) -> Markup:
    text = Markup("<p>{}</p>").format(masked_text(cause))
    return text + (pre(masked_text("\n".join(fix))) if fix else "")


def _plain(text: str) -> str:
    """Return lines as a terminal finally shows them, without overwritten progress bars."""
    lines = (_ESCAPES.sub("", line.rstrip("\r")).rpartition("\r")[2] for line in text.split("\n"))
    return _CONTROLS.sub("", "\n".join(lines))


def _cut(line: str) -> str:
    return line if len(line) <= _LONGEST_LINE else line[:_LONGEST_LINE] + " ..."
