"""The end of the logs of a training's processes, without secrets."""

from __future__ import annotations

import contextlib
import re
import shlex
from collections.abc import Iterable
from pathlib import Path

from markupsafe import Markup

from tarmac.pages.components import details, paragraph, pre
from tarmac.pages.log_end import log_lines

_LINES = 40
# A traceback may begin before the lines that are shown.
_SEARCHED_LINES = 1000
# A training may have thousands of logs.
_MAX_FILES = 4
_TRACEBACK = "Traceback (most recent call last)"
_RANK = re.compile(r"\brank (\d+)\b")
_RANK_OF_LOG = re.compile(r"rank-(\d+)")


def tails_of_ranks(run: Path, error: str) -> Markup:
    """Return the last lines of the logs of a failed training's processes.

    Logs of ranks that the error names come first, then logs with a traceback, then the newest. At
    most 4 logs are shown and the rest is counted. Empty logs are ignored.

    Args:
        run: Directory of the training, with its ``logs`` folder.
        error: Error text of the training. Logs of the ranks that it names come first.
    """
    named = {int(rank) for rank in _RANK.findall(error)}
    logs = [(file, lines) for file, lines in _read((run / "logs").glob("rank-*"), run) if lines]
    logs.sort(key=lambda log: _weight(log[0], log[1], named), reverse=True)
    shown, left = logs[:_MAX_FILES], logs[_MAX_FILES:]
    body = Markup("").join(
        details(
            f"log-{number}", f"The end of {file.relative_to(run)}", pre("\n".join(lines[-_LINES:]))
        )
        for number, (file, lines) in enumerate(shown)
    )
    if not left:
        return body
    words = f"{len(shown)} of {len(logs):,} logs, those of ranks that failed and the newest first."
    others = sorted(file.name for file, _ in left)
    words += f" Left out: {', '.join(others[:_MAX_FILES])}"
    words += f" and {len(others) - _MAX_FILES:,} more." if len(others) > _MAX_FILES else "."
    return body + paragraph(f"{words} Read all of them: tarmac runs logs {shlex.quote(str(run))}")


def _read(files: Iterable[Path], run: Path) -> Iterable[tuple[Path, list[str]]]:
    return ((file, log_lines(file, _SEARCHED_LINES, run)) for file in sorted(files))


def _weight(file: Path, lines: list[str], named: set[int]) -> tuple[bool, bool, float]:
    """Return a sort key that is larger the more likely a log explains the failure."""
    rank, written_at = _RANK_OF_LOG.match(file.name), 0.0
    with contextlib.suppress(OSError):
        written_at = file.stat().st_mtime
    is_named = rank is not None and int(rank[1]) in named
    return is_named, any(_TRACEBACK in line for line in lines), written_at
