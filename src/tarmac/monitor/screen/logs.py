"""The end of the logs of a work."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tarmac.files import masked_end
from tarmac.monitor.drawing import Look, Row, Span

if TYPE_CHECKING:
    from tarmac.monitor.snapshot import Work

# Lines and bytes to read of each file, and number of files, the newest.
_LINES = 200
_FILES = 8
_BYTES = 64 * 1024


def log_rows(work: Work, look: Look, num_lines: int = _LINES) -> list[Row]:
    """Return the last lines of the files that a work prints to, the newest file last.

    Args:
        work: Work on this machine, or on a machine that shares its files.
        look: Settings of the drawing; only its encoding matters here.
        num_lines: Largest number of lines from each file.
    """
    from tarmac.jobs import learn_marks  # noqa: PLC0415 - only logs need it

    learn_marks(Path(work.path))
    rows = []
    for path in _newest(_files_of(work)):
        try:
            text, _ = masked_end(path, _BYTES, within=Path(work.path))
            name = path.relative_to(work.path)
        except (OSError, ValueError):
            continue
        rows.append(Row((), (Span(f"==> {look.clean(str(name))} <==", "title"),)))
        rows += [Row((), (Span(look.clean(line)),)) for line in text.splitlines()[-num_lines:]]
    return rows


def log_page_rows(work: Work, look: Look) -> list[Row]:
    """Return `log_rows` for a page, or a row that says that there is no log."""
    none = (Span("it has no log: it prints to its terminal", "dim"),)
    return log_rows(work, look) or [Row((), none)]


def _files_of(work: Work) -> Sequence[Path]:
    from tarmac.jobs import JOB  # noqa: PLC0415 - only logs need these three
    from tarmac.runs import TRAINING  # noqa: PLC0415
    from tarmac.studies import SEARCH  # noqa: PLC0415

    path = Path(work.path)
    for kind in (TRAINING, SEARCH, JOB):
        if kind.name == work.kind:
            return kind.logs(path)
    return sorted(path.glob("std*"))


def _newest(files: Sequence[Path]) -> list[Path]:
    known = []
    for path in files:
        try:
            status = path.stat()
        except OSError:
            continue
        if status.st_size:
            known.append((status.st_mtime, path))
    return [path for _, path in sorted(known)[-_FILES:]]
