"""The end of what a task has printed, without secrets, and what is known of its failure."""

from __future__ import annotations

import contextlib
import re
from typing import TYPE_CHECKING

from markupsafe import Markup

from tarmac.checks import read_tails
from tarmac.files import masked_end
from tarmac.masking import masked_text
from tarmac.pages.pieces import details, message, pre

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

_TAIL_BYTES = 2**15
_LONGEST_LINE = 400
# Colours, and where the cursor is to go.
_ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])")
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")


def log_lines(path: Path, most: int, run: Path) -> list[str]:
    """Return the last lines of a log, as a terminal would show them; none where it cannot be read.

    Args:
        path: Log file to read, inside ``run``.
        most: Largest number of lines to return.
        run: The run's directory, outside of which nothing is read.
    """
    with contextlib.suppress(OSError):
        text, _ = masked_end(path, _TAIL_BYTES, within=run, plain=_plain)
        return [_cut(line) for line in text.split("\n") if line.strip()][-most:]
    return []


def log_end(directory: Path, most: int, run: Path) -> Markup:
    """Return the ends of a task's logs, the errors first; nothing where it has printed nothing.

    Args:
        directory: Directory of the task, with ``stderr`` and ``stdout``.
        most: Lines of each log, at most.
        run: Directory of the run. Files outside of it are not read.
    """
    shown = Markup("")
    for name in ("stderr", "stdout"):
        if lines := log_lines(directory / name, most, run):
            shown += Markup('<p class="note">{}</p>').format(f"The end of {name}")
            shown += pre("\n".join(lines))
    return shown


def known_failures(key: str, directory: Path, run: Path) -> Markup:
    """Return what the catalogue of failures knows of a task's logs, with what to type.

    Args:
        key: Begins the ids of what it returns.
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
    """Return lines as a terminal shows them in the end: what a progress bar wrote over is gone."""
    lines = (_ESCAPES.sub("", line.rstrip("\r")).rpartition("\r")[2] for line in text.split("\n"))
    return _CONTROLS.sub("", "\n".join(lines))


def _cut(line: str) -> str:
    return line if len(line) <= _LONGEST_LINE else line[:_LONGEST_LINE] + " ..."
